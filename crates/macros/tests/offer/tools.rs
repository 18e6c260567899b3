//! Tools as clients see and call them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steadfast::prelude::*;

use crate::client::{Client, named};

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

/// Submit a purchase order.
///
/// Orders over $1,000
///   need approval.
#[tool(
    title = "Purchase order",
    icon = "https://example.com/a.png",
    icon = "https://example.com/b.png",
    retention = "7d",
    max_age = "forever",
    poll_interval = "250ms",
    task = "optional",
    tags(team = "sales", region = "eu"),
    tag("cost-center" = "12"),
    version = 3,
    oldest_version = 1
)]
async fn purchase_order(ctx: Context, order: Order) -> Result<String> {
    let order = &order;
    let item = ctx.step("reserve", || async move { Ok::<_, Error>(order.item.clone()) }).await?;
    Ok(format!("{} x {item}", order.count))
}

/// What is shown by `name` is not what it is called here.
#[tool(
    name = "sum",
    description = "Adds up.",
    read_only,
    destructive = false,
    idempotent,
    open_world = false
)]
async fn add(
    /// The first number.
    a: i64,
    /// The second,
    /// which may be left out.
    #[default(40 + 2)]
    b: i64,
    c: Option<i64>,
) -> Result<i64> {
    Ok(a + b + c.unwrap_or(0))
}

#[tool]
async fn greet(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

/// A parameter of the function's own name, and a keyword.
#[tool]
async fn echo(_: Context, echo: String, r#type: Option<String>) -> Result<String> {
    let echo = echo + r#type.as_deref().unwrap_or("");
    Ok(echo)
}

/**
 * Answers.
 *
 *   * At once.
 */
#[tool]
async fn ping() -> Result<&'static str> {
    Ok("pong")
}

#[tool]
async fn durable_ping(mut ctx: Context) -> Result<Structured<BTreeMap<String, bool>>> {
    ctx = ctx.clone();
    ctx.step("nothing", || async { Ok::<_, Error>(()) }).await?;
    Ok(Structured(BTreeMap::from([("pong".to_owned(), true)])))
}

#[tool]
async fn defaults(
    #[default("EUR")] currency: String,
    #[default] count: u32,
    #[serde(default = "one", rename = "howMany")] how_many: u32,
) -> Result<String> {
    Ok(format!("{currency} {count} {how_many}"))
}

