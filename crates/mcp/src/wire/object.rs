//! Messages as they go out, written straight into text.

use serde::Serialize;

use super::{Id, RpcError};

/// A JSON object that is being written, field by field.
pub(crate) struct Object(Vec<u8>);

impl Object {
    pub(crate) fn new() -> Object {
        let mut text = Vec::with_capacity(256);
        text.push(b'{');
        Object(text)
    }

    /// A field whose value is JSON already.
    #[must_use]
    pub(crate) fn raw(mut self, name: &str, json: &str) -> Object {
        self.name(name);
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    /// A field.
    #[must_use]
    pub(crate) fn put<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Object {
        self.name(name);
        self.value(value);
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
            self.0.push(b',');
        }
        self.value(name);
        self.0.push(b':');
    }

    /// Everything that is sent is made of strings, numbers and valid JSON text, which always serialise.
    fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        let length = self.0.len();
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.truncate(length);
            self.0.extend_from_slice(b"null");
        }
    }

    pub(crate) fn close(mut self) -> String {
        self.0.push(b'}');
        // What serde_json writes, and what is put in as text, is UTF-8.
        String::from_utf8(self.0).unwrap_or_default()
    }
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
