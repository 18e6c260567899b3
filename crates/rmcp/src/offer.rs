//! What a handler offers as tools, prompts and resources of Steadfast.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::model::Reference;
use serde_json::{Map, Value};
use steadfast_mcp::{Completing, Context, Prompt, Resource, Template, Tool};

use crate::{
    link::Link,
    listing::{PromptInfo, ResourceInfo, ToolInfo},
    results,
};

/// Does for all kinds what is the same in each.
macro_rules! about {
    ($thing:expr, $info:expr) => {{
        let mut thing = $thing;
        if let Some(title) = &$info.title {
            thing = thing.title(title);
        }
        if let Some(description) = &$info.description {
            thing = thing.description(description);
        }
        for icon in &$info.icons {
            thing = thing.icon(icon.clone());
        }
        for (name, value) in &$info.meta {
            thing = thing.meta(name, value.clone());
        }
        thing
    }};
}

/// A tool whose calls are tasks, or one that is called in place.
pub(crate) fn tool(link: &Arc<Link>, info: &ToolInfo, durable: bool) -> Tool {
    let tool = if durable { durable_tool(link, info) } else { plain_tool(link, info) };
    let mut tool = about!(tool, info).input_schema(info.input_schema.clone());
    if let Some(schema) = &info.output_schema {
        tool = tool.output_schema(schema.clone());
    }
    if let Some(annotations) = &info.annotations {
        tool = tool.annotations(annotations.clone());
    }
    tool
}

fn plain_tool(link: &Arc<Link>, info: &ToolInfo) -> Tool {
    let (link, name) = (link.clone(), info.name.clone());
    Tool::plain(info.name.clone(), move |arguments: Map<String, Value>| {
        let (link, name) = (link.clone(), name.clone());
        async move { results::of_tool(link.call(&name, arguments).await?) }
    })
}

fn durable_tool(link: &Arc<Link>, info: &ToolInfo) -> Tool {
    let (link, name) = (link.clone(), info.name.clone());
    let again = info.annotations.as_ref().is_some_and(|says| {
        says.read_only_hint == Some(true) || says.idempotent_hint == Some(true)
    });
    Tool::new(info.name.clone(), move |ctx: Context, arguments: Map<String, Value>| {
        let (link, name) = (link.clone(), name.clone());
        async move {
            // Named as the tool is: the error of a step that was cut off names it.
            let call = ctx.step(&name, || link.call(&name, arguments.clone()));
            // A hint that it may be called again does not promise the same result.
            let call = if again { call.result_varies() } else { call.at_most_once() };
            results::of_tool(call.await?)
        }
    })
}

pub(crate) fn prompt(link: &Arc<Link>, info: &PromptInfo) -> Prompt {
    let (to, name) = (link.clone(), info.name.clone());
    let get = move |arguments: Map<String, Value>| {
        let (to, name) = (to.clone(), name.clone());
        async move { results::of_prompt(to.prompt(&name, arguments).await?) }
    };
    let mut prompt =
        about!(Prompt::new(info.name.clone(), get), info).arguments(info.arguments.clone());
    if link.capabilities().completions.is_some() {
        for argument in &info.arguments {
            let complete = completion(link, Reference::for_prompt(&info.name), &argument.name);
            prompt = prompt.complete(&argument.name, complete);
        }
    }
    prompt
}

pub(crate) fn resource(link: &Arc<Link>, info: &ResourceInfo) -> Resource {
    let (link, uri) = (link.clone(), info.uri.clone());
    let read = move || {
        let (link, uri) = (link.clone(), uri.clone());
        async move { results::of_resource(link.read(uri).await?) }
    };
    let mut resource = about!(Resource::new(info.uri.clone(), info.name.clone(), read), info);
    if let Some(mime_type) = &info.mime_type {
        resource = resource.mime_type(mime_type);
    }
    if let Some(annotations) = &info.annotations {
        resource = resource.annotations(annotations.clone());
    }
    if let Some(size) = info.size {
        resource = resource.size(size);
    }
    resource
}

pub(crate) fn template(link: &Arc<Link>, info: &ResourceInfo) -> Template {
    let to = link.clone();
    // The handler finds the values in the URI by itself.
    let read = move |uri: String, _: BTreeMap<String, String>| {
        let to = to.clone();
        async move { results::of_resource(to.read(uri).await?) }
    };
    let mut template = about!(Template::new(info.uri.clone(), info.name.clone(), read), info);
    if let Some(mime_type) = &info.mime_type {
        template = template.mime_type(mime_type);
    }
    if let Some(annotations) = &info.annotations {
        template = template.annotations(annotations.clone());
    }
    if link.capabilities().completions.is_some() {
        for name in names(&info.uri) {
            let complete = completion(link, Reference::for_resource(&info.uri), name);
            template = template.complete(name, complete);
        }
    }
    template
}

/// The names in a URI template.
fn names(uri_template: &str) -> impl Iterator<Item = &str> {
    let inside = uri_template.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    inside.map(|(name, _)| name.trim_start_matches('+'))
}

fn completion(
    link: &Arc<Link>,
    of: Reference,
    argument: &str,
) -> impl Fn(Completing) -> Completed + Send + Sync + 'static {
    let (link, argument) = (link.clone(), argument.to_owned());
    move |completing| {
        let (link, of, argument) = (link.clone(), of.clone(), argument.clone());
        Box::pin(async move {
            link.complete(of, argument, completing.value, completing.arguments).await
        })
    }
}

type Completed =
    std::pin::Pin<Box<dyn Future<Output = steadfast_engine::Result<Vec<String>>> + Send>>;
