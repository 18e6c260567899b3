//! Load over HTTP: connections that each send the next request when the last is answered.
//!
//! What is measured is the server, and the clients share the machine with it. So they are one thread,
//! which doesn't push the server aside when a response comes ([`step_back`]), and read no more of a
//! response than where it ends.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Result;

/// From now on this thread waits until a processor is free, where the system can do that: otherwise each
/// response would interrupt the server, and the quicker the clients are compared to it the more often.
/// Processes and threads that it starts are as usual.
pub(crate) fn step_back() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all zeros is a valid value of this plain structure.
        #[allow(unsafe_code)]
        let parameters = unsafe { std::mem::zeroed::<libc::sched_param>() };
        let policy = libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK;
        // SAFETY: the pointer is valid for the call. Without leave to do it all goes on as usual.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    }
}

/// Nanoseconds since some moment that is the same for all processes.
pub(crate) fn nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call, and this clock is there on every system.
    #[allow(unsafe_code)]
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response: the status, the headers, and the body as it came, with the marks of its chunks.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// An error unless it is a success.
    pub(crate) fn fine(&self) -> Result<()> {
        match self.status {
            200 => Ok(()),
            status => Err(format!("the server answered {status}: {}", self.body).into()),
        }
    }

    /// The JSON in it, whether it came alone or as the last event of a stream.
    pub(crate) fn json(&self) -> Result<serde_json::Value> {
        let lines = self.body.lines().rev();
        let event =
            lines.filter_map(|line| line.strip_prefix("data: ")).find(|data| !data.is_empty());
        Ok(serde_json::from_str(event.unwrap_or(&self.body))?)
    }
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4_096) })
    }

    /// Sends a request and waits for all of its response.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Response> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let text = String::from_utf8_lossy(&self.buffer[..head]).into_owned();
        let status =
            text.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or("no status")?;
        let mut response = Response { status, head: text, body: String::new() };
        if response.header("transfer-encoding") == Some("chunked") {
            while !self.buffer.ends_with(b"\r\n0\r\n\r\n") {
                self.more().await?;
            }
        } else if let Some(length) = response.header("content-length") {
            let end = head + length.parse::<usize>()?;
            while self.buffer.len() < end {
                self.more().await?;
            }
        }
        response.body = String::from_utf8_lossy(&self.buffer[head..]).into_owned();
        Ok(response)
    }

    /// Sends a request whose response is a stream.
    pub(crate) async fn listen(mut self, request: &[u8]) -> Result<Listening> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        while find(&self.buffer, b"\r\n\r\n").is_none() {
            self.more().await?;
        }
        match self.buffer.starts_with(b"HTTP/1.1 200") {
            true => Ok(Listening(self)),
            false => Err(String::from_utf8_lossy(&self.buffer).into_owned().into()),
        }
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

/// A stream of events.
pub(crate) struct Listening(Connection);

impl Listening {
    /// The content of the next event that has any. Each event is one write of the server's, and a line of
    /// it is never cut by the marks of chunks.
    pub(crate) async fn next(&mut self) -> Result<serde_json::Value> {
        loop {
            let buffer = &mut self.0.buffer;
            if let Some(begin) = find(buffer, b"data: ")
                && let Some(length) = find(&buffer[begin..], b"\n")
            {
                let data = serde_json::from_slice(&buffer[begin + 6..begin + length])?;
                buffer.drain(..begin + length);
                return Ok(data);
            }
            self.0.more().await?;
        }
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// A POST to the endpoint, ready to be sent.
pub(crate) fn post(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!(
        "POST {path} HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    (text + "\r\n" + body).into_bytes()
}

/// What one connection does over and over.
pub(crate) trait Work: Send + 'static {
    fn once(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// The same request each time.
pub(crate) struct Same {
    pub(crate) connection: Connection,
    pub(crate) request: Vec<u8>,
}

impl Work for Same {
    async fn once(&mut self) -> Result<()> {
        self.connection.ask(&self.request).await?.fine()
    }
}

/// Lets all workers do their work at the same time, over and over, each at least once however slow it is,
/// and gives how often it was done in a second. The first fifth of the time is for warming up.
pub(crate) async fn run(workers: Vec<impl Work>, time: Duration) -> Result<f64> {
    let begun = Instant::now();
    let warm = begun + time / 5;
    let at_once = workers.len();
    let left = Arc::new(AtomicUsize::new(at_once));
    let mut tasks = tokio::task::JoinSet::new();
    for mut worker in workers {
        let left = Arc::clone(&left);
        tasks.spawn(async move {
            let (mut times, mut done) = (Vec::new(), false);
            loop {
                let start = Instant::now();
                if !done && start.duration_since(begun) >= time && !times.is_empty() {
                    done = true;
                    left.fetch_sub(1, Ordering::Relaxed);
                }
                // Who is done goes on uncounted, or the rest would have it easier at the end.
                if left.load(Ordering::Relaxed) == 0 {
                    return Ok::<_, crate::Error>(times);
                }
                worker.once().await?;
                if start >= warm && !done {
                    times.push(start.elapsed().as_secs_f64());
                }
            }
        });
    }
    let mut all = Vec::new();
    while let Some(times) = tasks.join_next().await {
        all.extend(times??);
    }
    // By how long it takes with so many at it: slow workers go in step, and a count up to some moment
    // would have a whole wave more or less.
    Ok((at_once * all.len()) as f64 / all.iter().sum::<f64>())
}
