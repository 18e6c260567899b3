//! Which server, and as whom.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use steadfast_client::{Client, Connect, Revision};

use crate::Result;

/// Which server, and as whom. Without --token-file the environment's STEADFAST_TOKEN is the token.
#[derive(Args, Clone)]
pub(crate) struct Target {
    /// The server, such as http://127.0.0.1:8787/mcp
    pub(crate) url: String,

    /// Speak this revision of the protocol: 2026-07-28, 2025-11-25, 2025-06-18 or 2025-03-26
    #[arg(long, value_name = "DATE", default_value_t)]
    pub(crate) revision: Revision,

    #[command(flatten)]
    pub(crate) access: Access,
}

/// As whom, and with how much patience.
#[derive(Args, Clone)]
pub(crate) struct Access {
    /// Come with the bearer token in this file [default: the environment's STEADFAST_TOKEN, if set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Wait this many seconds for a server that is away, each time
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

impl Access {
    /// The token, if there is one. Errors never have it.
    pub(crate) fn token(&self) -> Result<Option<String>> {
        let token = match &self.token_file {
            Some(file) => {
                let shown = file.display();
                let text = std::fs::read_to_string(file)
                    .map_err(|error| format!("the token file {shown} can't be read: {error}"))?;
                let token = text.trim().to_owned();
                if token.is_empty() || token.contains(char::is_whitespace) {
                    return Err(
                        format!("the file {shown} must have a token, and nothing else").into()
                    );
                }
                Some(token)
            }
            None => std::env::var("STEADFAST_TOKEN").ok().filter(|token| !token.is_empty()),
        };
        Ok(token)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.wait)
    }
}

impl Target {
    pub(crate) async fn connect(&self) -> Result<Client> {
        self.finish(Client::connect(&self.url).revision(self.revision)).await
    }

    pub(crate) async fn reconnect(&self, session: &str) -> Result<Client> {
        self.finish(Client::reconnect(&self.url, session, self.revision)).await
    }

    async fn finish(&self, mut connect: Connect) -> Result<Client> {
        connect =
            connect.name("steadfast", env!("CARGO_PKG_VERSION")).patience(self.access.patience());
        if let Some(token) = self.access.token()? {
            connect = connect.bearer(token);
        }
        Ok(connect.await?)
    }

    /// The words that name it in a command to go on with.
    pub(crate) fn words(&self) -> String {
        match self.revision == Revision::default() {
            true => self.url.clone(),
            false => format!("{} --revision {}", self.url, self.revision),
        }
    }
}
