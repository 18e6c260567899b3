//! Every method in every revision that has it, of a server with everything on it: so that
//! `cargo xtask schemas`, which knows how each answer is to look, has seen them all.

use serde_json::{Value, json};
use steadfast_engine::Error;
use steadfast_mcp::{
    Annotations, CallResult, Content, Contents, Context, Icon, NoInput, Prompt, PromptMessage,
    Resource, Role, Server, Template, Tool, ToolAnnotations,
};

use crate::{
    site::{Legacy, Site, able},
    tools::{Count, server},
};

fn icon() -> Icon {
    let sizes = Some(vec!["any".into()]);
    Icon { sizes, theme: Some("dark".into()), ..Icon::new("https://example.com/i.svg") }
}

fn annotations() -> Annotations {
    Annotations { audience: Some(vec![Role::User]), priority: Some(0.5), last_modified: None }
}

/// With all that a thing can have.
fn adorned() -> Server {
    let hints = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let tool = Tool::plain("adorned", |_: NoInput| async {
        let resource = Contents::text("test://text", "t").mime_type("text/plain");
        let content = vec![
            Content::text("t"),
            Content::image([1], "image/png"),
            Content::audio([1], "audio/wav"),
            Content::resource(resource),
        ];
        Ok(CallResult { content, ..CallResult::default() })
    });
    let tool = tool.title("T").description("D").annotations(hints).icon(icon());
    let prompt = Prompt::new("adorned", |_: NoInput| async {
        Ok(vec![
            PromptMessage::user("u"),
            PromptMessage::assistant(Content::image([1], "image/png")),
        ])
    });
    let resource = Resource::new("test://adorned", "adorned", || async { Ok("r") });
    let resource = resource.title("T").description("D").mime_type("text/plain").size(1);
    let template =
        Template::new("test://adorned/{id}", "adorned", |_: String, _: Value| async { Ok("r") });
    server(&Count::default())
        .title("T")
        .website("https://example.com")
        .icon(icon())
        .tool(tool.meta("example.com/m", json!(1)))
        .tool(Tool::new("broken_off", |_: Context, _: NoInput| async {
            Err::<String, _>(Error::new("no"))
        }))
        .prompt(prompt.title("T").description("D").icon(icon()).meta("example.com/m", json!(1)))
        .resource(resource.annotations(annotations()).icon(icon()).meta("example.com/m", json!(1)))
        .template(template.title("T").description("D").mime_type("text/plain").icon(icon()))
}

/// All methods that both generations have, with what they need.
fn methods() -> Vec<(&'static str, Value)> {
    let prompt = json!({ "type": "ref/prompt", "name": "greet" });
    vec![
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "adorned", "arguments": {} })),
        ("tools/call", json!({ "name": "add_durably", "arguments": { "a": 1, "b": 2 } })),
        ("tools/call", json!({ "name": "broken_off", "arguments": {} })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "adorned" })),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "test://adorned" })),
        ("resources/read", json!({ "uri": "test://bytes" })),
        (
            "completion/complete",
            json!({ "ref": prompt, "argument": { "name": "name", "value": "a" } }),
        ),
    ]
}

#[tokio::test]
async fn every_method_answers_in_every_revision_with_sessions() {
    let site = Site::start(adorned()).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = Legacy::open(&site, version, json!({})).await;
        for (id, (method, params)) in (1..).zip(methods()) {
            client.result(id, method, params).await;
        }
        for (method, params) in [
            ("ping", json!({})),
            ("logging/setLevel", json!({ "level": "info" })),
            ("resources/subscribe", json!({ "uri": "test://adorned" })),
            ("resources/unsubscribe", json!({ "uri": "test://adorned" })),
        ] {
            assert_eq!(client.result(99, method, params).await, json!({}), "{method}");
        }
    }
}

#[tokio::test]
async fn every_method_answers_in_2026_07_28() {
    let site = Site::start(adorned()).await;
    for (method, params) in methods().into_iter().chain([("server/discover", json!({}))]) {
        let result = site.result(&able(), method, params).await;
        assert!(["complete", "task"].contains(&result["resultType"].as_str().unwrap()), "{result}");
    }
}
