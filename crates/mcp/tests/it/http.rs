//! A small HTTP client that sends what it is told to, byte for byte, and reads events as they come.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::traffic::Talk;

/// A response whose body is still to come.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
    left: Left,
    talk: Talk,
}

enum Left {
    Bytes(usize),
    Chunks,
    Nothing,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let same = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().find(same).map(|(_, value)| value.as_str())
    }

    /// The next piece of the body, or nothing at its end.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        match self.left {
            Left::Nothing => None,
            Left::Bytes(count) => {
                let mut piece = vec![0; count];
                self.body.read_exact(&mut piece).await.unwrap();
                self.left = Left::Nothing;
                Some(piece)
            }
            Left::Chunks => {
                let mut line = String::new();
                self.body.read_line(&mut line).await.unwrap();
                let size = usize::from_str_radix(line.trim(), 16).ok()?;
                let mut piece = vec![0; size + 2];
                self.body.read_exact(&mut piece).await.unwrap();
                piece.truncate(size);
                if size == 0 {
                    self.left = Left::Nothing;
                    return None;
                }
                Some(piece)
            }
        }
    }

    pub(crate) async fn text(mut self) -> String {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await {
            all.extend(piece);
        }
        String::from_utf8(all).unwrap()
    }

    /// The body as JSON.
    pub(crate) async fn json(self) -> Value {
        let talk = self.talk.clone();
        let text = self.text().await;
        let said = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        talk.server_says(&said);
        said
    }

    /// The events of a stream, as they come.
    pub(crate) fn events(self) -> Events {
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        Events { response: self, buffer: String::new() }
    }

    /// The response to a request, whether it came alone or at the end of a stream.
    pub(crate) async fn last(self) -> Value {
        if self.header("content-type") != Some("text/event-stream") {
            return self.json().await;
        }
        let mut events = self.events();
        let mut last = Value::Null;
        while let Some(event) = events.next().await {
            last = event;
        }
        last
    }
}

pub(crate) struct Events {
    response: Response,
    buffer: String,
}

impl Events {
    /// What is known of its conversation.
    pub(crate) fn talk(&self) -> &Talk {
        &self.response.talk
    }

    /// The next event as it is.
    pub(crate) async fn raw(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let event = event.to_owned();
                self.buffer = rest.to_owned();
                return Some(event);
            }
            let piece = self.response.piece().await?;
            self.buffer.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next message, or nothing at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let next = self.next_in_time();
        tokio::time::timeout(Duration::from_secs(20), next).await.expect("an event in time")
    }

    async fn next_in_time(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let data: Vec<&str> =
                    event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                let message = (!data.is_empty()).then(|| serde_json::from_str(&data.concat()));
                self.buffer = rest.to_owned();
                if let Some(message) = message {
                    let message = message.unwrap();
                    self.response.talk.server_says(&message);
                    return Some(message);
                }
            }
            let piece = self.response.piece().await?;
            self.buffer.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

/// Sends a request to the endpoint with these headers, and nothing but those that HTTP itself needs.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    send_to(to, method, "/mcp", headers, body).await
}

/// The same to any path.
pub(crate) async fn send_to(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text += &format!("Host: {to}\r\n");
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    // The server may refuse before it has read all of it.
    let _ = stream.write_all(body.as_bytes()).await;
    let header = |wanted: &str| {
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let talk = Talk::of_session(header("mcp-session-id"));
    talk.client_says(body);
    let response = read(BufReader::new(stream), talk).await;
    if let Some(id) = response.header("mcp-session-id") {
        response.talk.is_session(id);
    }
    response
}

async fn read(mut body: BufReader<TcpStream>, talk: Talk) -> Response {
    let mut line = String::new();
    body.read_line(&mut line).await.unwrap();
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        body.read_line(&mut line).await.unwrap();
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let mut response = Response { status, headers, body, left: Left::Nothing, talk };
    response.left = match (response.header("transfer-encoding"), response.header("content-length"))
    {
        (Some("chunked"), _) => Left::Chunks,
        (_, Some(length)) => Left::Bytes(length.parse().unwrap()),
        _ => Left::Nothing,
    };
    response
}
