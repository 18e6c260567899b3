//! Writes down what the server says, if `STEADFAST_TRAFFIC` names a directory: `cargo xtask schemas` holds
//! every message against the official schemas.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::Write,
    path::PathBuf,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One line for each message.
static FILE: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let dir = PathBuf::from(std::env::var_os("STEADFAST_TRAFFIC")?);
    fs::create_dir_all(&dir).unwrap();
    let file = File::create(dir.join(format!("{}.jsonl", std::process::id()))).unwrap();
    Some(Mutex::new(file))
});

/// The sessions over HTTP, by their ids.
static SESSIONS: LazyLock<Mutex<HashMap<String, Talk>>> = LazyLock::new(Mutex::default);

/// What is known of a conversation: a response alone does not say what it answers.
#[derive(Clone, Default)]
pub(crate) struct Talk(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    revision: Option<String>,
    /// The methods of requests, by their ids.
    asked: HashMap<String, String>,
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What matters of a message of the client. The rest may be anything.
#[derive(Deserialize)]
struct Said {
    id: Option<Value>,
    method: Option<String>,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

impl Talk {
    /// The conversation that an HTTP request belongs to.
    pub(crate) fn of_session(id: Option<&str>) -> Talk {
        let sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        id.and_then(|id| sessions.get(id).cloned()).unwrap_or_default()
    }

    /// From here on this session's messages belong to it.
    pub(crate) fn is_session(&self, id: &str) {
        let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.entry(id.to_owned()).or_insert_with(|| self.clone());
    }

    /// Notes what the client says.
    pub(crate) fn client_says(&self, text: &str) {
        let one = serde_json::from_str(text).map(|message| vec![message]);
        let Ok(messages) = one.or_else(|_| serde_json::from_str::<Vec<Said>>(text)) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for Said { id, method, params } in messages {
            let meta = params.and_then(|params| params.meta).unwrap_or_default();
            if let Some(Value::String(version)) = meta.get(VERSION) {
                known.revision = Some(version.clone());
            }
            if let (Some(method), Some(id)) = (method, id) {
                known.asked.insert(id.to_string(), method);
            }
        }
    }

    /// Writes down what the server says.
    pub(crate) fn server_says(&self, said: &Value) {
        let Some(file) = &*FILE else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agreed) = said["result"]["protocolVersion"].as_str() {
            known.revision = Some(agreed.to_owned());
        }
        let messages = said.as_array().cloned().unwrap_or_else(|| vec![said.clone()]);
        for message in messages {
            let asked = message.get("id").and_then(|id| known.asked.get(&id.to_string()));
            let line = json!({
                "test": std::thread::current().name(),
                "revision": known.revision,
                "asked": asked.filter(|_| message.get("method").is_none()),
                "message": message,
            });
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }
}
