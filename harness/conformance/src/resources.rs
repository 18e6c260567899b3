//! Resources, and a template of resources.

use serde::Deserialize;
use serde_json::json;
use steadfast_mcp::{Resource, Template};

use crate::content::PNG;

#[derive(Deserialize)]
struct Values {
    id: String,
}

pub(crate) fn resources() -> Vec<Resource> {
    vec![
        Resource::new("test://static-text", "static-text", || async {
            Ok("This is the content of the static text resource.")
        })
        .mime_type("text/plain")
        .description("A text that never changes."),
        Resource::new("test://static-binary", "static-binary", || async { Ok(PNG.to_vec()) })
            .mime_type("image/png")
            .description("Bytes that never change."),
        Resource::new("test://watched-resource", "watched-resource", || async {
            Ok("Watched resource content")
        })
        .mime_type("text/plain")
        .description("A text to be told of."),
    ]
}

pub(crate) fn template() -> Template {
    Template::new("test://template/{id}/data", "template", |_, values: Values| async move {
        let data = format!("Data for ID: {}", values.id);
        Ok(json!({ "id": values.id, "templateTest": true, "data": data }).to_string())
    })
    .mime_type("application/json")
    .description("Data by its id.")
}
