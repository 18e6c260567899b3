//! `steadfast tools`.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use crate::{Result, screen::printable, see::pretty, target::Target};

/// List the tools of a server.
#[derive(Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    target: Target,

    /// Print all that the server says of them, as JSON
    #[arg(long)]
    json: bool,
}

impl Tools {
    pub(crate) async fn run(self) -> Result<u8> {
        let client = self.target.connect().await?;
        let tools = client.list_tools().await?;
        let mut out = std::io::stdout().lock();
        match self.json {
            true => writeln!(out, "{}", pretty(&Value::Array(tools)))?,
            false => {
                for tool in &tools {
                    write!(out, "{}", printable(&in_words(tool)))?;
                }
            }
        }
        Ok(0)
    }
}

/// A tool for people: its name, what it does, and its parameters.
fn in_words(tool: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', "\n    ");
    let mut words = format!("{}\n", text(&tool["name"]));
    if let Some(about) = tool["description"].as_str().or(tool["title"].as_str()) {
        words += &format!("    {}\n", about.replace('\n', "\n    "));
    }
    let schema = &tool["inputSchema"];
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = match &property["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => {
                kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
            }
            _ => "any".into(),
        };
        let required =
            schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let optional = if required { "" } else { ", optional" };
        words +=
            &format!("    --arg {name}=... ({kind}{optional}) {}", text(&property["description"]));
        words.truncate(words.trim_end().len());
        words.push('\n');
    }
    words
}
