//! A client of the revisions with sessions, byte by byte: it sees where a stream breaks.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

pub(crate) struct Client {
    pub(crate) session: String,
    pub(crate) version: &'static str,
    pub(crate) token: Option<&'static str>,
}

/// An event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    /// Nothing in one that only says from where the stream can be taken up again.
    pub(crate) message: Option<Value>,
}

/// A response as it comes in.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    body: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr, version: &'static str) -> Client {
        Client::connect_as(to, version, None)
    }

    pub(crate) fn connect_as(
        to: SocketAddr,
        version: &'static str,
        token: Option<&'static str>,
    ) -> Client {
        Client::connect_with(to, version, token, json!({ "elicitation": {} }))
    }

    /// One that can do this.
    pub(crate) fn connect_with(
        to: SocketAddr,
        version: &'static str,
        token: Option<&'static str>,
        capabilities: Value,
    ) -> Client {
        let info = json!({ "name": "survive", "version": "1" });
        Client::introduced(to, version, token, &info, &capabilities)
    }

    /// One that says this of itself.
    pub(crate) fn introduced(
        to: SocketAddr,
        version: &'static str,
        token: Option<&'static str>,
        info: &Value,
        capabilities: &Value,
    ) -> Client {
        let mut client = Client { session: String::new(), version, token };
        let params = json!({ "protocolVersion": version, "clientInfo": info,
                             "capabilities": capabilities });
        let opened = client.request(to, json!(0), "initialize", params);
        assert_eq!(opened.status, 200);
        client.session = opened.header("mcp-session-id").unwrap().to_owned();
        opened.last();
        client
    }

    /// One of 2026-07-28, which has no session.
    pub(crate) fn stateless(token: Option<&'static str>) -> Client {
        Client { session: String::new(), version: "2026-07-28", token }
    }

    /// Calls a tool as 2026-07-28 has it, perhaps with a key and other parameters.
    pub(crate) fn call_stateless(
        &self,
        to: SocketAddr,
        id: Value,
        tool: &str,
        arguments: Value,
        key: Option<&str>,
        more: Value,
    ) -> Response {
        let body = stateless_call(&id, tool, &arguments, key, more);
        self.send_stateless(to, tool, &body)
    }

    /// Reads a resource as 2026-07-28 has it.
    pub(crate) fn read_stateless(
        &self,
        to: SocketAddr,
        id: Value,
        uri: &str,
        mut more: Value,
    ) -> Response {
        more["uri"] = json!(uri);
        let body = stateless_request(&id, "resources/read", None, more);
        self.send_stateless(to, uri, &body)
    }

    pub(crate) fn send_stateless(&self, to: SocketAddr, name: &str, body: &Value) -> Response {
        let method = body["method"].as_str().unwrap();
        let headers = format!(
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nMcp-Name: {name}\r\n"
        );
        self.send(to, "POST", &headers, &body.to_string())
    }

    fn send(&self, to: SocketAddr, method: &str, more: &str, body: &str) -> Response {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(self.text(to, method, more, body).as_bytes()).unwrap();
        Response::read(BufReader::new(stream))
    }

    /// A request, as it is sent.
    fn text(&self, to: SocketAddr, method: &str, more: &str, body: &str) -> String {
        let mut head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{more}",
            body.len()
        );
        if !self.session.is_empty() {
            head += &format!("Mcp-Session-Id: {}\r\n", self.session);
            head += &format!("MCP-Protocol-Version: {}\r\n", self.version);
        }
        if let Some(token) = self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        format!("{head}\r\n{body}")
    }

    /// Calls a tool, and does something before the last byte of that is sent.
    pub(crate) fn call_slowly(
        &self,
        to: SocketAddr,
        id: Value,
        tool: &str,
        arguments: Value,
        meanwhile: impl FnOnce(),
    ) -> Response {
        let text = self.call_text(to, id, tool, arguments);
        let (most, last) = text.as_bytes().split_at(text.len() - 1);
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(most).unwrap();
        meanwhile();
        stream.write_all(last).unwrap();
        Response::read(BufReader::new(stream))
    }

    /// Calls a tool, and looks for the response later. The request is in the server's socket by then.
    pub(crate) fn call_ahead(
        &self,
        to: SocketAddr,
        id: Value,
        tool: &str,
        arguments: Value,
    ) -> impl FnOnce() -> Response + use<> {
        let mut stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(self.call_text(to, id, tool, arguments).as_bytes()).unwrap();
        || Response::read(BufReader::new(stream))
    }

    fn call_text(&self, to: SocketAddr, id: Value, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.text(to, "POST", "", &body.to_string())
    }

    pub(crate) fn request(
        &self,
        to: SocketAddr,
        id: Value,
        method: &str,
        params: Value,
    ) -> Response {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(to, "POST", "", &body.to_string())
    }

    pub(crate) fn call(&self, to: SocketAddr, id: Value, tool: &str, arguments: Value) -> Response {
        let params = json!({ "name": tool, "arguments": arguments,
                             "_meta": { "progressToken": "p" } });
        self.request(to, id, "tools/call", params)
    }

    /// Several messages at once, as 2025-03-26 has it.
    pub(crate) fn batch(&self, to: SocketAddr, messages: &Value) -> Response {
        self.send(to, "POST", "", &messages.to_string())
    }

    /// A notification or a response.
    pub(crate) fn say(&self, to: SocketAddr, message: &Value) {
        assert_eq!(self.send(to, "POST", "", &message.to_string()).status, 202);
    }

    /// Opens the session's own stream.
    pub(crate) fn listen(&self, to: SocketAddr) -> Response {
        let stream = self.send(to, "GET", "", "");
        assert_eq!(stream.status, 200);
        stream
    }

    /// Takes up a stream after this event.
    pub(crate) fn resume(&self, to: SocketAddr, last: &str) -> Response {
        self.send(to, "GET", &format!("Last-Event-ID: {last}\r\n"), "")
    }

    pub(crate) fn end(&self, to: SocketAddr) -> u16 {
        self.send(to, "DELETE", "", "").status
    }
}

