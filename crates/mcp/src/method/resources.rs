//! `resources/*`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::{
    Reply, params,
    tools::{Paged, unwind},
};
use crate::{
    catalog::page,
    context::as_protocol_error,
    front::{Front, Request},
    wire::{Contents, RpcError, code},
};

#[derive(Deserialize)]
struct Named {
    uri: String,
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
        let Named { uri } = params(request)?;
        let contents = match unwind(self.read_uri(&uri)).await {
            Some(Some(Ok(contents))) => contents,
            Some(Some(Err(error))) => {
                let other = || RpcError::new(code::INTERNAL, error.to_string());
                let mut error = as_protocol_error(&error).unwrap_or_else(other);
                // It has no code of its own any more.
                if error.code == code::RESOURCE_NOT_FOUND && request.client.revision.is_stateless()
                {
                    error.code = code::INVALID_PARAMS;
                }
                return Err(error);
            }
            Some(None) => return Err(self.no_resource(request, &uri)),
            None => return Err(RpcError::internal()),
        };
        let result = self.result(&request.client).put("contents", &contents);
        let result = self.cache_hints(&request.client, result, std::time::Duration::ZERO);
        Ok(self.close(&request.client, result))
    }

    /// What is at a URI, or nothing if there is no such resource.
    async fn read_uri(&self, uri: &str) -> Option<steadfast_engine::Result<Vec<Contents>>> {
        let offer = self.catalog.offer();
        if let Some(resource) = offer.resources.get(uri) {
            return Some(resource.read(uri).await);
        }
        for template in offer.templates.items() {
            if let Some(values) = template.pattern.matches(uri) {
                return Some(template.read(uri, values).await);
            }
        }
        None
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
                let last = self.notices.last().await.map_err(|error| {
                    tracing::error!(%error, "the notices can't be read");
                    RpcError::internal()
                })?;
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
