//! Tools that return each kind of content.

use serde_json::json;
use steadfast_engine::Error;
use steadfast_mcp::{CallResult, Content, Contents, NoInput, Tool};

/// A grey pixel.
pub(crate) const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\
\0\0\0\nIDATx\x9cch\0\0\0\x82\0\x81w\xcdr\xb6\0\0\0\0IEND\xaeB`\x82";

/// A millisecond of silence.
const WAV: &[u8] = b"RIFF,\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0\
data\x08\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80";

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::plain("test_simple_text", |_: NoInput| async {
            Ok("This is a simple text response for testing.")
        })
        .description("Returns a text."),
        Tool::plain("test_image_content", |_: NoInput| async {
            Ok(Content::image(PNG, "image/png"))
        })
        .description("Returns a picture."),
        Tool::plain("test_audio_content", |_: NoInput| async {
            Ok(Content::audio(WAV, "audio/wav"))
        })
        .description("Returns a sound."),
        Tool::plain("test_embedded_resource", |_: NoInput| async {
            let text = "This is an embedded resource content.";
            let resource = Contents::text("test://embedded-resource", text);
            Ok(Content::resource(resource.mime_type("text/plain")))
        })
        .description("Returns a resource, whole."),
        Tool::plain("test_multiple_content_types", |_: NoInput| async { Ok(mixed()) })
            .description("Returns a text, a picture and a resource."),
        Tool::plain("test_error_handling", |_: NoInput| async {
            Err::<CallResult, _>(Error::new("This tool intentionally returns an error for testing"))
        })
        .description("Fails."),
    ]
}

fn mixed() -> Vec<Content> {
    let json = json!({ "test": "data", "value": 123 }).to_string();
    let resource = Contents::text("test://mixed-content-resource", json);
    vec![
        Content::text("Multiple content types test:"),
        Content::image(PNG, "image/png"),
        Content::resource(resource.mime_type("application/json")),
    ]
}
