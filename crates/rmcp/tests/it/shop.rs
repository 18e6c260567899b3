//! An rmcp handler with something of everything.

use std::sync::{Arc, Mutex};

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
        CompleteResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What happened in the handler, in its order, so that it survives the server.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    pub(crate) fn add(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| *line == what).count()
    }

    /// Waits until it has happened.
    pub(crate) async fn has(&self, what: &str) {
        let happened = async {
            while self.count(what) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        let in_time = tokio::time::timeout(std::time::Duration::from_secs(20), happened).await;
        in_time.unwrap_or_else(|_| panic!("no {what:?} in time"));
    }
}

#[derive(Clone, Default)]
pub(crate) struct Shop {
    pub(crate) ledger: Ledger,
    /// What it lists, so that tests can change it.
    pub(crate) lists: Arc<Mutex<Lists>>,
    peer: Arc<Mutex<Option<Peer<RoleServer>>>>,
}

pub(crate) struct Lists {
    pub(crate) tools: Vec<Value>,
    pub(crate) prompts: Vec<Value>,
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
}

fn empty() -> Value {
    json!({ "type": "object" })
}

pub(crate) fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": empty() })
}

impl Default for Lists {
    fn default() -> Lists {
        let charge = json!({
            "name": "charge",
            "title": "Charge",
            "description": "Charges a card.",
            "inputSchema": { "type": "object", "properties": { "amount": { "type": "number" } }, "required": ["amount"] },
            "annotations": { "title": "Charge it", "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true },
            "icons": [{ "src": "https://example.com/charge.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark" }],
            "_meta": { "example.com/price": 1.5 },
        });
        let look = json!({ "name": "look", "inputSchema": empty(), "annotations": { "readOnlyHint": true } });
        let sum = json!({
            "name": "sum",
            "inputSchema": { "type": "object", "properties": { "numbers": { "type": "array", "items": { "type": "number" } } } },
            "outputSchema": { "type": "object", "properties": { "total": { "type": "number" } }, "required": ["total"] },
        });
        let others = ["everything", "echo", "fail", "refuse", "panic", "ask"];
        let greet = json!({
            "name": "greet", "title": "Greet", "description": "Greets somebody.",
            "arguments": [{ "name": "who", "title": "Who", "description": "Whom to greet.", "required": true }, { "name": "how", "required": false }],
            "icons": [{ "src": "https://example.com/hand.png" }],
            "_meta": { "example.com/mood": "good" },
        });
        let stock = json!({
            "uri": "shop://stock", "name": "stock", "title": "Stock", "description": "What there is.",
            "mimeType": "application/json", "size": 12, "annotations": { "audience": ["user"], "priority": 0.5 },
            "icons": [{ "src": "https://example.com/box.png" }],
            "_meta": { "example.com/shelf": 3 },
        });
        let item = json!({ "uriTemplate": "shop://item/{id}", "name": "item", "description": "An item.", "mimeType": "text/plain" });
        Lists {
            tools: [charge, look, sum].into_iter().chain(others.map(tool)).collect(),
            prompts: vec![greet, json!({ "name": "closed" })],
            resources: vec![stock, json!({ "uri": "shop://gone", "name": "gone" })],
            templates: vec![item],
        }
    }
}

/// Content of every kind, with all that can be in it.
pub(crate) fn everything() -> Value {
    let hints = json!({ "audience": ["assistant"], "priority": 0.25, "lastModified": "2026-01-01T00:00:00Z" });
    json!({
        "content": [
            { "type": "text", "text": "hello", "annotations": hints, "_meta": { "n": 1 } },
            { "type": "image", "data": "AQI=", "mimeType": "image/png", "_meta": { "n": 2 } },
            { "type": "audio", "data": "AwQ=", "mimeType": "audio/wav", "annotations": hints },
            { "type": "resource", "resource": { "uri": "shop://a", "mimeType": "text/plain", "text": "a", "_meta": { "n": 3 } } },
            { "type": "resource", "resource": { "uri": "shop://b", "blob": "AA==" }, "_meta": { "n": 4 } },
            { "type": "resource_link", "uri": "shop://c", "name": "c", "title": "C", "description": "See c.", "mimeType": "text/plain", "size": 7, "icons": [{ "src": "https://example.com/c.png" }] },
        ],
        "structuredContent": { "ok": true },
        "isError": true,
        "_meta": { "example.com/trace": "t" },
    })
}

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Two at a time, so that cursors must be followed.
fn page(field: &str, all: &[Value], request: Option<PaginatedRequestParams>) -> Value {
    let from = request.and_then(|r| r.cursor).map_or(0, |cursor| cursor.parse::<usize>().unwrap());
    let to = all.len().min(from + 2);
    let mut page = json!({ field: &all[from..to] });
    if to < all.len() {
        page["nextCursor"] = json!(to.to_string());
    }
    page
}

impl Shop {
    /// Tells its client something, as handlers do that have kept their peer.
    pub(crate) fn peer(&self) -> Peer<RoleServer> {
        self.peer.lock().unwrap().clone().unwrap()
    }
}

impl ServerHandler for Shop {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tool_list_changed()
                .enable_prompts()
                .enable_resources()
                .enable_resources_subscribe()
                .enable_completions()
                .build(),
        )
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        *self.peer.lock().unwrap() = Some(context.peer);
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(of(page("tools", &self.lists.lock().unwrap().tools, request)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        self.ledger.add(&request.name);
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        let result = match request.name.as_ref() {
            // Takes as long as it takes, unless somebody takes it back.
            "charge" if arguments["amount"] == 0 => {
                context.ct.cancelled().await;
                self.ledger.add("taken back");
                return Err(ErrorData::internal_error("taken back", None));
            }
            "look" if self.ledger.count("look") == 1 && arguments["slowly"] == true => {
                std::future::pending().await
            }
            "charge" => text(&format!("charged {}", arguments["amount"])),
            "look" => text("looked"),
            "sum" => {
                let numbers = arguments["numbers"].as_array().unwrap();
                let total: f64 = numbers.iter().filter_map(Value::as_f64).sum();
                json!({ "content": [], "structuredContent": { "total": total } })
            }
            "everything" => everything(),
            "echo" => json!({ "content": [], "structuredContent": arguments }),
            "fail" => {
                json!({ "content": [{ "type": "text", "text": "out of paper" }], "isError": true })
            }
            "refuse" => {
                return Err(ErrorData::new(
                    ErrorCode(-31999),
                    "not today",
                    Some(json!({ "day": 1.5 })),
                ));
            }
            "panic" => panic!("secret"),
            "ask" => {
                #[allow(deprecated)]
                let asked = context.peer.list_roots().await;
                text(&asked.unwrap_err().to_string())
            }
            _ => text("new"),
        };
        Ok(of::<CallToolResult>(result).into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(of(page("prompts", &self.lists.lock().unwrap().prompts, request)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "closed" {
            return Err(ErrorData::new(ErrorCode(-31998), "closed", Some(json!("until Monday"))));
        }
        let who = &request.arguments.unwrap_or_default()["who"];
        let content =
            json!({ "type": "text", "text": format!("Greet {who}."), "_meta": { "n": 5 } });
        Ok(of::<GetPromptResult>(json!({
            "description": "A greeting.",
            "messages": [{ "role": "user", "content": content }, { "role": "assistant", "content": { "type": "image", "data": "AQI=", "mimeType": "image/png" } }],
            "_meta": { "example.com/trace": "p" },
        }))
        .into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let of_what = request.r#ref.reference_type();
        let value = format!("{of_what}:{}:{}", request.argument.name, request.argument.value);
        Ok(of(json!({ "completion": { "values": [value] } })))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(of(page("resources", &self.lists.lock().unwrap().resources, request)))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(of(page("resourceTemplates", &self.lists.lock().unwrap().templates, request)))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = match request.uri.as_str() {
            "shop://gone" => {
                return Err(ErrorData::resource_not_found(
                    "sold",
                    Some(json!({ "when": "today" })),
                ));
            }
            "shop://stock" => json!([
                { "uri": "shop://stock", "mimeType": "text/plain", "text": "{}", "_meta": { "n": 6 } },
                { "uri": "shop://stock/more", "mimeType": "application/x", "blob": "AA==" },
            ]),
            uri => {
                json!([{ "uri": uri, "mimeType": "text/plain", "text": format!("this is {uri}") }])
            }
        };
        Ok(of::<ReadResourceResult>(json!({ "contents": contents })).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.ledger.add(&format!("subscribed {}", request.uri));
        Ok(())
    }
}
