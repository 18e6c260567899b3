//! The Model Context Protocol in front of the engine: one durable tool, every client.
//!
//! * [`Tool`], [`Prompt`], [`Resource`] and [`Template`] are what a server offers; [`Server`] puts
//!   them together, and [`Running`] serves them over HTTP ([`Running::router`]) and stdio
//!   ([`Running::serve_stdio`]).
//! * [`Context`] is what a durable tool can do: all of the engine's, and what needs a client, such as
//!   questions.

mod activity;
mod ask;
mod audit;
mod catalog;
mod client;
mod connection;
mod context;
mod freed;
mod front;
mod http;
mod identity;
mod limiter;
#[doc(hidden)]
pub mod macros;
mod method;
mod notices;
mod outlet;
mod pulse;
mod repeat;
mod secret;
mod server;
mod session;
mod settings;
mod stdio;
mod wire;

pub use activity::OfCall;
pub use ask::{
    AnswerProgress, Ask, AskRoots, AskSample, AskUrl, Root, RootsWatch, Sample, SampleMessage,
    SampleReply, UrlReply,
};
pub use catalog::{
    Completing, NoInput, Output, Prompt, PromptArgument, PromptMessage, PromptOutput, PromptResult,
    Resource, ResourceOutput, Structured, TaskSupport, Template, Tool, ToolAnnotations, Unfit,
};
pub use client::Caller;
pub use context::{Context, protocol_error};
pub use http::{Auth, Bearer};
pub use identity::Identity;
pub use secret::{BadKey, CredentialKey, Secret};
pub use server::{Running, Server};
pub use settings::Settings;
pub use wire::{Annotations, CallResult, Content, Contents, Icon, Id, Revision, Role, RpcError};
