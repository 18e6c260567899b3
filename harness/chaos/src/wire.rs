//! HTTP, byte by byte: one request on a connection, and whatever comes of it.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

/// Why a connection was of no use. Clients can't tell much more.
pub(crate) type Broken = String;

/// A connection that is silent for this long is given up.
const SILENCE: Duration = Duration::from_secs(6);

/// A response as it comes in.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    stream: BufReader<TcpStream>,
    /// What of the body was read, and not used.
    body: Vec<u8>,
    over: bool,
}

/// An event of a stream, or all of a body.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) message: Option<Value>,
}

async fn patiently<T>(
    what: &str,
    work: impl Future<Output = std::io::Result<T>>,
) -> Result<T, Broken> {
    match timeout(SILENCE, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("{what}: {}", error.kind())),
        Err(_) => Err(format!("{what}: silence")),
    }
}

/// Sends a request, and reads the head of the response.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Response, Broken> {
    send_from(to, method, headers, body, |_| {}).await
}

/// The same, and says from which port.
pub(crate) async fn send_from(
    to: SocketAddr,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
    from: impl FnOnce(u16),
) -> Result<Response, Broken> {
    let mut stream = patiently("connect", TcpStream::connect(to)).await?;
    from(stream.local_addr().map_or(0, |address| address.port()));
    let mut request = format!(
        "{method} /mcp HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\n\
         Content-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += "\r\n";
    request += body;
    patiently("send", stream.write_all(request.as_bytes())).await?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if patiently("head", stream.read_line(&mut head)).await? == 0 {
            return Err("head: closed".into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("head: {head:?}"))?;
    Ok(Response { status, head, stream, body: Vec::new(), over: false })
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Reads on. False at the end, if that was in good order.
    async fn more(&mut self) -> Result<bool, Broken> {
        if self.over {
            return Ok(false);
        }
        let before = self.body.len();
        if self.header("transfer-encoding") == Some("chunked") {
            let mut line = String::new();
            patiently("chunk", self.stream.read_line(&mut line)).await?;
            let size = usize::from_str_radix(line.trim_end(), 16);
            let size = size.map_err(|_| "chunk: closed".to_owned())?;
            // The line break behind it is not of the body.
            self.body.resize(before + size + 2, 0);
            patiently("chunk", self.stream.read_exact(&mut self.body[before..])).await?;
            self.body.truncate(before + size);
            self.over = size == 0;
        } else {
            let size = self.header("content-length").and_then(|size| size.parse().ok());
            self.body.resize(before + size.unwrap_or(0), 0);
            patiently("body", self.stream.read_exact(&mut self.body[before..])).await?;
            self.over = true;
        }
        Ok(self.body.len() > before)
    }

    /// All of the body.
    pub(crate) async fn text(&mut self) -> Result<String, Broken> {
        while self.more().await? {}
        Ok(String::from_utf8_lossy(&std::mem::take(&mut self.body)).into_owned())
    }

    /// The next event; a body that is no stream is one. Nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Broken> {
        if self.header("content-type") != Some("text/event-stream") {
            let text = self.text().await?;
            let message = serde_json::from_str(&text).ok();
            return Ok(message.map(|message| Event { id: None, message: Some(message) }));
        }
        loop {
            let end = self.body.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let event: Vec<u8> = self.body.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event).into_owned();
                let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
                let id = field("id: ").map(str::to_owned);
                let message = field("data: ").and_then(|data| serde_json::from_str(data).ok());
                if id.is_some() || message.is_some() {
                    return Ok(Some(Event { id, message }));
                }
            } else if !self.more().await? {
                return Ok(None);
            }
        }
    }
}
