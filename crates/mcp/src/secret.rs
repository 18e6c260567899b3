//! Credentials of callers: in memory, and how they are encrypted before they go to the store.

use std::{collections::BTreeMap, str::FromStr, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use steadfast_core::{Principal, TaskId};
use steadfast_engine::Error;
use zeroize::{Zeroize, Zeroizing};

/// A text that is shown nowhere, and can't be returned from a step: what a step returns is stored. Its
/// memory is overwritten when it is dropped.
///
/// ```compile_fail,E0277
/// fn store(_: impl serde::Serialize) {}
/// store(steadfast_mcp::Secret::from("hunter2"));
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text. Keep it out of logs, results and inputs of steps.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }
}

/// Not shown, so that no log ever has it.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A key that credentials are encrypted with: 32 random bytes, as 64 hexadecimal digits or in base64
/// where it is read from text.
///
/// ```
/// use steadfast_mcp::CredentialKey;
///
/// let key: CredentialKey =
///     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f".parse()?;
/// # Ok::<(), steadfast_mcp::BadKey>(())
/// ```
#[derive(Clone)]
pub struct CredentialKey {
    id: [u8; ID],
    /// It forgets its key when it is dropped.
    cipher: XChaCha20Poly1305,
}

/// A text that is no key. It is not quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 bytes, as 64 hexadecimal digits or in base64; openssl rand -hex 32 makes one")]
pub struct BadKey;

const VERSION: u8 = 1;
const ID: usize = 8;
const NONCE: usize = 24;

impl CredentialKey {
    /// The key of these bytes, which must be random.
    #[must_use]
    pub fn new(mut bytes: [u8; 32]) -> CredentialKey {
        let cipher = XChaCha20Poly1305::new(&bytes.into());
        bytes.zeroize();
        // By what it is found again and which says nothing of it: the tag of an empty message, under a
        // nonce that no other message has.
        let about = Payload { msg: &[], aad: b"steadfast credential key" };
        let tag = cipher.encrypt(&XNonce::from([0; NONCE]), about).unwrap_or_default();
        let mut id = [0; ID];
        id.iter_mut().zip(tag).for_each(|(id, tag)| *id = tag);
        CredentialKey { id, cipher }
    }
}

impl FromStr for CredentialKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<CredentialKey, BadKey> {
        let text = text.trim();
        let bytes = match text.len() {
            64 => hex(text),
            _ => {
                let text = text.trim_end_matches('=');
                let plain = BASE64_STANDARD_NO_PAD.decode(text);
                plain.or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(text)).ok()
            }
        };
        let bytes = Zeroizing::new(bytes.ok_or(BadKey)?);
        Ok(CredentialKey::new(bytes.as_slice().try_into().map_err(|_| BadKey)?))
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok();
    text.as_bytes().chunks_exact(2).map(pair).collect()
}

fn show(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl std::fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CredentialKey({})", show(&self.id))
    }
}

/// The keys of a server: the first encrypts, all decrypt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(Arc<[CredentialKey]>);

/// Where a credential belongs. What was encrypted for one place can't be opened in another.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) principal: &'a Principal,
    /// The task that the call started.
    pub(crate) call: &'a TaskId,
}

impl Place<'_> {
    fn describe(&self, name: &str) -> Vec<u8> {
        let parts = ["steadfast credential", self.principal.as_str(), self.call.as_str(), name];
        let length = |part: &str| (part.len() as u64).to_le_bytes();
        parts.iter().flat_map(|part| [&length(part)[..], part.as_bytes()].concat()).collect()
    }
}

/// Credentials as they are stored: in base64 a version, the key's id, the nonce, and what is encrypted.
pub(crate) type Sealed = BTreeMap<String, String>;

