//! The way of one process to the database, which can be cut.

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Connections are dropped, and new ones refused.
    Closed,
    /// Nothing passes, and nobody is told.
    Silent,
}

/// A port behind which the database is, as long as the way is open.
pub(crate) struct Gate {
    pub(crate) port: u16,
    way: watch::Sender<Way>,
}

impl Gate {
    pub(crate) async fn to(database: u16) -> std::io::Result<Gate> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let (way, is) = watch::channel(Way::Open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Whoever is not let in is dropped.
                if *is.borrow() != Way::Closed {
                    tokio::spawn(pass(client, database, is.clone()));
                }
            }
        });
        Ok(Gate { port, way })
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

/// Ends when one side has closed the connection, or nobody is let through any more.
async fn pass(client: TcpStream, database: u16, mut way: watch::Receiver<Way>) {
    let (up, down) = (way.clone(), way.clone());
    let connected = async {
        open(&mut up.clone()).await?;
        let server = TcpStream::connect(("127.0.0.1", database)).await.ok()?;
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::select! {
            () = copy(from_client, to_server, up) => {}
            () = copy(from_server, to_client, down) => {}
        }
        Some(())
    };
    tokio::select! {
        _ = connected => {}
        _ = way.wait_for(|way| *way == Way::Closed) => {}
    }
}

async fn open(way: &mut watch::Receiver<Way>) -> Option<()> {
    way.wait_for(|way| *way == Way::Open).await.ok().map(drop)
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut way: watch::Receiver<Way>,
) {
    let mut buffer = vec![0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if open(&mut way).await.is_none() || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
