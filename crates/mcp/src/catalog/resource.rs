//! Resources and templates of resources.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use steadfast_core::Json;
use steadfast_engine::{Error, Result};

use super::{BoxFuture, CompleteFns, Completing, Unfit, UriTemplate};
use crate::{
    Context,
    repeat::digest,
    wire::{Annotations, Contents, Icon, Object, Revision},
};

/// What a resource's function can return.
#[diagnostic::on_unimplemented(
    message = "a resource can't return `{Self}`",
    note = "return text, bytes as `Vec<u8>`, or `Vec<Contents>`"
)]
pub trait ResourceOutput: Send + 'static {
    /// The contents for the client, of the resource at this URI and of this type.
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Vec<Contents>;
}

fn typed(contents: Contents, mime_type: Option<&str>) -> Vec<Contents> {
    vec![Contents { mime_type: mime_type.map(str::to_owned), ..contents }]
}

impl ResourceOutput for String {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Vec<Contents> {
        typed(Contents::text(uri, self), mime_type.or(Some("text/plain")))
    }
}

impl ResourceOutput for &'static str {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Vec<Contents> {
        self.to_owned().into_contents(uri, mime_type)
    }
}

impl ResourceOutput for Vec<u8> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Vec<Contents> {
        typed(Contents::bytes(uri, self), mime_type.or(Some("application/octet-stream")))
    }
}

impl ResourceOutput for Contents {
    fn into_contents(self, _: &str, _: Option<&str>) -> Vec<Contents> {
        vec![self]
    }
}

impl ResourceOutput for Vec<Contents> {
    fn into_contents(self, _: &str, _: Option<&str>) -> Vec<Contents> {
        self
    }
}

type Values = BTreeMap<String, String>;

/// Reads the resource at a URI, with the values that its template found in it, and the type that its
/// author gave.
pub(crate) type ReadFn =
    Arc<dyn Fn(String, Values, Option<String>) -> BoxFuture<Result<Vec<Contents>>> + Send + Sync>;

/// How a resource is read.
#[derive(Clone)]
pub(crate) enum ReadBody {
    Plain(ReadFn),
    Durable(Box<steadfast_engine::Tool>),
}

/// What the engine calls a resource begins with this: no tool can be named so.
pub(crate) const RESOURCE: &str = "resource:";

/// The longest URI that is the name of a resource to the engine as it is.
const LONGEST: usize = 400;

fn engine_name(uri: &str) -> String {
    match uri.len() > LONGEST {
        true => format!("{RESOURCE}{:016x}", digest(uri)),
        false => format!("{RESOURCE}{uri}"),
    }
}

/// What the task of a durable resource is started with.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) uri: String,
    #[serde(default)]
    pub(crate) values: Values,
    /// The type that the author gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
}

/// What it ends with, as the wire has it.
#[derive(Serialize)]
struct Read {
    contents: Vec<Contents>,
}

/// A task that reads a resource.
fn reading<O, F, Fut>(uri: &str, read: F) -> ReadBody
where
    O: ResourceOutput,
    F: Fn(Context, Reading) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
{
    let read = Arc::new(read);
    let run = move |ctx: steadfast_engine::Context, reading: Reading| {
        let read = read.clone();
        async move {
            let (uri, mime_type) = (reading.uri.clone(), reading.mime_type.clone());
            let contents = read(Context::new(ctx), reading).await?;
            let contents = contents.into_contents(&uri, mime_type.as_deref());
            Ok(Read { contents: default_type(contents, mime_type) })
        }
    };
    ReadBody::Durable(Box::new(steadfast_engine::Tool::new(engine_name(uri), run)))
}

/// The values of a template, as its author wants them.
fn values_of<V: DeserializeOwned>(values: &Values) -> Result<V> {
    let json = Json::of(values).and_then(|json| json.read());
    json.map_err(|error| Error::new(format!("the URI's values can't be read: {error}")))
}

