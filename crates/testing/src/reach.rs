//! Reaching a server in the test over HTTP.

use std::net::SocketAddr;

use steadfast_client::{Client, Connect};

use crate::{TestServer, server::Reach};

impl TestServer {
    /// Where it listens, in all its lives.
    ///
    /// # Panics
    /// In virtual time.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self.reach {
            Reach::Http(address) => address,
            Reach::Virtual(_) => panic!("in virtual time there is no HTTP: see TestServer::pipe"),
        }
    }

    /// The same as a client wants it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address())
    }

    /// Connects a client of 2026-07-28.
    ///
    /// # Panics
    /// If it can't.
    pub async fn client(&self) -> Client {
        let connected = self.connect().await;
        connected.unwrap_or_else(|error| panic!("the client can't connect: {error}"))
    }

    /// The same with what else can be said of a client: its revision, a token, who answers its
    /// questions.
    ///
    /// ```
    /// # use steadfast::{prelude::*, testing::TestServer};
    /// use steadfast::testing::client::Revision;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let mut server = TestServer::new(|| Server::new("greeter"));
    /// # server.up().await;
    /// let client = server.connect().revision(Revision::V2025_11_25).bearer("secret").await.unwrap();
    /// assert!(client.session_id().is_some());
    /// # }
    /// ```
    pub fn connect(&self) -> Connect {
        Client::connect(&self.url())
    }
}
