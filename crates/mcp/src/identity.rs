//! What authenticated a request: a principal, what is known of it, and what it may be done with elsewhere.

use std::sync::Arc;

use serde_json::{Map, Value};
use steadfast_core::Principal;

use crate::Secret;

/// What is known of a caller besides its name: scopes, roles, a tenant.
pub(crate) type Claims = Map<String, Value>;

/// Secrets for services behind ours, by name.
pub(crate) type Credentials = Arc<[(String, Secret)]>;

/// Bytes of JSON that claims may have: they are kept with each session and with each call.
const CLAIMS: usize = 16 << 10;
/// How deep they may be nested. Far below what can be read back.
const DEPTH: usize = 32;
/// Bytes that all credentials of a caller may have, names included.
const CREDENTIALS: usize = 16 << 10;

/// Who calls, as an [`Auth::hook`](crate::Auth::hook) found out: more than a [`Principal`], which is one
/// as well.
///
/// ```
/// use steadfast_core::Principal;
/// use steadfast_mcp::{Auth, Identity};
///
/// let auth = Auth::hook(|bearer| async move {
///     // Ask your identity provider here.
///     let name = bearer.token().strip_prefix("token-of-")?;
///     let caller = Identity::new(Principal::new(name).ok()?);
///     Some(caller.claim("role", "clerk").credential("github", "what GitHub knows the user by"))
/// });
/// ```
///
/// What owns sessions and tasks is the principal alone. Claims and credentials belong to a request: a
/// durable call has those of the request that started it, for good.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Whose sessions and tasks these are.
    pub principal: Principal,
    /// What else is known of the caller. At most 16 KiB as JSON. In the store they can be read.
    pub claims: Map<String, Value>,
    credentials: Vec<(String, Secret)>,
}

impl Identity {
    /// A caller of whom no more is known.
    #[must_use]
    pub fn new(principal: Principal) -> Identity {
        Identity { principal, claims: Claims::new(), credentials: Vec::new() }
    }

    /// Adds a claim: [`Caller::claims`](crate::Caller::claims) has it.
    #[must_use]
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<Value>) -> Identity {
        self.claims.insert(name.into(), value.into());
        self
    }

    /// Sets all claims.
    #[must_use]
    pub fn claims(mut self, claims: Map<String, Value>) -> Identity {
        self.claims = claims;
        self
    }

    /// Attaches a secret that tools may need for a service behind this one, perhaps long after the
    /// request: [`Context::credential`](crate::Context::credential) gets it. It is encrypted before it is
    /// stored, with a key that is not in the store
    /// ([`Server::credential_key`](crate::Server::credential_key)); without one the request is refused.
    /// All of them together may have 16 KiB.
    #[must_use]
    pub fn credential(mut self, name: impl Into<String>, secret: impl Into<Secret>) -> Identity {
        let name = name.into();
        self.credentials.retain(|(known, _)| *known != name);
        self.credentials.push((name, secret.into()));
        self
    }

    /// Whether it can be kept, given whether there is a key.
    pub(crate) fn check(&self, has_key: bool) -> Result<(), Refused> {
        if !self.claims.is_empty() {
            let text = serde_json::to_string(&self.claims).unwrap_or_default();
            if text.len() > CLAIMS || self.claims.values().any(|value| is_deep(value, DEPTH)) {
                return Err(Refused::Claims { bytes: text.len() });
            }
        }
        if self.credentials.is_empty() {
            return Ok(());
        }
        let bytes = self.credentials.iter().map(|(name, secret)| name.len() + secret.len()).sum();
        match (has_key, bytes) {
            (false, _) => Err(Refused::NoKey),
            (true, bytes) if bytes > CREDENTIALS => Err(Refused::Credentials { bytes }),
            (true, _) => Ok(()),
        }
    }

    pub(crate) fn into_parts(self) -> (Principal, Arc<Claims>, Credentials) {
        (self.principal, Arc::new(self.claims), self.credentials.into())
    }
}

/// Whether it is nested deeper than this.
fn is_deep(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deep(item, depth)),
        Value::Object(fields) => fields.values().any(|field| is_deep(field, depth)),
        _ => false,
    }
}

impl From<Principal> for Identity {
    fn from(principal: Principal) -> Identity {
        Identity::new(principal)
    }
}

/// Why a caller is turned away although it is known: what is known of it can't be kept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "the caller's claims have {bytes} bytes: more than {CLAIMS}, or than {DEPTH} levels, can't be kept"
    )]
    Claims { bytes: usize },
    #[error("the caller's credentials have {bytes} bytes: more than {CREDENTIALS} can't be kept")]
    Credentials { bytes: usize },
    #[error(
        "the caller has credentials, and this server has no key to encrypt them with: its operator has \
         to give one with --credential-key-file"
    )]
    NoKey,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ada() -> Identity {
        Identity::new(Principal::new("ada").unwrap())
    }

    #[test]
    fn what_can_not_be_kept_is_refused() {
        assert_eq!(ada().claim("role", "x".repeat(16_000)).check(false), Ok(()));
        let large = ada().claim("role", "x".repeat(17_000));
        assert!(matches!(large.check(true), Err(Refused::Claims { bytes: 17_011.. })));
        let nested = (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert!(matches!(ada().claim("deep", nested).check(true), Err(Refused::Claims { .. })));

        assert_eq!(ada().credential("bank", "s").check(false), Err(Refused::NoKey));
        assert_eq!(ada().credential("bank", "s").check(true), Ok(()));
        let large = ada().credential("bank", "s".repeat(17_000));
        assert_eq!(large.check(true), Err(Refused::Credentials { bytes: 17_004 }));
    }

    #[test]
    fn a_credential_is_not_shown() {
        let shown = format!("{:?}", ada().credential("bank", "hunter2"));
        assert!(shown.contains("bank") && !shown.contains("hunter2"), "{shown}");
    }
}
