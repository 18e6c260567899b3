//! Who calls.

use std::{future::Future, sync::Arc};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use steadfast_core::Principal;

use crate::{Identity, Secret, catalog::BoxFuture, front::Front, identity::Refused};

/// The token of an `Authorization: Bearer` header.
#[derive(Clone)]
pub struct Bearer(Secret);

impl Bearer {
    /// The token. Keep it out of logs.
    #[must_use]
    pub fn token(&self) -> &str {
        self.0.expose()
    }
}

/// Not shown, so that no log ever has it.
impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer(..)")
    }
}

type Hook = Arc<dyn Fn(Bearer) -> BoxFuture<Option<Identity>> + Send + Sync>;

/// How callers over HTTP are known.
#[derive(Clone, Default)]
pub struct Auth {
    kind: Kind,
    attaches: bool,
}

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Anonymous,
    Tokens(Arc<[(Bearer, Principal)]>),
    Hook(Hook),
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.kind {
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
        Auth::default()
    }

    /// By bearer tokens that never change: token and principal.
    pub fn tokens(tokens: impl IntoIterator<Item = (String, Principal)>) -> Auth {
        let tokens = tokens.into_iter().map(|(token, who)| (Bearer(token.into()), who));
        Auth { kind: Kind::Tokens(tokens.collect()), attaches: false }
    }

    /// By bearer tokens that a function of yours checks: it names the [`Principal`], or an [`Identity`]
    /// that has claims and credentials as well, or nobody. It is asked at every request. The token itself
    /// is not kept.
    pub fn hook<F, Fut, I>(check: F) -> Auth
    where
        F: Fn(Bearer) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<I>> + Send + 'static,
        I: Into<Identity>,
    {
        let hook = move |bearer| -> BoxFuture<Option<Identity>> {
            let checked = check(bearer);
            Box::pin(async move { checked.await.map(Into::into) })
        };
        Auth { kind: Kind::Hook(Arc::new(hook)), attaches: false }
    }

    /// Says that the function attaches [credentials](Identity::credential): a server that has no key for
    /// them does not start, instead of refusing whoever has some.
    #[must_use]
    pub fn attaches_credentials(mut self) -> Auth {
        self.attaches = true;
        self
    }

    pub(crate) fn attaches(&self) -> bool {
        self.attaches
    }

    /// Whether callers are told apart.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        matches!(self.kind, Kind::Anonymous)
    }

    /// Who calls. The token is taken out of the headers, so that nothing behind this has it.
    pub(super) async fn identify(
        &self,
        front: &Front,
        headers: &mut HeaderMap,
    ) -> Result<Identity, Response> {
        let given = headers.remove(header::AUTHORIZATION);
        let bearer = || {
            let (scheme, token) = given.as_ref()?.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| Bearer(token.trim().into()))
        };
        let found = match &self.kind {
            Kind::Anonymous => Some(front.anonymous.clone().into()),
            Kind::Tokens(tokens) => bearer().and_then(|given| {
                // All are looked at, so that the time taken says nothing.
                let mut found = None;
                for (token, who) in tokens.iter() {
                    if same(token.token(), given.token()) {
                        found = Some(who.clone().into());
                    }
                }
                found
            }),
            Kind::Hook(check) => match bearer() {
                Some(bearer) => check(bearer).await,
                None => None,
            },
        };
        let caller = found.ok_or_else(|| {
            let mut refused =
                super::refusal(StatusCode::UNAUTHORIZED, "a valid bearer token is needed");
            let scheme = HeaderValue::from_static("Bearer");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            refused
        })?;
        caller.check(!front.keys.is_empty()).map_err(|refused| {
            tracing::error!(principal = %caller.principal, "{refused}");
            let status = match refused {
                Refused::NoKey => StatusCode::INTERNAL_SERVER_ERROR,
                // Another token may be of use to the caller, the same is of none.
                Refused::Claims { .. } | Refused::Credentials { .. } => StatusCode::FORBIDDEN,
            };
            super::refusal(status, &refused.to_string())
        })?;
        Ok(caller)
    }
}

/// Takes the same time wherever they differ.
fn same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