/// What a resource and a template have in common.
#[derive(Clone, Default)]
struct About {
    name: String,
    title: Option<String>,
    description: Option<String>,
    mime_type: Option<String>,
    annotations: Option<Annotations>,
    icons: Vec<Icon>,
    meta: Map<String, Value>,
}

impl About {
    fn render(&self, object: Object, revision: Revision) -> Object {
        object
            .put("name", &self.name)
            .maybe("title", self.title.as_ref().filter(|_| revision >= Revision::V2025_06_18))
            .maybe("description", self.description.as_ref())
            .maybe("mimeType", self.mime_type.as_ref())
            .maybe("annotations", self.annotations.as_ref())
            .maybe(
                "icons",
                Some(&self.icons)
                    .filter(|icons| revision >= Revision::V2025_11_25 && !icons.is_empty()),
            )
            .maybe(
                "_meta",
                Some(&self.meta)
                    .filter(|meta| revision >= Revision::V2025_06_18 && !meta.is_empty()),
            )
    }
}

macro_rules! about {
    ($type:ident) => {
        impl $type {
            /// A name for people.
            #[must_use]
            pub fn title(mut self, title: impl Into<String>) -> $type {
                self.about.title = Some(title.into());
                self
            }

            /// What it is.
            #[must_use]
            pub fn description(mut self, description: impl Into<String>) -> $type {
                self.about.description = Some(description.into());
                self
            }

            /// Of what type it is.
            #[must_use]
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> $type {
                self.about.mime_type = Some(mime_type.into());
                self
            }

            /// Hints on how to use it.
            #[must_use]
            pub fn annotations(mut self, annotations: Annotations) -> $type {
                self.about.annotations = Some(annotations);
                self
            }

            /// A picture for user interfaces.
            #[must_use]
            pub fn icon(mut self, icon: Icon) -> $type {
                self.about.icons.push(icon);
                self
            }

            /// Something for programs, in its `_meta`.
            #[must_use]
            pub fn meta(mut self, name: impl Into<String>, value: Value) -> $type {
                self.about.meta.insert(name.into(), value);
                self
            }
        }
    };
}

about!(Resource);
about!(Template);

/// A resource that clients can read.
#[derive(Clone)]
pub struct Resource {
    pub(crate) uri: String,
    about: About,
    size: Option<u64>,
    pub(crate) body: ReadBody,
}

impl Resource {
    /// The resource at this URI, with a name, from a function that reads it.
    pub fn new<O, F, Fut>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Resource
    where
        O: ResourceOutput,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let read: ReadFn = Arc::new(move |uri, _, mime_type| {
            let reading = read();
            Box::pin(async move { Ok(reading.await?.into_contents(&uri, mime_type.as_deref())) })
        });
        Resource::with_body(uri.into(), name.into(), ReadBody::Plain(read))
    }

    /// A durable resource: its function has a [`Context`], with steps, state and questions.
    pub fn durable<O, F, Fut>(uri: impl Into<String>, name: impl Into<String>, read: F) -> Resource
    where
        O: ResourceOutput,
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let uri = uri.into();
        let body = reading(&uri, move |ctx, _| read(ctx));
        Resource::with_body(uri, name.into(), body)
    }

    fn with_body(uri: String, name: String, body: ReadBody) -> Resource {
        let about = About { name, ..About::default() };
        Resource { uri, about, size: None, body }
    }

    /// How many bytes it has.
    #[must_use]
    pub fn size(mut self, size: u64) -> Resource {
        self.size = Some(size);
        self
    }
}

/// Resources that are found by a pattern of their URIs.
#[derive(Clone)]
pub struct Template {
    pub(crate) uri_template: String,
    about: About,
    pub(crate) completions: CompleteFns,
    pub(crate) body: ReadBody,
}

