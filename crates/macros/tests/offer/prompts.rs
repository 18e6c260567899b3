//! Prompts as clients see and get them.

use serde_json::{Value, json};
use steadfast::prelude::*;

use crate::client::{Client, named};

async fn languages(typed: Completing) -> Result<Vec<String>> {
    let known = ["French", "German"].into_iter();
    Ok(known.filter(|name| name.starts_with(&typed.value)).map(str::to_owned).collect())
}

/// Ask for a translation.
#[prompt(title = "Translate", icon = "https://example.com/a.png", complete(language = languages))]
async fn translate(
    /// What is to be translated.
    text: String,
    language: Option<String>,
) -> Result<String> {
    Ok(format!("Into {}: {text}", language.as_deref().unwrap_or("English")))
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    code: String,
}

#[prompt(name = "code-review", description = "Review code.")]
async fn review(ctx: Context, review: Review) -> Result<Vec<PromptMessage>> {
    let code = ctx.step("read", || async { Ok::<_, Error>(review.code.clone()) }).await?;
    Ok(vec![PromptMessage::user(code), PromptMessage::assistant("Looking at it.")])
}

#[prompt]
async fn hello() -> Result<&'static str> {
    Ok("Say hello.")
}

#[prompt(complete(name = async |_| Ok(vec!["Ada".to_owned()])))]
async fn greet(name: String) -> Result<PromptMessage> {
    Ok(PromptMessage::user(format!("Greet {name}.")))
}

fn client() -> Client {
    Client::of(Server::new("test").prompt(translate).prompt(review).prompt(hello).prompt(greet))
}

#[tokio::test]
async fn a_prompt_is_shown_with_its_arguments() {
    let prompts = client().ask("prompts/list", json!({})).await["prompts"].take();
    let prompt = named(&prompts, "translate");
    assert_eq!(prompt["title"], "Translate");
    assert_eq!(prompt["description"], "Ask for a translation.");
    assert_eq!(prompt["icons"][0]["src"], "https://example.com/a.png");
    let text = named(&prompt["arguments"], "text");
    assert_eq!(text["description"], "What is to be translated.");
    assert_eq!(text["required"], true);
    assert_eq!(named(&prompt["arguments"], "language")["required"], false);
    let review = named(&prompts, "code-review");
    assert_eq!(review["description"], "Review code.");
    assert_eq!(review["arguments"][0]["name"], "code");
    assert!(named(&prompts, "hello").get("arguments").is_none());
    assert_eq!(named(&prompts, "greet")["arguments"][0]["name"], "name");
}

#[tokio::test]
async fn a_prompt_is_made_of_its_arguments() {
    let client = client();
    let get = async |name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        client.ask("prompts/get", params).await["messages"].take()
    };
    let text = "/0/content/text";
    let made = get("translate", json!({ "text": "hi", "language": "French" })).await;
    assert_eq!(made.pointer(text), Some(&json!("Into French: hi")));
    let made = get("translate", json!({ "text": "hi" })).await;
    assert_eq!(made.pointer(text), Some(&json!("Into English: hi")));
    let made = get("code-review", json!({ "code": "1 + 1" })).await;
    assert_eq!(made.pointer(text), Some(&json!("1 + 1")));
    assert_eq!(made[1]["role"], "assistant");
    assert_eq!(get("hello", json!({})).await.pointer(text), Some(&json!("Say hello.")));
    let made = get("greet", json!({ "name": "Ada" })).await;
    assert_eq!(made.pointer(text), Some(&json!("Greet Ada.")));
}

#[tokio::test]
async fn arguments_are_completed() {
    let client = client();
    let complete = async |prompt: &str, argument: &str, value: &str| {
        let reference = json!({ "type": "ref/prompt", "name": prompt });
        let argument = json!({ "name": argument, "value": value });
        let params = json!({ "ref": reference, "argument": argument });
        client.ask("completion/complete", params).await["completion"]["values"].take()
    };
    assert_eq!(complete("translate", "language", "G").await, json!(["German"]));
    assert_eq!(complete("translate", "text", "G").await, json!([]));
    assert_eq!(complete("greet", "name", "").await, json!(["Ada"]));
}
