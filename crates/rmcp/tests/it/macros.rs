//! A handler as rmcp's macros make it.

use rmcp::{ServerHandler, handler::server::wrapper::Parameters, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use steadfast_mcp::Server;

use crate::site::Site;

struct Adder;

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

#[tool_router]
impl Adder {
    #[tool(description = "Adds two numbers.", annotations(idempotent_hint = true))]
    fn add(&self, Parameters(Pair { a, b }): Parameters<Pair>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Adder {}

#[tokio::test]
async fn a_handler_of_macros_is_served_and_made_durable() {
    let adapted = steadfast_rmcp::adapt(Adder).await.unwrap().durable("add").unwrap();
    let site = Site::start(adapted.add_to(Server::new("test"))).await;
    let tools = site.listed("tools/list", "tools").await;
    assert_eq!(tools[0]["description"], "Adds two numbers.");
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["a", "b"]));
    let task = site.task("add", json!({ "a": 2, "b": 3 })).await;
    assert_eq!(site.end(&task).await["result"]["content"][0]["text"], "5");
}
