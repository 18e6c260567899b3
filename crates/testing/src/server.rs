//! A server inside the test.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use steadfast_engine::{Engine, Simulated, Timestamp};
use steadfast_mcp::{Running, Server};
use steadfast_store::Disk;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    cut::Line,
    home::Home,
    mortal::Mortal,
    place::{Place, free_port},
    wait::{clock_is_paused, soon},
};

/// A server inside the test, which can be stopped, killed and started again on the same store and the
/// same port.
///
/// It is made anew for each of its lives, by the closure that it is given. What the closure shares with
/// the test, such as [`Effects`](crate::Effects), outlives them all.
///
/// ```
/// use serde_json::json;
/// use steadfast::{prelude::*, testing::TestServer};
///
/// /// Greets somebody.
/// #[tool]
/// async fn greet(ctx: Context, name: String) -> Result<String> {
///     ctx.step("look up", || async { Ok::<_, Error>(format!("Hello, {name}!")) }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut server = TestServer::new(|| Server::new("greeter").tool(greet));
/// server.up().await;
/// let client = server.client().await;
/// let result = client.call("greet", json!({ "name": "Ada" })).await.unwrap();
/// assert_eq!(result.text(), "Hello, Ada!");
/// server.kill_and_restart().await;
/// assert!(client.call("greet", json!({ "name": "Bob" })).await.is_ok());
/// server.down().await;
/// # }
/// ```
pub struct TestServer {
    make: Box<dyn Fn() -> Server + Send + Sync>,
    place: Place,
    pub(crate) reach: Reach,
    drain: Duration,
    lives: u64,
    life: Option<Life>,
}

const HOUR: Duration = Duration::from_secs(3600);

/// How time passes, and so how the server can be reached.
pub(crate) enum Reach {
    Http(SocketAddr),
    /// Since when time is counted.
    Virtual(Option<Instant>),
}

/// One life of it.
pub(crate) struct Life {
    pub(crate) running: Running,
    pub(crate) line: Line,
    store: Arc<Mortal>,
    /// Over HTTP.
    served: Option<(Home, JoinHandle<()>)>,
}

impl Life {
    /// Spawns something that ends with this life.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let _inside = self.served.as_ref().map(|(home, _)| home.enter());
        tokio::spawn(future)
    }
}

