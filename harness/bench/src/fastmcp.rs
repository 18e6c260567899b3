//! FastMCP with its tasks on Redis, for durable tools over HTTP.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{Result, http::Server};

/// A Redis, and servers that share it.
pub(crate) struct FastMcp {
    // Dropped before what they need.
    servers: Vec<Server>,
    _redis: Redis,
}

impl FastMcp {
    /// So many processes. Clients stay with one of them, which costs less than any balancer.
    pub(crate) fn start(command: &[PathBuf], dir: &Path, processes: usize) -> Result<FastMcp> {
        let [python, script] = command else { return Err("a Python and a script".into()) };
        eprintln!("FastMCP on Redis, append-only file, flushed once a second as shipped");
        let dir = dir.join(format!("redis-{processes}"));
        std::fs::create_dir(&dir)?;
        let redis = Redis::start(&dir)?;
        let arguments = [script.to_str().ok_or("a script with an odd name")?, &redis.url];
        let mut servers = Vec::new();
        for _ in 0..processes {
            servers.push(Server::start(python, &arguments)?);
        }
        Ok(FastMcp { servers, _redis: redis })
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }
}

/// A Redis of our own.
struct Redis {
    child: Child,
    url: String,
}

impl Redis {
    /// With an append-only file, as tasks that are to outlive it need. How often that is flushed is left as
    /// shipped, so a power cut takes the last second, which favours it over a server that flushes before it
    /// answers. A socket in the file system, unlike a port, can't be taken already.
    fn start(dir: &Path) -> Result<Redis> {
        let socket = dir.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--appendonly", "yes", "--save", ""]);
        command.arg("--dir").arg(dir).arg("--unixsocket").arg(&socket);
        let child = command.stdout(Stdio::null()).spawn()?;
        let redis = Redis { child, url: format!("unix://{}", socket.display()) };
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err("Redis does not start".into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
