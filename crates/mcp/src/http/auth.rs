//! Who calls.

use std::{future::Future, sync::Arc};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use steadfast_core::Principal;

use crate::catalog::BoxFuture;

/// The token of an `Authorization: Bearer` header.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(String);

impl Bearer {
    /// The token. Keep it out of logs.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.0
    }
}

/// Not shown, so that no log ever has it.
impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer(..)")
    }
}

type Hook = Arc<dyn Fn(Bearer) -> BoxFuture<Option<Principal>> + Send + Sync>;

/// How callers over HTTP are known.
#[derive(Clone, Default)]
pub struct Auth(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Anonymous,
    Tokens(Arc<[(Bearer, Principal)]>),
    Hook(Hook),
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Anonymous => "Auth::anonymous()",
            Kind::Tokens(_) => "Auth::tokens(..)",
            Kind::Hook(_) => "Auth::hook(..)",
        })
    }
}

impl Auth {
    /// They are not: all are one anonymous principal.
    #[must_use]
    pub fn anonymous() -> Auth {
        Auth(Kind::Anonymous)
    }

    /// By bearer tokens that never change: token and principal.
    pub fn tokens(tokens: impl IntoIterator<Item = (String, Principal)>) -> Auth {
        Auth(Kind::Tokens(tokens.into_iter().map(|(token, who)| (Bearer(token), who)).collect()))
    }

    /// By bearer tokens that a function of yours checks: it names the principal, or nobody.
    pub fn hook<F, Fut>(check: F) -> Auth
    where
        F: Fn(Bearer) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Principal>> + Send + 'static,
    {
        Auth(Kind::Hook(Arc::new(move |bearer| Box::pin(check(bearer)))))
    }

    /// Whether callers are told apart.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        matches!(self.0, Kind::Anonymous)
    }

    pub(super) async fn principal(
        &self,
        headers: &HeaderMap,
        anonymous: &Principal,
    ) -> Result<Principal, Response> {
        let bearer = || {
            let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| Bearer(token.trim().to_owned()))
        };
        let found = match &self.0 {
            Kind::Anonymous => return Ok(anonymous.clone()),
            Kind::Tokens(tokens) => bearer().and_then(|given| {
                // All are looked at, so that the time taken says nothing.
                let mut found = None;
                for (token, who) in tokens.iter() {
                    if same(token.token(), given.token()) {
                        found = Some(who.clone());
                    }
                }
                found
            }),
            Kind::Hook(check) => match bearer() {
                Some(bearer) => check(bearer).await,
                None => None,
            },
        };
        found.ok_or_else(|| {
            let mut refused =
                super::refusal(StatusCode::UNAUTHORIZED, "a valid bearer token is needed");
            let scheme = HeaderValue::from_static("Bearer");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            refused
        })
    }
}

/// Takes the same time wherever they differ.
fn same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
