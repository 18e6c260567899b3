//! rmcp over HTTP with one trivial tool, as its own documentation serves it, with TCP_NODELAY.

use axum::serve::ListenerExt;
use rmcp::{
    ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{ServerCapabilities, ServerConfig},
    schemars, tool, tool_handler, tool_router,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

#[derive(Clone)]
struct Adder {
    tool_router: ToolRouter<Adder>,
}

#[tool_router]
impl Adder {
    fn new() -> Adder {
        Adder { tool_router: Adder::tool_router() }
    }

    #[tool(description = "Adds two numbers.")]
    async fn add(&self, Parameters(pair): Parameters<Pair>) -> String {
        (pair.a + pair.b).to_string()
    }
}

// Made once, and not for each call.
#[tool_handler(router = self.tool_router)]
impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

/// Serves until it is killed, and says where.
pub(crate) async fn serve() -> crate::Result<()> {
    let service = StreamableHttpService::new(
        || Ok(Adder::new()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let listener = listener.tap_io(|tcp| {
        // Only slower without it.
        let _ = tcp.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}
