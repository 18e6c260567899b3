//! Resources and templates of resources.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use steadfast_core::Json;
use steadfast_engine::{Error, Result};

use super::{BoxFuture, CompleteFns, Completing, Unfit, UriTemplate};
use crate::wire::{Annotations, Contents, Icon, Object, Revision};

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
    read: ReadFn,
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
        let about = About { name: name.into(), ..About::default() };
        Resource { uri: uri.into(), about, size: None, read }
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
    read: ReadFn,
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
                let json = Json::of(&values).and_then(|json| json.read());
                let values = json.map_err(|error| {
                    Error::new(format!("the URI's values can't be read: {error}"))
                })?;
                let output = read(uri.clone(), values).await?;
                Ok(output.into_contents(&uri, mime_type.as_deref()))
            })
        });
        let about = About { name: name.into(), ..About::default() };
        let completions = CompleteFns::default();
        Template { uri_template: uri_template.into(), about, completions, read }
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

    pub(crate) async fn read(&self, uri: &str) -> Result<Vec<Contents>> {
        let mime_type = self.resource.about.mime_type.clone();
        let contents = (self.resource.read)(uri.into(), Values::new(), mime_type.clone()).await?;
        Ok(default_type(contents, mime_type))
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

    pub(crate) async fn read(&self, uri: &str, values: Values) -> Result<Vec<Contents>> {
        let mime_type = self.template.about.mime_type.clone();
        let contents = (self.template.read)(uri.into(), values, mime_type.clone()).await?;
        Ok(default_type(contents, mime_type))
    }

    pub(crate) fn render(&self, revision: Revision) -> String {
        let object = Object::new().put("uriTemplate", &self.template.uri_template);
        self.template.about.render(object, revision).close()
    }
}
