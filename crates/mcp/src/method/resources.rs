//! `resources/*`.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steadfast_core::Json;

use super::{
    Reply,
    call::Call,
    params,
    tools::{Paged, twice, unwind},
};
use crate::{
    catalog::{ReadBody, Reading, page, read_plain},
    context::as_protocol_error,
    front::{Front, Request},
    wire::{RpcError, code},
};

#[derive(Deserialize)]
struct Named {
    uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    uri: String,
    #[serde(default)]
    input_responses: Option<Map<String, Value>>,
    #[serde(default)]
    request_state: Option<String>,
}

impl Front {
    pub(super) fn list_resources(&self, request: &Request<'_>) -> Reply {
        let Paged { cursor } = params(request)?;
        let offer = self.catalog.offer();
        let (found, next) = page(&offer.resources, cursor.as_deref(), self.settings.page_size)?;
        let shown: Vec<String> =
            found.iter().map(|resource| resource.render(request.client.revision)).collect();
        self.listing(request, "resources", &shown, next)
    }

    pub(super) fn list_templates(&self, request: &Request<'_>) -> Reply {
        let Paged { cursor } = params(request)?;
        let offer = self.catalog.offer();
        let (found, next) = page(&offer.templates, cursor.as_deref(), self.settings.page_size)?;
        let shown: Vec<String> =
            found.iter().map(|template| template.render(request.client.revision)).collect();
        self.listing(request, "resourceTemplates", &shown, next)
    }

    pub(super) async fn read_resource(self: &Arc<Self>, request: &Request<'_>) -> Reply {
        let Read { uri, input_responses, request_state } = params(request)?;
        let Some((body, reading)) = self.find_resource(&uri) else {
            return Err(self.no_resource(request, &uri));
        };
        if matches!(body, ReadBody::Plain(_)) {
            request.begins_none().await;
        }
        match body {
            ReadBody::Plain(_) if request.again => Err(twice()),
            ReadBody::Plain(read) => match unwind(read_plain(&read, reading)).await {
                Some(Ok(contents)) => {
                    let result = self.result(&request.client).put("contents", &contents);
                    let result = self.cache_hints(&request.client, result, Duration::ZERO);
                    Ok(self.close(&request.client, result))
                }
                Some(Err(error)) => {
                    let other = || RpcError::new(code::INTERNAL, error.to_string());
                    Err(as_protocol_error(&error).unwrap_or_else(other))
                }
                None => Err(RpcError::internal()),
            },
            ReadBody::Durable(tool) => {
                let call = Call {
                    front: self,
                    request,
                    engine_name: tool.name(),
                    entry: None,
                    arguments: Json::of(&reading).map_err(|_| RpcError::internal())?,
                    refused: None,
                    input_responses: input_responses.unwrap_or_default(),
                    request_state,
                };
                call.blocking().await
            }
        }
        .map_err(|mut error| {
            // It has no code of its own any more.
            if error.code == code::RESOURCE_NOT_FOUND && request.client.revision.is_stateless() {
                error.code = code::INVALID_PARAMS;
            }
            error
        })
    }

    /// How what is at a URI is read, or nothing if there is no such resource.
    fn find_resource(&self, uri: &str) -> Option<(ReadBody, Reading)> {
        let offer = self.catalog.offer();
        if let Some(resource) = offer.resources.get(uri) {
            let values = Default::default();
            let reading = Reading { uri: uri.into(), values, mime_type: resource.mime_type() };
            return Some((resource.body().clone(), reading));
        }
        offer.templates.items().iter().find_map(|entry| {
            let values = entry.pattern.matches(uri)?;
            let reading = Reading { uri: uri.into(), values, mime_type: entry.mime_type() };
            Some((entry.template.body.clone(), reading))
        })
    }

    fn no_resource(&self, request: &Request<'_>, uri: &str) -> RpcError {
        let code = match request.client.revision.is_stateless() {
            true => code::INVALID_PARAMS,
            false => code::RESOURCE_NOT_FOUND,
        };
        let uri: String = uri.chars().take(2_048).collect();
        RpcError::new(code, "resource not found").data(&json!({ "uri": uri }))
    }

    /// Whether there is such a resource, without reading it.
    pub(super) fn has_resource(&self, uri: &str) -> bool {
        let offer = self.catalog.offer();
        offer.resources.get(uri).is_some()
            || offer.templates.items().iter().any(|one| one.pattern.matches(uri).is_some())
    }

    pub(super) async fn subscribe(&self, request: &Request<'_>, on: bool) -> Reply {
        let Named { uri } = params(request)?;
        if on && !self.has_resource(&uri) {
            return Err(self.no_resource(request, &uri));
        }
        match (&request.session, on) {
            (Some(session), true) => {
                let last = self.notices.last().await.map_err(super::task_error)?;
                session.subscribe(uri, last)?;
            }
            (Some(session), false) => session.unsubscribe(&uri),
            (None, _) => {}
        }
        if let Some(session) = &request.session {
            self.keep(session).await?;
        }
        Ok("{}".into())
    }
}