/// A single parameter with a default is a field, struct or not.
#[tool]
async fn only_field(
    #[default(Order { item: "lamp".into(), count: 2 })] order: Order,
) -> Result<String> {
    Ok(order.item)
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[tool]
async fn area(shape: Shape) -> Result<f64> {
    Ok(match shape {
        Shape::Circle { radius } => 3.0 * radius * radius,
        Shape::Square { side } => side * side,
    })
}

/// Errors of others turn into ours.
#[tool]
async fn parse(number: String) -> std::result::Result<u32, std::num::ParseIntError> {
    number.parse()
}

mod elsewhere {
    use steadfast::prelude::{Result, tool};

    /// In a module, for others to offer, with the least of imports.
    #[tool]
    pub(crate) async fn far(a: u8, b: u8) -> Result<u8> {
        Ok(a.max(b))
    }
}
use elsewhere::far;

fn client() -> Client {
    let server = Server::new("test")
        .tool(purchase_order)
        .tool(add)
        .tool(greet)
        .tool(echo)
        .tool(ping)
        .tool(durable_ping)
        .tool(defaults)
        .tool(only_field)
        .tool(area)
        .tool(parse)
        .tool(far().title("Far away"));
    Client::of(server)
}

async fn tools() -> Value {
    client().ask("tools/list", json!({})).await["tools"].take()
}

async fn call(client: &Client, name: &str, arguments: Value) -> String {
    let result = client.ask("tools/call", json!({ "name": name, "arguments": arguments })).await;
    assert_ne!(result["isError"], true, "{name}: {result}");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_tool_is_shown_with_what_its_function_says() {
    let tools = tools().await;
    let tool = named(&tools, "purchase_order");
    assert_eq!(tool["title"], "Purchase order");
    assert_eq!(
        tool["description"],
        "Submit a purchase order.\n\nOrders over $1,000\n  need approval."
    );
    assert_eq!(tool["inputSchema"]["required"], json!(["item"]));
    assert_eq!(tool["inputSchema"]["properties"]["count"]["default"], 1);
    assert_eq!(tool["icons"][1]["src"], "https://example.com/b.png");
    assert!(tool.get("annotations").is_none());
    assert!(named(&tools, "greet").get("description").is_none());
    assert_eq!(named(&tools, "ping")["description"], "Answers.\n\n  * At once.");
    assert_eq!(named(&tools, "far")["title"], "Far away");
}

#[tokio::test]
async fn parameters_are_fields_with_descriptions_and_defaults() {
    let tools = tools().await;
    let tool = named(&tools, "sum");
    assert_eq!(tool["description"], "Adds up.");
    assert_eq!(
        tool["annotations"],
        json!({
            "readOnlyHint": true, "destructiveHint": false,
            "idempotentHint": true, "openWorldHint": false,
        })
    );
    let schema = &tool["inputSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["a"]));
    assert_eq!(schema["properties"]["a"]["description"], "The first number.");
    let b = &schema["properties"]["b"];
    assert_eq!(b["description"], "The second,\nwhich may be left out.");
    assert_eq!(b["default"], 42);
    let fields = &named(&tools, "defaults")["inputSchema"]["properties"];
    assert_eq!(fields["currency"]["default"], "EUR");
    assert_eq!(fields["count"]["default"], 0);
    assert_eq!(fields["howMany"]["default"], 1);
    let one = |name: &str| named(&tools, name)["inputSchema"]["properties"].clone();
    assert!(one("greet").get("name").is_some());
    assert!(one("echo").get("type").is_some());
    assert!(one("only_field").get("order").is_some());
    assert!(one("purchase_order").get("order").is_none());
    assert!(named(&tools, "area")["inputSchema"].get("oneOf").is_some());
}

#[tokio::test]
async fn every_form_of_input_can_be_called() {
    let client = client();
    let call = async |name: &str, arguments: Value| call(&client, name, arguments).await;
    assert_eq!(call("purchase_order", json!({ "item": "lamp" })).await, "1 x lamp");
    assert_eq!(call("sum", json!({ "a": 1 })).await, "43");
    assert_eq!(call("sum", json!({ "a": 1, "b": 2, "c": 3 })).await, "6");
    assert_eq!(call("greet", json!({ "name": "Ada" })).await, "Hello, Ada!");
    assert_eq!(call("echo", json!({ "echo": "a", "type": "b" })).await, "ab");
    assert_eq!(call("echo", json!({ "echo": "a" })).await, "a");
    assert_eq!(call("ping", json!({})).await, "pong");
    assert_eq!(call("durable_ping", json!({})).await, r#"{"pong":true}"#);
    assert_eq!(call("defaults", json!({})).await, "EUR 0 1");
    assert_eq!(call("only_field", json!({})).await, "lamp");
    assert_eq!(call("area", json!({ "kind": "square", "side": 3.0 })).await, "9");
    assert_eq!(call("far", json!({ "a": 1, "b": 2 })).await, "2");
    assert_eq!(call("parse", json!({ "number": "12" })).await, "12");
    let wrong =
        client.ask("tools/call", json!({ "name": "parse", "arguments": { "number": "x" } })).await;
    assert_eq!(wrong["isError"], true);
}

#[tokio::test]
async fn the_tasks_of_a_durable_tool_have_its_tags_version_and_retention() {
    let client = client();
    call(&client, "purchase_order", json!({ "item": "lamp" })).await;
    let tasks = client.server.engine().tasks(client.principal.clone());
    let tag = Some(("cost-center".into(), "12".into()));
    let listed = tasks.list(ListTasks { tag, ..ListTasks::default() }).await.expect("a list");
    let task = tasks.get(&listed.tasks[0].id).await.expect("a task");
    assert_eq!((task.version, task.status), (Some(3), Status::Completed));
    assert_eq!((task.tags["team"].as_str(), task.tags["region"].as_str()), ("sales", "eu"));
    let (ended, expires) = (task.ended.expect("an end"), task.expires.expect("an expiry"));
    assert_eq!(expires, Ttl::days(7).expiry(ended).expect("a time"));
}

#[tokio::test]
async fn a_function_can_still_be_called() {
    assert_eq!(add::call(1, 2, Some(3)).await, Ok(6));
    let far = far::call(4, 5).await;
    assert_eq!(far, Ok(5));
}
