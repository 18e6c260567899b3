//! Prompts with each kind of content.

use schemars::JsonSchema;
use serde::Deserialize;
use steadfast_mcp::{Completing, Content, Contents, NoInput, Prompt, PromptMessage};

use crate::content::PNG;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The first.
    arg1: String,
    /// The second.
    arg2: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embed {
    /// The URI of the resource.
    resource_uri: String,
}

pub(crate) fn prompts() -> Vec<Prompt> {
    vec![
        Prompt::new("test_simple_prompt", |_: NoInput| async {
            Ok("This is a simple prompt for testing.")
        })
        .description("A text."),
        Prompt::new("test_prompt_with_arguments", |given: Arguments| async move {
            let Arguments { arg1, arg2 } = given;
            Ok(format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))
        })
        .description("A text with what it is given.")
        .complete("arg1", |typed: Completing| async move {
            let known = ["test", "testing", "tested", "paris", "park", "party"];
            let fits = known.iter().filter(|word| word.starts_with(&typed.value));
            Ok(fits.map(|word| (*word).to_owned()).collect())
        }),
        Prompt::new("test_prompt_with_embedded_resource", |given: Embed| async move {
            let text = "Embedded resource content for testing.";
            let resource = Contents::text(given.resource_uri, text).mime_type("text/plain");
            Ok(vec![
                PromptMessage::user(Content::resource(resource)),
                PromptMessage::user("Please read the resource above."),
            ])
        })
        .description("A resource, whole."),
        Prompt::new("test_prompt_with_image", |_: NoInput| async {
            Ok(vec![
                PromptMessage::user(Content::image(PNG, "image/png")),
                PromptMessage::user("Please look at the picture above."),
            ])
        })
        .description("A picture."),
    ]
}
