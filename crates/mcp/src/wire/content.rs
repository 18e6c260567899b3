//! What tools, prompts and resources return.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_core::Json;

/// Who speaks, or who something is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Role {
    User,
    Assistant,
}

/// Hints on how to use a piece of content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Annotations {
    /// Who it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Vec<Role>>,
    /// How important it is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it last changed, as ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// A picture for user interfaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// Its type, if that of the server is not good enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its sizes, such as `48x48` or `any`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

impl Icon {
    /// An icon at this address.
    pub fn new(src: impl Into<String>) -> Icon {
        Icon { src: src.into(), mime_type: None, sizes: None, theme: None }
    }
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Hints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// Its type.
        mime_type: String,
        /// Hints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
    },
    /// Sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64.
        data: String,
        /// Its type.
        mime_type: String,
        /// Hints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
    },
    /// A resource, whole.
    Resource {
        /// The resource.
        resource: Contents,
        /// Hints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
    },
    /// A resource to be read if wanted.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// Where.
        uri: String,
        /// Its name.
        name: String,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Its type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Hints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
    },
    /// Any content as the wire has it: kinds and fields that have no name here.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text { text: text.into(), annotations: None }
    }

    /// A picture from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Content {
        let (data, mime_type) = (BASE64.encode(bytes), mime_type.into());
        Content::Image { data, mime_type, annotations: None }
    }

    /// Sound from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Content {
        let (data, mime_type) = (BASE64.encode(bytes), mime_type.into());
        Content::Audio { data, mime_type, annotations: None }
    }

    /// A resource, whole.
    #[must_use]
    pub fn resource(resource: Contents) -> Content {
        Content::Resource { resource, annotations: None }
    }

    /// A link to a resource.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Content {
        let (uri, name) = (uri.into(), name.into());
        Content::ResourceLink { uri, name, description: None, mime_type: None, annotations: None }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::text(text)
    }
}

/// What is in a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// Which resource.
    pub uri: String,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Text, unless it is bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Anything else.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Contents {
    /// Text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Contents {
        let (uri, text) = (uri.into(), Some(text.into()));
        Contents { uri, mime_type: None, text, blob: None, meta: Map::new() }
    }

    /// Bytes.
    pub fn bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Contents {
        let blob = Some(BASE64.encode(bytes));
        Contents { uri: uri.into(), mime_type: None, text: None, blob, meta: Map::new() }
    }

    /// Says of what type they are.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Contents {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// What a tool returns: content for the model, and a structured value for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallResult {
    /// For the model.
    pub content: Vec<Content>,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
    /// The tool failed, and the content says how.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Anything else.
    #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl CallResult {
    /// Text.
    pub fn text(text: impl Into<String>) -> CallResult {
        CallResult { content: vec![Content::text(text)], ..CallResult::default() }
    }

    /// An error that the model can read.
    pub fn error(text: impl Into<String>) -> CallResult {
        CallResult { is_error: true, ..CallResult::text(text) }
    }
}
