//! Names for things: types instead of strings.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {given:?} is not valid: {rule}")]
pub struct IdError {
    what: &'static str,
    given: String,
    rule: &'static str,
}

fn check(what: &'static str, text: &str) -> Result<(), IdError> {
    let bad = text.is_empty() || text.len() > 200 || text.bytes().any(|b| !b.is_ascii_graphic());
    if bad {
        // The error quotes at most a screenful of what it refuses.
        let given = text.chars().take(80).collect();
        return Err(IdError { what, given, rule: "use 1 to 200 visible ASCII characters" });
    }
    Ok(())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes 1 to 200 visible ASCII characters.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check($what, text)?;
                Ok(Self(text.into()))
            }

            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_id! {
    /// A task's id. Made of 128 random bits unless the caller chose one.
    TaskId, "task id"
}

text_id! {
    /// Who a task belongs to: a user, a service, an anonymous caller of one endpoint.
    Principal, "principal"
}

impl TaskId {
    /// The id of 128 random bits with a number in front. If the numbers rise, ids made one after the
    /// other are neighbours, which is worth a page write each to a store that keeps them in order.
    #[must_use]
    pub fn numbered(number: u64, bits: u128) -> TaskId {
        TaskId(format!("{number:015x}-{bits:032x}").into())
    }

    /// The id that 128 random bits make: 32 hexadecimal digits.
    #[must_use]
    pub fn from_bits(bits: u128) -> TaskId {
        TaskId(format!("{bits:032x}").into())
    }
}

/// The number of a durable operation in its task, in program order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpId(pub u32);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_visible() {
        assert!(TaskId::new("order/17:a").is_ok());
        for bad in ["", "a b", "a\n", "ä", &"x".repeat(201)] {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(TaskId::from_bits(255).as_str(), "000000000000000000000000000000ff");
    }
}
