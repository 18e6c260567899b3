//! `prompts/list` and `prompts/get`.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::{Map, Value};
use steadfast_core::Json;

use super::{
    Reply,
    call::Call,
    params,
    tools::{Paged, twice, unwind},
};
use crate::{
    catalog::{PromptBody, page},
    context::as_protocol_error,
    front::{Front, Request},
    wire::{RpcError, code},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Get {
    name: String,
    #[serde(default)]
    arguments: BTreeMap<String, String>,
    #[serde(default)]
    input_responses: Option<Map<String, Value>>,
    #[serde(default)]
    request_state: Option<String>,
}

impl Front {
    pub(super) fn list_prompts(&self, request: &Request<'_>) -> Reply {
        let Paged { cursor } = params(request)?;
        let offer = self.catalog.offer();
        let (prompts, next) = page(&offer.prompts, cursor.as_deref(), self.settings.page_size)?;
        let shown: Vec<String> =
            prompts.iter().map(|prompt| prompt.render(request.client.revision)).collect();
        self.listing(request, "prompts", &shown, next)
    }

    pub(super) async fn get_prompt(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        let get: Get = params(request)?;
        let offer = self.catalog.offer();
        let entry = offer.prompts.get(&get.name).ok_or_else(|| {
            let name: String = get.name.chars().take(128).collect();
            RpcError::invalid_params(format!("unknown prompt: {name}"))
        })?;
        entry.check(&get.arguments).map_err(RpcError::invalid_params)?;
        let arguments = Json::of(&get.arguments).map_err(|_| RpcError::internal())?;
        match &entry.prompt.body {
            PromptBody::Plain(_) if request.again => Err(twice()),
            PromptBody::Plain(run) => {
                request.begins_none().await;
                let result = match unwind(run(arguments)).await {
                    Some(Ok(result)) => result,
                    Some(Err(error)) => {
                        let other = || RpcError::new(code::INTERNAL, error.to_string());
                        return Err(as_protocol_error(&error).unwrap_or_else(other));
                    }
                    None => return Err(RpcError::internal()),
                };
                let object = self
                    .result(&request.client)
                    .maybe("description", result.description.as_ref())
                    .put("messages", &result.messages);
                Ok(self.close_with(&request.client, object, result.meta))
            }
            PromptBody::Durable(tool) => {
                let call = Call {
                    front: self,
                    request,
                    engine_name: tool.name(),
                    entry: None,
                    arguments,
                    refused: None,
                    input_responses: get.input_responses.unwrap_or_default(),
                    request_state: get.request_state,
                };
                call.blocking().await
            }
        }
    }
}
