//! A test kit for those who write Steadfast servers: `steadfast::testing`, with the feature `testing`.
//!
//! ```toml
//! [dev-dependencies]
//! steadfast = { version = "0.1", features = ["testing"] }
//! tokio = { version = "1", features = ["full", "test-util"] }
//! ```
//!
//! * [`TestServer`] is a server inside the test, in real time over HTTP or in virtual time. It goes
//!   [`up`](TestServer::up) and [`down`](TestServer::down), and can be [killed](TestServer::kill) at any
//!   moment; it comes back on the same store and the same port.
//! * [`TestProcess`] is the same for your program, with a real `kill -9`.
//! * [`client`] drives both, and survives what they survive. In virtual time tools are driven from Rust
//!   ([`TestServer::start`], [`TestServer::wait`], [`TestServer::asked`]), or over a [`Pipe`].
//! * [`Effects`] counts what really happened, over all lives of a server.
//! * [`until`], [`soon`] and [`within`] wait for things, and say what they waited for in vain.
//!
//! A step that is killed in the middle runs again, unless it is at most once. So a test that counts says
//! where the kill falls: in a step, which waits for the test behind its effect; or between steps, at a
//! question, a sleep or an event.
//!
//! ```
//! use steadfast::{prelude::*, testing::{Effects, TestServer, text}};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Approval { approved: bool }
//!
//! fn orders(effects: Effects) -> Server {
//!     Server::new("orders").tool(Tool::new("order", move |ctx: Context, _: NoInput| {
//!         let effects = effects.clone();
//!         async move {
//!             ctx.step("reserve", || async { Ok::<_, Error>(effects.add("reserve")) }).await?;
//!             let reply = ctx.ask::<Approval>("Approve it?").await?;
//!             if !reply.accepted().is_some_and(|answer| answer.approved) {
//!                 return Ok("rejected".to_owned());
//!             }
//!             ctx.step("charge", || async { Ok::<_, Error>(effects.add("charge")) }).await?;
//!             Ok("charged".to_owned())
//!         }
//!     }))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let effects = Effects::new();
//! let shared = effects.clone();
//! let mut server = TestServer::new(move || orders(shared.clone()));
//! server.up().await;
//! let task = server.start("order", &()).await;
//! let question = server.asked(&task).await;
//! server.kill_and_restart().await;
//! server.answer(&task, &question, serde_json::json!({ "approved": true })).await;
//! assert_eq!(text(&server.wait(&task).await), "charged");
//! effects.assert_exactly([("reserve", 1), ("charge", 1)]);
//! # }
//! ```
//!
//! Panics are how a test kit reports: everything here panics, and says why, where a test can't go on.

mod cut;
mod drive;
mod effects;
mod home;
mod mortal;
mod pipe;
mod place;
mod process;
mod reach;
mod server;
mod wait;

pub use drive::{result, text};
pub use effects::Effects;
pub use pipe::Pipe;
pub use process::TestProcess;
pub use server::TestServer;
pub use steadfast_client as client;
pub use wait::{soon, until, within};