impl TestServer {
    /// One with its store in memory, over HTTP on loopback. It is not up yet.
    pub fn new(make: impl Fn() -> Server + Send + Sync + 'static) -> TestServer {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        TestServer {
            make: Box::new(make),
            place: Place::Memory(Disk::new()),
            reach: Reach::Http(address),
            drain: Duration::from_secs(10),
            lives: 0,
            life: None,
        }
    }

    /// One whose time is tokio's paused clock: weeks pass as soon as nobody has anything to do, or when
    /// the test says so with `tokio::time::advance`. For tests with `#[tokio::test(start_paused = true)]`,
    /// which need tokio's feature `test-util`.
    ///
    /// Timers, deadlines, retries and retention go by that clock, also over a kill. Ids are the same in
    /// each run. The store is in memory, and there is no HTTP: a real socket has nothing to do with a
    /// clock that jumps, so that each wait for it would look like a timeout. Tools are driven with
    /// [`start`](TestServer::start) and what goes with it, or by a client over a [`pipe`](TestServer::pipe).
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::{prelude::*, testing::{TestServer, text}};
    ///
    /// /// Waits for a week.
    /// #[tool]
    /// async fn patience(ctx: Context) -> Result<String> {
    ///     ctx.sleep(Duration::from_secs(7 * 24 * 3600)).await;
    ///     Ok("a week later".into())
    /// }
    ///
    /// # fn main() {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    /// # runtime.unwrap().block_on(async {
    /// let mut server = TestServer::in_virtual_time(|| Server::new("slow").tool(patience));
    /// server.up().await;
    /// let task = server.start("patience", &()).await;
    /// server.kill_and_restart().await;
    /// assert_eq!(text(&server.wait(&task).await), "a week later");
    /// # }) }
    /// ```
    pub fn in_virtual_time(make: impl Fn() -> Server + Send + Sync + 'static) -> TestServer {
        TestServer { reach: Reach::Virtual(None), ..TestServer::new(make) }
    }

    /// Its store is a SQLite file, in a directory that goes with this.
    ///
    /// # Panics
    /// In virtual time: SQLite has threads of its own, for which the clock does not wait.
    #[must_use]
    pub fn on_sqlite(mut self) -> TestServer {
        let real = matches!(self.reach, Reach::Http(_));
        assert!(real, "virtual time needs the store in memory");
        self.place = Place::sqlite();
        self
    }

    /// How long [`down`](TestServer::down) waits for calls and steps in flight (10 s).
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> TestServer {
        self.drain = drain;
        self
    }

    /// Starts it. What was durable in its last life goes on.
    ///
    /// # Panics
    /// If it is up, or can't be started; or if the clock is paused and should not be, or the other way
    /// round.
    pub async fn up(&mut self) {
        assert!(self.life.is_none(), "the server is up already");
        let paused = clock_is_paused();
        let store = Arc::new(Mortal::new(self.place.open()));
        let mut engine = Engine::builder(store.clone());
        let mut server = (self.make)();
        if let Reach::Virtual(begun) = &mut self.reach {
            assert!(paused, "virtual time needs #[tokio::test(start_paused = true)]");
            let begun = begun.get_or_insert_with(Instant::now);
            // The same clock as in the life before, and other dice.
            let now = Timestamp(1_800_000_000_000).plus(begun.elapsed());
            engine = engine.world(Simulated::new(now, self.lives));
            // There is no other process that could die, and a look each second would make weeks long.
            server = server.engine(|mut engine| {
                engine.settings_mut().look_for_dead_every = HOUR;
                engine
            });
        } else {
            assert!(!paused, "over HTTP the clock must run: see TestServer::in_virtual_time");
        }
        let begin = || match server.start(engine) {
            Ok(running) => running,
            Err(error) => panic!("the server can't be started: {error}"),
        };
        let (running, served) = match self.reach {
            Reach::Http(address) => {
                let home = Home::new();
                let running = {
                    let _inside = home.enter();
                    begin()
                };
                let serving = home.serve(address, &running);
                (running, Some((home, serving)))
            }
            Reach::Virtual(_) => (begin(), None),
        };
        self.lives += 1;
        self.life = Some(Life { running, line: Line::default(), store, served });
    }

    /// Stops it in good order, as a deploy does: calls and steps in flight are given some time, and tasks
    /// go on when it is up again.
    ///
    /// # Panics
    /// If it is not up.
    pub async fn down(&mut self) {
        let Life { running, line, store, mut served } = self.end();
        running.drain();
        if let Some((_, serving)) = &mut served {
            let _ = tokio::time::timeout(self.drain, serving).await;
        }
        running.shutdown(self.drain).await;
        drop(running);
        // Connections that are still open when the time is over are cut.
        if let Some((home, _)) = served {
            home.end().await;
        }
        line.cut().await;
        store.kill().dead().await;
    }

    /// Kills it: nothing it still does reaches the store, connections break, futures are dropped where
    /// they wait. When this returns nothing of it runs any more; in virtual time, except what its code
    /// spawned itself.
    ///
    /// Code that is at no `.await` is not stopped in the middle; for that there is
    /// [`TestProcess`](crate::TestProcess).
    ///
    /// # Panics
    /// If it is not up, or its code comes to no `.await`.
    pub async fn kill(&mut self) {
        let Life { running, line, store, served } = self.end();
        let dying = store.kill();
        if let Some((home, _)) = served {
            home.end().await;
        }
        line.cut().await;
        // With its store dead, a shutdown is no more than the wait for futures to be dropped.
        soon("the killed server's tools to stop", running.shutdown(Duration::ZERO)).await;
        drop(running);
        dying.dead().await;
    }

    /// Stops it in good order, if it is up, and starts it.
    pub async fn restart(&mut self) {
        if self.is_up() {
            self.down().await;
        }
        self.up().await;
    }

    /// Kills it, and starts it.
    pub async fn kill_and_restart(&mut self) {
        self.kill().await;
        self.up().await;
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.life.is_some()
    }

    fn end(&mut self) -> Life {
        self.life.take().unwrap_or_else(|| panic!("the server is not up"))
    }

    pub(crate) fn life(&self) -> &Life {
        self.life.as_ref().unwrap_or_else(|| panic!("the server is not up"))
    }

    /// The server of this life, for what else can be done with one.
    ///
    /// # Panics
    /// If it is not up.
    #[must_use]
    pub fn running(&self) -> &Running {
        &self.life().running
    }
}
