//! Serving the endpoint on a listener.
//!
//! Much as `axum::serve` does; but that has no limit on what the head of a request may take, in bytes or in
//! time, and looks for HTTP/2 first, which leaves every connection with twice the memory.

use std::{io, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};

use crate::settings::Settings;

/// How long to wait when the system has no more connections to give.
const OUT_OF_CONNECTIONS: Duration = Duration::from_secs(1);

/// Serves until `stop` ends, and then until all connections are closed: those that are idle at once, others
/// when their response is sent.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    settings: &Settings,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(settings.head_time)
        // The builder refuses less.
        .max_buf_size(settings.max_head.max(8_192));
    let http = Arc::new(http);
    // Once for all connections: they share the routes.
    let service = TowerToHyperService::new(router.into_service::<Body>());
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let tcp = tokio::select! {
            tcp = accept(&listener) => tcp,
            () = &mut stop => break,
        };
        // Or every event of a stream waits for the one before to be acknowledged.
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY can't be set");
        }
        let service = hyper::service::service_fn({
            let service = service.clone();
            move |request: hyper::Request<hyper::body::Incoming>| {
                hyper::service::Service::call(&service, request.map(Body::new))
            }
        });
        let connection = graceful.watch(http.serve_connection(TokioIo::new(tcp), service));
        tokio::spawn(async move {
            // A client that goes away, or sends what is no HTTP: it has been told if it could be.
            if let Err(error) = connection.await {
                tracing::trace!(%error, "a connection failed");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

/// The next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => return tcp,
            Err(error) if went_away(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be taken; trying again");
                tokio::time::sleep(OUT_OF_CONNECTIONS).await;
            }
        }
    }
}

/// Whether it is the client's doing.
fn went_away(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}
