//! Who may call. This file stands for your identity provider: copy the rest, and write `check` anew, with an
//! introspection of the token (RFC 7662), or a check of its signature, issuer, audience and expiry (JWT).

use steadfast::prelude::*;

use crate::bank;

pub(crate) struct User {
    pub(crate) token: &'static str,
    name: &'static str,
    roles: &'static [&'static str],
    bank_key: &'static str,
}

pub(crate) const USERS: [User; 3] = [
    User {
        token: "token-of-ada-7d1c5a90",
        name: "ada",
        roles: &["payer", "reader"],
        bank_key: bank::CUSTOMERS[0].0,
    },
    User {
        token: "token-of-bob-2f8e4b61",
        name: "bob",
        roles: &["payer"],
        bank_key: bank::CUSTOMERS[1].0,
    },
    User {
        token: "token-of-eve-9a3b0c77",
        name: "eve",
        roles: &["reader"],
        bank_key: bank::CUSTOMERS[2].0,
    },
];

/// Asked at every request. Nothing of the token is kept; what is returned is, with each call that the
/// request makes.
pub(crate) async fn check(bearer: Bearer) -> Option<Identity> {
    let user = USERS.iter().find(|user| user.token == bearer.token())?;
    let caller = Identity::new(Principal::new(user.name).ok()?)
        // For `ctx.caller().claims`. It can be read in the store.
        .claim("roles", user.roles)
        // For `ctx.credential("bank")`. It is encrypted before it is stored. With OAuth this is what a token
        // exchange (RFC 8693) gives you for the service behind.
        .credential("bank", user.bank_key);
    Some(caller)
}