/// A call of 2026-07-28.
pub(crate) fn stateless_call(
    id: &Value,
    tool: &str,
    arguments: &Value,
    key: Option<&str>,
    mut more: Value,
) -> Value {
    (more["name"], more["arguments"]) = (json!(tool), arguments.clone());
    stateless_request(id, "tools/call", key, more)
}

/// A request of 2026-07-28.
fn stateless_request(id: &Value, method: &str, key: Option<&str>, mut params: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        "progressToken": id,
    });
    if let Some(key) = key {
        meta["dev.steadfast/idempotency-key"] = json!(key);
    }
    params["_meta"] = meta;
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

impl Response {
    fn read(mut body: BufReader<TcpStream>) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(body.read_line(&mut head).unwrap(), 0, "the connection was closed");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The next event, or nothing at the end of the stream, in good order or not.
    pub(crate) fn next(&mut self) -> Option<Event> {
        assert!(self.is_stream(), "{}", self.head);
        let (mut id, mut data) = (None, None);
        let begun = Instant::now();
        loop {
            // A silent stream shows that the server is there, and may do so for ever.
            assert!(begun.elapsed() < Duration::from_secs(40), "no event came");
            let mut line = String::new();
            if self.body.read_line(&mut line).ok()? == 0 {
                return None;
            }
            // The sizes of chunks are lines of their own, and stand between events.
            match line.trim_end().split_once(':') {
                Some(("id", value)) => id = Some(value.trim().to_owned()),
                Some(("data", value)) => data = Some(value.trim().to_owned()),
                Some(_) => {}
                None if line.trim_end().is_empty() && data.is_some() => {
                    let data = data.filter(|data| !data.is_empty());
                    let message = data.map(|data| serde_json::from_str(&data).unwrap());
                    return Some(Event { id, message });
                }
                // A chunk of nothing is the end.
                None if line.trim_end() == "0" => return None,
                None => {}
            }
        }
    }

    /// The next message, and the id of its event.
    pub(crate) fn message(&mut self) -> Option<(Option<String>, Value)> {
        loop {
            let Event { id, message } = self.next()?;
            if let Some(message) = message {
                return Some((id, message));
            }
        }
    }

    /// All messages that are still to come.
    pub(crate) fn rest(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.message().map(|(_, message)| message)).collect()
    }

    /// All bytes of the stream that are still to come, with what the other functions pass over.
    pub(crate) fn bytes(mut self) -> String {
        let mut bytes = String::new();
        loop {
            let begin = bytes.len();
            // A connection that was cut is at its end as well.
            let read = self.body.read_line(&mut bytes).unwrap_or(0);
            // A chunk of nothing is the end.
            if read == 0 || &bytes[begin..] == "0\r\n" {
                return bytes;
            }
        }
    }

    /// The last message, whether it came alone or on a stream.
    pub(crate) fn last(mut self) -> Value {
        if self.is_stream() {
            return self.rest().pop().expect("a message");
        }
        let length = self.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.body.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap_or(Value::Null)
    }
}
