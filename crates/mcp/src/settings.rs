//! What can be set, with its defaults and limits.

use std::time::Duration;

/// Settings of the front. Every limit is enforced with an error that names it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The largest body of a request, in bytes (4 MiB).
    pub max_body: usize,
    /// The largest head of a request: its line and its headers, in bytes (32 KiB; 8 KiB at least). A server
    /// of your own that the [router](crate::Running::router) is put into has its own limits.
    pub max_head: usize,
    /// How long the head of a request may take, and how long a connection may be idle before it (2 minutes).
    pub head_time: Duration,
    /// Requests at work at once, those that wait for a task included (4,096).
    pub max_requests: usize,
    /// How often in a second one principal may ask for its tasks, whatever for (1,000; 0 for no limit).
    pub max_polls_per_second: u32,
    /// Tasks of one principal that have not ended (100,000; 0 for no limit). They are counted once a
    /// minute, and every two seconds while there are too many; in between, what is started here is added.
    pub max_open_tasks: u64,
    /// Sessions of clients up to 2025-11-25 (10,000); when there are more, the one that was idle
    /// longest ends.
    pub max_sessions: usize,
    /// A session that is idle this long, in all processes that share a store, ends within a quarter of that
    /// time (an hour).
    pub session_idle: Duration,
    /// Things on a page of a listing (100).
    pub page_size: usize,
    /// How often clients are to ask how a task stands, while nothing else is known (a second).
    pub poll_interval: Duration,
    /// How long a client of 2026-07-28 without tasks may take to come back with an answer (a day);
    /// then the question fails as timed out, unless its author set another deadline.
    pub request_state_life: Duration,
    /// How long clients of 2026-07-28 may keep listings (a minute); changes are announced.
    pub cache_life: Duration,
    /// How often something is sent on a stream that is silent, so that nobody takes it for dead (15 s).
    pub keep_alive: Duration,
    /// A response that takes longer than this becomes a stream, which shows that we are alive (2 s).
    pub stream_after: Duration,
    /// Offers tools about tasks to clients that know none: status, result, list, input, cancel (off).
    pub companions: bool,
    /// With such tools, a call that takes longer than this answers with its task (40 s: most clients
    /// give up after 60).
    pub outlives: Duration,
    /// A stream that waits for a response is hung up after this long, and the client comes back for the
    /// rest (never): for proxies that cut long connections. Clients of 2025-11-25 know how, and durable
    /// tools, prompts and resources have streams that can be taken up again; no others are hung up.
    pub stream_life: Option<Duration>,
    /// Serves clients of 2024-11-05 at `/sse` as well (off).
    pub sse: bool,
    /// Lets unauthenticated callers list their tasks, who are then all of one principal (off).
    pub anonymous_list: bool,
    /// Hosts other than loopback that requests may name, `*` for any (none).
    pub hosts: Vec<String>,
    /// Origins other than loopback that browsers may call from (none).
    pub origins: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_body: 4 << 20,
            max_head: 32 << 10,
            head_time: Duration::from_secs(120),
            max_requests: 4_096,
            max_polls_per_second: 1_000,
            max_open_tasks: 100_000,
            max_sessions: 10_000,
            session_idle: Duration::from_secs(3_600),
            page_size: 100,
            poll_interval: Duration::from_secs(1),
            request_state_life: Duration::from_secs(24 * 3_600),
            cache_life: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
            stream_after: Duration::from_secs(2),
            companions: false,
            outlives: Duration::from_secs(40),
            stream_life: None,
            sse: false,
            anonymous_list: false,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}