impl Template {
    /// The resources whose URIs fit this template, such as `orders://{id}/invoice`, from a function of
    /// the URI and the values in it: a struct of texts, or a `BTreeMap<String, String>`.
    pub fn new<V, O, F, Fut>(
        uri_template: impl Into<String>,
        name: impl Into<String>,
        read: F,
    ) -> Template
    where
        V: DeserializeOwned + Send + 'static,
        O: ResourceOutput,
        F: Fn(String, V) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let read = Arc::new(read);
        let read: ReadFn = Arc::new(move |uri, values, mime_type| {
            let read = read.clone();
            Box::pin(async move {
                let output = read(uri.clone(), values_of(&values)?).await?;
                Ok(output.into_contents(&uri, mime_type.as_deref()))
            })
        });
        Template::with_body(uri_template.into(), name.into(), ReadBody::Plain(read))
    }

    /// Durable resources: their function has a [`Context`] as well.
    pub fn durable<V, O, F, Fut>(
        uri_template: impl Into<String>,
        name: impl Into<String>,
        read: F,
    ) -> Template
    where
        V: DeserializeOwned + Send + 'static,
        O: ResourceOutput,
        F: Fn(Context, String, V) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O>> + Send + 'static,
    {
        let (uri_template, read) = (uri_template.into(), Arc::new(read));
        let body = reading(&uri_template, move |ctx, of: Reading| {
            let read = read.clone();
            async move {
                let values = values_of(&of.values)?;
                read(ctx, of.uri, values).await
            }
        });
        Template::with_body(uri_template, name.into(), body)
    }

    fn with_body(uri_template: String, name: String, body: ReadBody) -> Template {
        let about = About { name, ..About::default() };
        Template { uri_template, about, completions: CompleteFns::default(), body }
    }

    /// What a value can be completed to.
    #[must_use]
    pub fn complete<F, Fut>(mut self, name: impl Into<String>, complete: F) -> Template
    where
        F: Fn(Completing) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>>> + Send + 'static,
    {
        self.completions.add(name, complete);
        self
    }
}

/// A resource that is offered.
pub(crate) struct ResourceEntry {
    resource: Resource,
}

impl ResourceEntry {
    pub(crate) fn new(resource: Resource) -> Result<ResourceEntry, Unfit> {
        let uri = &resource.uri;
        let fits = uri.len() <= 2_048 && uri.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits || !uri.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme)) {
            let name = uri.chars().take(80).collect();
            return Err(Unfit::Name { kind: "resource", name, rule: "use a URI with a scheme" });
        }
        Ok(ResourceEntry { resource })
    }

    pub(crate) fn uri(&self) -> &str {
        &self.resource.uri
    }

    pub(crate) fn body(&self) -> &ReadBody {
        &self.resource.body
    }

    pub(crate) fn mime_type(&self) -> Option<String> {
        self.resource.about.mime_type.clone()
    }

    pub(crate) fn render(&self, revision: Revision) -> String {
        let object = Object::new().put("uri", &self.resource.uri);
        self.resource.about.render(object, revision).maybe("size", self.resource.size).close()
    }
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Reads a resource that is not durable.
pub(crate) async fn read_plain(read: &ReadFn, reading: Reading) -> Result<Vec<Contents>> {
    let Reading { uri, values, mime_type } = reading;
    let contents = read(uri, values, mime_type.clone()).await?;
    Ok(default_type(contents, mime_type))
}

/// Contents without a type have the one that the author gave for the resource.
fn default_type(mut contents: Vec<Contents>, mime_type: Option<String>) -> Vec<Contents> {
    for one in &mut contents {
        one.mime_type = one.mime_type.take().or_else(|| mime_type.clone());
    }
    contents
}

/// A template that is offered.
pub(crate) struct TemplateEntry {
    pub(crate) template: Template,
    pub(crate) pattern: UriTemplate,
}

impl TemplateEntry {
    pub(crate) fn new(template: Template) -> Result<TemplateEntry, Unfit> {
        let pattern = UriTemplate::parse(&template.uri_template)?;
        Ok(TemplateEntry { template, pattern })
    }

    pub(crate) fn mime_type(&self) -> Option<String> {
        self.template.about.mime_type.clone()
    }

    pub(crate) fn render(&self, revision: Revision) -> String {
        let object = Object::new().put("uriTemplate", &self.template.uri_template);
        self.template.about.render(object, revision).close()
    }
}
