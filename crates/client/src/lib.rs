//! An MCP client for those who test or script durable servers. It speaks both generations of tasks, and
//! survives what its servers survive: a broken connection, a `kill -9`, a restart of its own.
//!
//! ```no_run
//! use serde_json::json;
//! use steadfast_client::{Answer, Client, Revision};
//!
//! # async fn example() -> Result<(), steadfast_client::Error> {
//! let client = Client::connect("http://127.0.0.1:8787/mcp").await?;
//! let result = client
//!     .call("purchase_order", json!({ "item": "desk lamp", "amount": 1200 }))
//!     .as_task()
//!     .on_question(|_| async { Answer::Accept(json!({ "approved": true })) })
//!     .await?;
//! println!("{}", result.text());
//!
//! // A session, whose calls are waited for on a stream.
//! let client = Client::connect("http://127.0.0.1:8787/mcp").revision(Revision::V2025_11_25).await?;
//! let call = client.call("purchase_order", json!({ "item": "desk lamp", "amount": 12 }));
//! let bookmark = call.bookmark();
//! let result = call.on_progress(|progress| println!("{progress:?}")).await;
//! // If this process dies meanwhile, another goes on from what the bookmark said:
//! # let (url, session) = ("", "");
//! if let (Err(_), Some(event)) = (&result, bookmark.last_event_id()) {
//!     let client = Client::reconnect(url, session, Revision::V2025_11_25).await?;
//!     let result = client.resume(&event).await?;
//! }
//! # Ok(()) }
//! ```
//!
//! * [`Client::connect`] and [`Client::reconnect`] make a client, [`Client::call`] a [`Call`].
//! * [`TaskHandle`] is a task: look at it, wait for it, answer it, cancel it.
//! * [`wire`] is what is below, for those who pass messages on.

mod asking;
mod bookmark;
mod call;
mod cancel;
mod client;
mod connect;
mod conversation;
mod error;
mod event_stream;
mod handlers;
mod question;
mod result;
mod revision;
mod sending;
mod task;
mod wait;
pub mod wire;

pub use bookmark::Bookmark;
pub use call::{Call, IDEMPOTENCY_KEY, Resume, Started};
pub use cancel::Canceller;
pub use client::Client;
pub use connect::Connect;
pub use error::{Error, RpcError};
pub use event_stream::EventStream;
pub use handlers::{Log, Progress};
pub use question::{Answer, Question, Wants};
pub use result::CallResult;
pub use revision::Revision;
pub use sending::is_repeatable;
pub use task::{Status, TaskHandle, TaskState};
pub use wait::Wait;
