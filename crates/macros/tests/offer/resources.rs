//! Resources and templates as clients see and read them.

use serde_json::{Value, json};
use steadfast::prelude::*;

use crate::client::{Client, named};

/// How to pay.
#[resource(
    "orders://terms",
    title = "Terms",
    mime_type = "text/markdown",
    icon = "https://example.com/a.png"
)]
async fn terms() -> Result<&'static str> {
    Ok("# Terms")
}

#[resource("orders://own", name = "own-uri")]
async fn own(uri: String) -> Result<Vec<u8>> {
    Ok(uri.into_bytes())
}

async fn ids(typed: Completing) -> Result<Vec<String>> {
    Ok(vec![format!("{}0", typed.value)])
}

/// The invoice of an order.
#[resource("orders://{id}/{type}/invoice", description = "An invoice.", complete(id = ids))]
async fn invoice(r#type: String, id: u64, uri: String) -> Result<String> {
    Ok(format!("{type} {id} at {uri}", type = r#type))
}

/// Any file.
#[resource("files:///{+path}", mime_type = "text/x-any")]
async fn file(path: String) -> Result<Contents> {
    Ok(Contents::text(format!("files:///{path}"), path))
}

/// A value of the name takes the place of the URI itself.
#[resource("about:{uri}")]
async fn about(uri: String) -> Result<String> {
    Ok(uri)
}

fn client() -> Client {
    let server = Server::new("test").resource(terms).resource(own);
    Client::of(server.template(invoice).template(file).template(about))
}

#[tokio::test]
async fn resources_are_shown() {
    let client = client();
    let resources = client.ask("resources/list", json!({})).await["resources"].take();
    let terms = named(&resources, "terms");
    assert_eq!(terms["uri"], "orders://terms");
    assert_eq!(terms["title"], "Terms");
    assert_eq!(terms["description"], "How to pay.");
    assert_eq!(terms["mimeType"], "text/markdown");
    assert_eq!(terms["icons"][0]["src"], "https://example.com/a.png");
    assert_eq!(named(&resources, "own-uri")["uri"], "orders://own");
    let templates = client.ask("resources/templates/list", json!({})).await;
    let templates = &templates["resourceTemplates"];
    let invoice = named(templates, "invoice");
    assert_eq!(invoice["uriTemplate"], "orders://{id}/{type}/invoice");
    assert_eq!(invoice["description"], "An invoice.");
    assert_eq!(named(templates, "file")["mimeType"], "text/x-any");
}

#[tokio::test]
async fn resources_are_read() {
    let client = client();
    let read = async |uri: &str| {
        client.ask("resources/read", json!({ "uri": uri })).await["contents"][0].take()
    };
    let terms = read("orders://terms").await;
    assert_eq!((&terms["text"], &terms["mimeType"]), (&json!("# Terms"), &json!("text/markdown")));
    assert!(read("orders://own").await["blob"].is_string());
    let invoice = read("orders://12/paid/invoice").await;
    assert_eq!(invoice["text"], "paid 12 at orders://12/paid/invoice");
    assert_eq!(read("files:///a/b.txt").await["text"], "a/b.txt");
    assert_eq!(read("about:us").await["text"], "us");
    let wrong = client.send("resources/read", json!({ "uri": "orders://x/paid/invoice" })).await;
    assert!(wrong["error"]["message"].as_str().is_some_and(|text| text.contains("\"id\"")));
}

#[tokio::test]
async fn values_are_completed() {
    let reference = json!({ "type": "ref/resource", "uri": "orders://{id}/{type}/invoice" });
    let argument = json!({ "name": "id", "value": "1" });
    let params: Value = json!({ "ref": reference, "argument": argument });
    let completed = client().ask("completion/complete", params).await;
    assert_eq!(completed["completion"]["values"], json!(["10"]));
}

#[tokio::test]
async fn a_function_can_still_be_called() {
    assert_eq!(about::call("us".into()).await, Ok("us".to_owned()));
}
