//! Whether a request may come in at all: its `Host` and its `Origin`.
//!
//! A web page can make a browser send requests to a server on the same machine, under a name that
//! the page's owner lets point there. So both must name this machine, or what was allowed.

use axum::{
    http::{HeaderMap, StatusCode, Uri, header},
    response::Response,
};

use crate::settings::Settings;

pub(super) fn check(
    settings: &Settings,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Box<Response>> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
    let allowed = |host: &str| {
        is_loopback(host) || settings.hosts.iter().any(|one| one == "*" || names(one, host))
    };
    if !host.is_some_and(allowed) {
        let message = "this Host is not served; allow it in the server's settings";
        return Err(Box::new(super::refusal(StatusCode::FORBIDDEN, message)));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let local = |origin: &str| {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(is_loopback)
    };
    let fits = |origin: &str| {
        local(origin) || settings.origins.iter().any(|one| one.eq_ignore_ascii_case(origin))
    };
    match origin.to_str() {
        Ok(origin) if fits(origin) => Ok(()),
        _ => {
            let message = "this Origin is not served; allow it in the server's settings";
            Err(Box::new(super::refusal(StatusCode::FORBIDDEN, message)))
        }
    }
}

/// Without the port, and without the brackets of an IPv6 address.
fn without_port(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let fine = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return fine.then_some(address);
    }
    match host.split_once(':') {
        None => Some(host),
        Some((name, port)) => is_port(port).then_some(name),
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn is_loopback(host: &str) -> bool {
    without_port(host).is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// An allowed host with a port is meant with that port; without one, with any.
fn names(allowed: &str, host: &str) -> bool {
    allowed.eq_ignore_ascii_case(host)
        || without_port(host).is_some_and(|name| name.eq_ignore_ascii_case(allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        let settings = Settings {
            hosts: vec!["mcp.example.com".into(), "other.example.com:8443".into()],
            origins: vec!["https://app.example.com".into()],
            ..Settings::default()
        };
        check(&settings, &Uri::from_static("/mcp"), &headers).is_ok()
    }

    #[test]
    fn only_this_machine_and_what_was_allowed() {
        for host in ["localhost", "LOCALHOST:3000", "127.0.0.1:1", "[::1]:80", "[::1]", "127.9.9.9"]
        {
            assert!(allowed(host, None), "{host}");
        }
        for host in [
            "evil.com",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "localhost:x",
            "[::1",
            "[::1]x",
            "10.0.0.1",
            "",
        ] {
            assert!(!allowed(host, None), "{host}");
        }
        assert!(allowed("mcp.example.com", None) && allowed("mcp.example.com:443", None));
        assert!(allowed("other.example.com:8443", None) && !allowed("other.example.com", None));
        for origin in ["http://localhost:6274", "https://127.0.0.1", "https://app.example.com"] {
            assert!(allowed("localhost", Some(origin)), "{origin}");
        }
        for origin in [
            "http://evil.com",
            "null",
            "file://localhost",
            "http://localhost.evil.com",
            "http://localhost:1@evil.com",
        ] {
            assert!(!allowed("localhost", Some(origin)), "{origin}");
        }
    }
}
