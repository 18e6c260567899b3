//! Opening a handle, and the thread that serves it.

use std::{sync::Arc, thread::JoinHandle};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use super::Store;
use crate::{
    OpenError, Options,
    address::Address,
    conn::Conn,
    core::{Core, stand_up},
    join::Pool,
    lane::Lane,
    life::live,
    read::Readers,
    schema, solo,
    writer::Writer,
};

/// The thread of a handle. It ends when the queue is closed and empty, or at once when it is told.
pub(super) struct Life {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Life {
    /// Ends it, and waits until nothing more is written.
    pub(super) fn end(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// What a handle is made of, apart from its thread.
struct Parts {
    core: Arc<Core>,
    solo: solo::Desk,
    sweeper: solo::Desk,
}

impl Store {
    pub(crate) async fn begin(options: Options) -> Result<Store, OpenError> {
        let (opened, open) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let failed = |e: std::io::Error| OpenError::Failed(format!("no thread for it: {e}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let thread = std::thread::Builder::new().name("steadfast-postgres".into());
        let serve = move || runtime.block_on(serve(options, opened, stopped));
        let thread = thread.spawn(serve).map_err(failed)?;
        let parts = match open.await {
            Ok(parts) => parts?,
            Err(_) => return Err(OpenError::Failed("its thread has died".into())),
        };
        Ok(Store {
            readers: Readers::new(Arc::clone(&parts.core)),
            pool: Pool::new(&parts.core),
            core: parts.core,
            solo: parts.solo,
            sweeper: parts.sweeper,
            life: std::sync::Mutex::new(Some(Life { stop, thread })),
        })
    }
}

/// Opens, says how that went, and serves until the end.
async fn serve(
    options: Options,
    opened: oneshot::Sender<Result<Parts, OpenError>>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (parts, [first, second], heart) = match open(options).await {
        Ok(all) => all,
        Err(error) => return drop(opened.send(Err(error))),
    };
    let core = Arc::clone(&parts.core);
    let _gone = Gone(Arc::clone(&core));
    if opened.send(Ok(parts)).is_err() {
        // Whoever opened it gave up meanwhile.
        return;
    }
    let living = tokio::spawn(live(Arc::clone(&core), heart));
    tokio::select! {
        _ = stop(&mut stopped) => {}
        ((), ()) = async { tokio::join!(first.work(), second.work()) } => {}
    }
    living.abort();
}

/// However the thread ends, nobody waits for it any more.
struct Gone(Arc<Core>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.queue.close(true);
    }
}

/// Waits for the word to stop; a handle that is dropped says nothing.
async fn stop(stopped: &mut oneshot::Receiver<()>) {
    if stopped.await.is_err() {
        std::future::pending().await
    }
}

type Opened = (Parts, [Writer; 2], (Conn, crate::address::Wire));

async fn open(options: Options) -> Result<Opened, OpenError> {
    let address = Arc::new(Address::parse(&options)?);
    let [writing, solo] = Conn::open_two(&address, &options).await?;
    schema::ready(&writing.client, &options).await?;
    let second = Conn::open(&address, &options).await?;
    let heart = Conn::open_wire(&address, &options).await?;
    let core = Core::new(options, address, &writing, Handle::current())
        .await
        .map_err(|e| OpenError::failed(&e))?;
    // Who closes a store to move it looks for desks after that. So either it sees this one, or this one sees
    // that the store is closed.
    if let Err(error) = schema::refuse_moved(&writing.client, &core.options).await {
        stand_up(&writing, core.desk()).await;
        return Err(error);
    }
    let lane = |number, conn| Lane::new(Arc::clone(&core), number, Some(conn));
    let writers = [Writer(lane(0, writing)), Writer(lane(1, second))];
    let solo = solo::Desk::new(lane(2, solo));
    let sweeper = solo::Desk::new(Lane::new(Arc::clone(&core), 3, None));
    Ok((Parts { core, solo, sweeper }, writers, heart))
}
