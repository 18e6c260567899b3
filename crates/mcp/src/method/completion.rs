//! `completion/complete`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::{Reply, params, tools::unwind};
use crate::{
    catalog::Completing,
    front::{Front, Request},
    wire::{RpcError, code},
};

/// The most values that a reply may hold.
const MOST: usize = 100;

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Deserialize, Default)]
struct Given {
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Complete {
    #[serde(rename = "ref")]
    reference: Reference,
    argument: Argument,
    #[serde(default)]
    context: Option<Given>,
}

impl Front {
    pub(super) async fn complete(&self, request: &Request<'_>) -> Reply {
        let Complete { reference, argument, context } = params(request)?;
        let offer = self.catalog.offer();
        let complete = match &reference {
            Reference::Prompt { name } => offer
                .prompts
                .get(name)
                .map(|entry| entry.prompt.completions.get(&argument.name))
                .ok_or_else(|| RpcError::invalid_params(format!("unknown prompt: {name}")))?,
            Reference::Resource { uri } => offer
                .templates
                .get(uri)
                .map(|entry| entry.template.completions.get(&argument.name))
                .or_else(|| offer.resources.get(uri).map(|_| None))
                .ok_or_else(|| RpcError::invalid_params(format!("unknown resource: {uri}")))?,
        };
        let arguments = context.unwrap_or_default().arguments;
        let found = match complete {
            None => Vec::new(),
            Some(complete) => {
                let completing = Completing { value: argument.value, arguments };
                match unwind(complete(completing)).await {
                    Some(Ok(found)) => found,
                    Some(Err(error)) => {
                        return Err(RpcError::new(code::INTERNAL, error.to_string()));
                    }
                    None => return Err(RpcError::internal()),
                }
            }
        };
        let (total, more) = (found.len(), found.len() > MOST);
        let values: Vec<String> = found.into_iter().take(MOST).collect();
        let completion = json!({ "values": values, "total": total, "hasMore": more });
        let object = self.result(&request.client).put("completion", &completion);
        Ok(self.close(&request.client, object))
    }
}
