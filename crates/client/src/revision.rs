//! The revisions of the protocol.

use std::{fmt, str::FromStr};

use crate::Error;

/// A revision of the protocol, older ones first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2025-03-26
    V2025_03_26,
    /// 2025-06-18
    V2025_06_18,
    /// 2025-11-25, the first with tasks
    V2025_11_25,
    /// 2026-07-28, without sessions
    #[default]
    V2026_07_28,
}

impl Revision {
    /// All that are spoken, newest first.
    pub const ALL: [Revision; 4] = [
        Revision::V2026_07_28,
        Revision::V2025_11_25,
        Revision::V2025_06_18,
        Revision::V2025_03_26,
    ];

    /// Its date, as the wire has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether each request stands for itself: no session.
    #[must_use]
    pub const fn is_stateless(self) -> bool {
        matches!(self, Revision::V2026_07_28)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Revision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Revision, Error> {
        Revision::ALL.into_iter().find(|revision| revision.name() == name).ok_or_else(|| {
            let known = Revision::ALL.map(Revision::name).join(", ");
            Error::Setup(format!("{name:?} is no revision that is spoken here: {known}"))
        })
    }
}
