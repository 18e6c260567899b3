//! What a handler offers, as it lists it.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use steadfast_mcp::{Annotations, Icon, PromptArgument, ToolAnnotations};

use crate::{Error, link::Link};

/// A tool of a handler, to choose by.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// What it says of its behaviour.
    pub annotations: Option<ToolAnnotations>,
    /// Something for programs.
    #[serde(rename = "_meta")]
    pub meta: Map<String, Value>,
    pub(crate) input_schema: Value,
    pub(crate) output_schema: Option<Value>,
    pub(crate) icons: Vec<Icon>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PromptInfo {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) arguments: Vec<PromptArgument>,
    pub(crate) icons: Vec<Icon>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Map<String, Value>,
}

/// A resource, or a template of them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceInfo {
    #[serde(alias = "uriTemplate")]
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) mime_type: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) annotations: Option<Annotations>,
    pub(crate) icons: Vec<Icon>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Map<String, Value>,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<ToolInfo>,
    pub(crate) prompts: Vec<PromptInfo>,
    pub(crate) resources: Vec<ResourceInfo>,
    pub(crate) templates: Vec<ResourceInfo>,
}

impl Listing {
    pub(crate) async fn of(link: &Link) -> Result<Listing, Error> {
        let (resources, templates) = resources(link).await?;
        Ok(Listing {
            tools: tools(link).await?,
            prompts: prompts(link).await?,
            resources,
            templates,
        })
    }
}

/// A handler is not asked for what it does not claim to have.
pub(crate) async fn tools(link: &Link) -> Result<Vec<ToolInfo>, Error> {
    match link.capabilities().tools {
        Some(_) => read("tools", link.tools().await?),
        None => Ok(Vec::new()),
    }
}

pub(crate) async fn prompts(link: &Link) -> Result<Vec<PromptInfo>, Error> {
    match link.capabilities().prompts {
        Some(_) => read("prompts", link.prompts().await?),
        None => Ok(Vec::new()),
    }
}

/// Resources, and templates of them.
pub(crate) async fn resources(
    link: &Link,
) -> Result<(Vec<ResourceInfo>, Vec<ResourceInfo>), Error> {
    match link.capabilities().resources {
        Some(_) => {
            let resources = read("resources", link.resources().await?)?;
            Ok((resources, read("templates of resources", link.templates().await?)?))
        }
        None => Ok((Vec::new(), Vec::new())),
    }
}

fn read<T: DeserializeOwned>(kind: &'static str, found: Vec<Value>) -> Result<Vec<T>, Error> {
    let read = found.into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
    read.map_err(|error| Error::Listing { kind, reason: error.to_string() })
}