impl Keys {
    pub(crate) fn new(keys: Vec<CredentialKey>) -> Keys {
        Keys(keys.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Encrypts credentials for their place. Nothing without a key.
    pub(crate) fn seal(
        &self,
        place: Place<'_>,
        credentials: &[(String, Secret)],
    ) -> Option<Sealed> {
        let seal = |(name, secret): &(String, Secret)| {
            let key = self.0.first()?;
            let mut nonce = [0; NONCE];
            getrandom::fill(&mut nonce).ok()?;
            let payload = Payload { msg: secret.0.as_bytes(), aad: &place.describe(name) };
            let text = key.cipher.encrypt(&XNonce::from(nonce), payload).ok()?;
            let all = [&[VERSION][..], &key.id, &nonce, &text].concat();
            Some((name.clone(), BASE64_STANDARD_NO_PAD.encode(all)))
        };
        credentials.iter().map(seal).collect()
    }

    /// The credential of this name, decrypted.
    pub(crate) fn open(
        &self,
        place: Place<'_>,
        sealed: &Sealed,
        name: &str,
    ) -> Result<Secret, Error> {
        let text = sealed.get(name).ok_or_else(|| no_credential(name))?;
        let damaged = || {
            let message = format!(
                "the credential {name:?} can't be decrypted: it is damaged, or of another call"
            );
            Error::new(message).code("credential_damaged").permanent()
        };
        let all = BASE64_STANDARD_NO_PAD.decode(text).map_err(|_| damaged())?;
        let (&version, rest) = all.split_first().ok_or_else(damaged)?;
        let (id, rest) = rest.split_first_chunk::<ID>().ok_or_else(damaged)?;
        let (nonce, text) = rest.split_first_chunk::<NONCE>().ok_or_else(damaged)?;
        if version != VERSION {
            let message = format!("the credential {name:?} was encrypted by a newer version");
            return Err(Error::new(message).code("credential_key"));
        }
        let key = self.0.iter().find(|key| key.id == *id).ok_or_else(|| {
            // A retry can help: after a restart with the key.
            let message = format!(
                "the credential {name:?} was encrypted with the key {}, which this server does not \
                 have: start it with that key as a line of its --credential-key-file",
                show(id)
            );
            Error::new(message).code("credential_key")
        })?;
        let payload = Payload { msg: text, aad: &place.describe(name) };
        let bytes = key.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| damaged())?;
        String::from_utf8(bytes).map(Secret::from).map_err(|_| damaged())
    }
}

pub(crate) fn no_credential(name: &str) -> Error {
    let message = format!(
        "the call has no credential {name:?}: what authenticated its request attached none"
    );
    Error::new(message).code("no_credential").permanent()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> CredentialKey {
        CredentialKey::new([byte; 32])
    }

    fn keys(bytes: &[u8]) -> Keys {
        Keys::new(bytes.iter().map(|byte| key(*byte)).collect())
    }

    fn code(opened: Result<Secret, Error>) -> Option<String> {
        let error = opened.unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
        error.code_name().map(str::to_owned)
    }

    #[test]
    fn a_key_is_read_from_hex_and_base64() {
        let known = key(0xab);
        for text in [
            "ab".repeat(32),
            "AB".repeat(32) + "\n",
            BASE64_STANDARD_NO_PAD.encode([0xab; 32]),
            BASE64_URL_SAFE_NO_PAD.encode([0xab; 32]) + "=",
        ] {
            assert_eq!(text.parse::<CredentialKey>().unwrap().id, known.id, "{text}");
        }
        assert_ne!(key(0xac).id, known.id);
        for text in ["", "ab", &"ab".repeat(31), &"ab".repeat(33), &"xy".repeat(32)] {
            assert_eq!(text.parse::<CredentialKey>().unwrap_err(), BadKey, "{text}");
        }
    }

    /// What is in stores must be readable for ever.
    #[test]
    fn what_was_encrypted_before_is_read() {
        let (principal, call) = (Principal::new("ada").unwrap(), TaskId::new("task").unwrap());
        let place = Place { principal: &principal, call: &call };
        let sealed = Sealed::from([("bank".into(), include_str!("../golden/credential").into())]);
        assert_eq!(keys(&[7]).open(place, &sealed, "bank").unwrap().expose(), "hunter2");
    }

    #[test]
    fn it_is_opened_in_its_place_alone_by_any_of_the_keys() {
        let (ada, bob) = (Principal::new("ada").unwrap(), Principal::new("bob").unwrap());
        let (one, two) = (TaskId::new("1").unwrap(), TaskId::new("2").unwrap());
        let place = Place { principal: &ada, call: &one };
        let credentials =
            [("bank".to_owned(), "hunter2".into()), ("mail".to_owned(), "hunter3".into())];
        let sealed = keys(&[1]).seal(place, &credentials).unwrap();
        assert_ne!(sealed, keys(&[1]).seal(place, &credentials).unwrap(), "each has its nonce");

        for rotated in [&[1][..], &[2, 1]] {
            assert_eq!(keys(rotated).open(place, &sealed, "bank").unwrap().expose(), "hunter2");
        }
        let opened = |keys: Keys, place, sealed: &Sealed, name: &str| {
            code(keys.open(place, sealed, name)).unwrap()
        };
        assert_eq!(opened(keys(&[1]), place, &sealed, "none"), "no_credential");
        assert_eq!(opened(keys(&[2]), place, &sealed, "bank"), "credential_key");
        assert_eq!(opened(keys(&[]), place, &sealed, "bank"), "credential_key");
        for place in [Place { principal: &bob, ..place }, Place { call: &two, ..place }] {
            assert_eq!(opened(keys(&[1]), place, &sealed, "bank"), "credential_damaged");
        }
        let swapped = Sealed::from([("bank".to_owned(), sealed["mail"].clone())]);
        assert_eq!(opened(keys(&[1]), place, &swapped, "bank"), "credential_damaged");
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        let (principal, call) = (Principal::new("ada").unwrap(), TaskId::new("task").unwrap());
        let place = Place { principal: &principal, call: &call };
        let sealed = keys(&[1]).seal(place, &[("bank".into(), "hunter2".into())]).unwrap();
        let text = &sealed["bank"];
        for cut in 0..text.len() {
            let cut = Sealed::from([("bank".to_owned(), text[..cut].to_owned())]);
            code(keys(&[1]).open(place, &cut, "bank"));
        }
        for at in 0..text.len() {
            let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            let changed = Sealed::from([("bank".to_owned(), changed)]);
            code(keys(&[1]).open(place, &changed, "bank"));
        }
    }

    #[test]
    fn neither_secrets_nor_keys_are_shown() {
        assert_eq!(format!("{:?}", Secret::from("hunter2")), "Secret(..)");
        let shown = format!("{:?}", key(0x41));
        assert!(!shown.contains("41414141") && !shown.contains("AAAA"), "{shown}");
    }
}
