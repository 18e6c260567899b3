//! Messages as they go out, written straight into text.

use serde::Serialize;

use super::{Id, RpcError};

/// A JSON object that is being written, field by field.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Object {
        Object(String::from("{"))
    }

    /// A field whose value is JSON already.
    #[must_use]
    pub(crate) fn raw(mut self, name: &str, json: &str) -> Object {
        self.name(name);
        self.0.push_str(json);
        self
    }

    /// A field.
    #[must_use]
    pub(crate) fn put<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Object {
        self.name(name);
        self.0.push_str(&json(value));
        self
    }

    /// A field that may be missing.
    #[must_use]
    pub(crate) fn maybe<T: Serialize>(self, name: &str, value: Option<T>) -> Object {
        match value {
            Some(value) => self.put(name, &value),
            None => self,
        }
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&json(name));
        self.0.push(':');
    }

    pub(crate) fn close(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Everything that is sent is made of strings, numbers and valid JSON text, which always serialise.
fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| String::from("null"))
}

pub(crate) fn response(id: &Id, result: &str) -> String {
    Object::new().put("jsonrpc", "2.0").put("id", id).raw("result", result).close()
}

/// Without an id if that of the request could not be read.
pub(crate) fn error_response(id: Option<&Id>, error: &RpcError) -> String {
    let object = Object::new().put("jsonrpc", "2.0");
    let object = match id {
        Some(id) => object.put("id", id),
        None => object,
    };
    object.put("error", error).close()
}

pub(crate) fn notification(method: &str, params: Option<&str>) -> String {
    let object = Object::new().put("jsonrpc", "2.0").put("method", method);
    match params {
        Some(params) => object.raw("params", params).close(),
        None => object.close(),
    }
}

pub(crate) fn request(id: &str, method: &str, params: Option<&str>) -> String {
    let object = Object::new().put("jsonrpc", "2.0").put("id", id).put("method", method);
    match params {
        Some(params) => object.raw("params", params).close(),
        None => object.close(),
    }
}
