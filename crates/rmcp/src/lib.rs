//! An existing [rmcp] server behind a Steadfast endpoint, next to durable tools.
//!
//! The handler stays as it is. Its tools, prompts and resources are offered by a
//! [`Server`](steadfast_mcp::Server) to every client that Steadfast knows, and tools of it can be made
//! durable:
//!
//! ```
//! use rmcp::{ServerHandler, model::{ServerCapabilities, ServerConfig}};
//! use steadfast_mcp::Server;
//!
//! struct Shop;
//!
//! impl ServerHandler for Shop {
//!     fn get_info(&self) -> ServerConfig {
//!         ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let shop = steadfast_rmcp::adapt(Shop)
//!     .await?
//!     .durable_where(|tool| tool.name.starts_with("order_"));
//! let server = shop.add_to(Server::new("shop"));
//! # Ok(()) }
//! ```
//!
//! Start the server as any other, and call [`Adapted::follow`] with it if what the handler offers can
//! change.
//!
//! # Durable tools
//! A call of a tool that was [made durable](Adapted::durable) is a task, and the call of the handler is
//! its one step. The step runs **at most once**: if the process dies in the middle, the task fails with
//! an error that says that the call may have taken effect. A tool whose annotations say that it is
//! read-only or idempotent is called again instead. Errors of the handler are not tried again. A result
//! must not be larger than the engine's limit of a payload.
//!
//! # What the handler sees
//! One client that speaks MCP 2025-11-25 and can do nothing: the handler does not see who calls, nor the
//! `_meta` of their requests. If a caller of a plain tool goes away, its call is cancelled as rmcp has
//! it, by the `ct` of its context.
//!
//! Not passed on yet:
//! * Requests to the client (sampling, elicitation, roots, and results that require input) fail with an
//!   error that says so. Durable tools of Steadfast can ask: [`Context::ask`](steadfast_mcp::Context::ask).
//! * Progress and log messages are dropped.
//! * Only URIs that the handler lists, or has a template for, can be read, and only changes of those that
//!   it lists are followed.
//!
//! The in-memory connection ends when the handler's task does. From then on every call fails with an
//! error that says so.

mod adapted;
mod asked;
mod error;
mod follow;
mod guard;
mod link;
mod listing;
mod offer;
mod pair;
mod results;

pub use adapted::{Adapted, adapt};
pub use error::Error;
pub use listing::ToolInfo;
