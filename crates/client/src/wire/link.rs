//! Requests over HTTP to one URL.

use std::{sync::Arc, time::Duration};

use reqwest::{
    Method, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
};

use super::{Events, Headers};
use crate::Error;

/// How long it may take to reach the server.
const CONNECT: Duration = Duration::from_secs(10);

/// The way to a server: its URL, and who comes.
#[derive(Clone)]
pub struct Link {
    http: reqwest::Client,
    url: Url,
    bearer: Option<HeaderValue>,
}

/// The token is not shown, so that no log ever has it.
impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// The response to a request over HTTP.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// The session that it names.
    pub session: Option<String>,
    /// When to come back, if the server says so.
    pub retry_after: Option<Duration>,
    /// What is in it.
    pub body: Body,
}

/// What is in a response.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Text(String),
    /// What is coming.
    Events(Events),
}

impl Link {
    /// The way to this URL.
    pub fn new(url: &str) -> Result<Link, Error> {
        let wrong =
            |reason: String| Error::Setup(format!("{url:?} is no URL to connect to: {reason}"));
        let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        let tls = match parsed.scheme() {
            "http" => tls_of_nobody(),
            "https" => tls(),
            other => return Err(wrong(format!("{other} is neither http nor https"))),
        };
        let tls = tls.map_err(|error| Error::Setup(format!("TLS can't be set up: {error}")))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(CONNECT)
            // A request that is sent on elsewhere would take its token there.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("steadfast-client/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Setup(error.to_string()))?;
        Ok(Link { http, url: parsed, bearer: None })
    }

    /// Comes with this bearer token.
    pub fn bearer(mut self, token: &str) -> Result<Link, Error> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| Error::Setup("the token has characters that none may have".into()))?;
        value.set_sensitive(true);
        self.bearer = Some(value);
        Ok(self)
    }

    /// Where it leads.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Posts a message.
    pub async fn post(&self, headers: &Headers, message: String) -> Result<Answer, Error> {
        self.send(Method::POST, headers, Some(message)).await
    }

    /// Opens a stream of a session, after an event if there is one.
    pub async fn get(&self, headers: &Headers, after: Option<&str>) -> Result<Answer, Error> {
        let mut headers = headers.clone();
        headers.extend(after.map(|event| ("Last-Event-ID".to_owned(), event.to_owned())));
        self.send(Method::GET, &headers, None).await
    }

    /// Ends a session.
    pub async fn delete(&self, headers: &Headers) -> Result<Answer, Error> {
        self.send(Method::DELETE, headers, None).await
    }

    async fn send(
        &self,
        method: Method,
        headers: &Headers,
        message: Option<String>,
    ) -> Result<Answer, Error> {
        let accepted = match method {
            Method::GET => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        let mut request = self.http.request(method, self.url.clone()).header(ACCEPT, accepted);
        for (name, value) in headers {
            request = request.header(name.as_str(), value.as_str());
        }
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        if let Some(message) = message {
            request = request.header(CONTENT_TYPE, "application/json").body(message);
        }
        let response = request.send().await.map_err(|error| self.error(&error))?;
        let text = |name: &str| read(response.headers(), name).map(str::to_owned);
        let answer = |body| Answer {
            status: response.status().as_u16(),
            session: text("mcp-session-id"),
            retry_after: text(RETRY_AFTER.as_str())
                .and_then(|seconds| seconds.parse().ok())
                .map(Duration::from_secs),
            body,
        };
        let streams = text(CONTENT_TYPE.as_str()).is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("text/event-stream")
        });
        let mut answer = answer(Body::Text(String::new()));
        answer.body = match streams {
            true => Body::Events(Events::new(self, response)),
            false => Body::Text(response.text().await.map_err(|error| self.error(&error))?),
        };
        Ok(answer)
    }

    fn error(&self, error: &reqwest::Error) -> Error {
        if error.is_builder() {
            Error::Setup(format!("this can't be sent: {}", crate::error::reason(error)))
        } else if error.is_connect() {
            Error::Unreachable { url: self.url().to_owned(), reason: crate::error::reason(error) }
        } else {
            Error::broken(self.url(), error)
        }
    }
}

fn read<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Who the system trusts is trusted.
fn tls() -> Result<rustls::ClientConfig, rustls::Error> {
    let verifier = rustls_platform_verifier::Verifier::new(provider())?;
    Ok(rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous() // As the type calls every verifier but its own.
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

/// For a URL without TLS: so a machine without any certificates can use those.
fn tls_of_nobody() -> Result<rustls::ClientConfig, rustls::Error> {
    Ok(rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_is_spoken_and_a_token_is_never_shown() {
        for wrong in ["ftp://localhost/mcp", "localhost", "", "http://"] {
            assert!(matches!(Link::new(wrong), Err(Error::Setup(_))), "{wrong}");
        }
        let link = Link::new("http://localhost:1/mcp").unwrap().bearer("the-secret").unwrap();
        assert!(!format!("{link:?}").contains("secret"));
        assert!(link.bearer("a\nb").is_err());
    }
}
