//! Moving all that is in a store into another, by way of a file.
//!
//! Stores have different tables, so each reads and writes its own ones; what goes from one to the other is
//! a stream of [`Record`]s that are the same for all. [`Writer`] makes a file of them and [`Reader`] reads
//! it. A file is text, a JSON object a line:
//!
//! ```text
//! {"header":{"format":1,"store":"sqlite","schema":5}}
//! {"task":{"key":1,"id":"...","tool":"order",...}}
//! {"event":{"task":1,"seq":0,"body":{"json":{...}}}}
//! ...
//! {"trailer":{"counts":{"task":1,"event":1,...},"content":"<hex>","file":"<hex>"}}
//! ```
//!
//! * Records come kind by kind in the order of [`Kind`], tasks by rising number, the events of a task
//!   together and from 0 up. So whoever imports a file needs no memory of what it has read.
//! * `file` is the SHA-256 of every byte before the trailer's line. `content` does not depend on the
//!   order of records or on where they came from (see [`Tally`]): what was read from one store and what is
//!   read back from the other is compared by it.
//! * What a process has in its hands goes along as if that had died: a task lies on the ready pile, with
//!   its epoch raised. Desks, leases and writers stay behind: they belong to processes of the old store.

mod body;
mod hands;
mod order;
mod reader;
mod record;
mod tally;
#[cfg(test)]
mod tests;
mod writer;

pub use self::{
    body::Body,
    hands::{Hands, Lies},
    reader::Reader,
    record::{
        Activity, At, Counters, Event, Kept, Kind, Message, Notice, Parent, Place, Question,
        Record, Session, State, Task, Watch,
    },
    tally::Tally,
    writer::Writer,
};

/// The format of files that this code writes, and the last that it reads.
pub const FORMAT: u32 = 1;

/// The desk of a process that never lives, which a task that was bound to one is bound to after a move: so
/// whoever takes it up cancels it.
pub const NOBODY: i64 = i64::MAX;

/// What an export is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The tasks will go on elsewhere: nobody may have the store open, and from now on nobody can open it,
    /// until it is opened again on purpose. The text says where its tasks are, for whoever tries.
    Move(String),
    /// The tasks go on here: others may have the store open, and go on.
    Backup,
}

/// Whoever takes the records that a store gives out.
pub type Sink<'s> = dyn FnMut(Record) -> Result<()> + Send + 's;

/// The result of moving something.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something can't be exported or imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file can't be read or written.
    #[error("the file can't be read or written: {0}")]
    File(#[from] std::io::Error),
    /// It is some other file.
    #[error("this is no file of `steadfast export`: it does not begin with its header")]
    Foreign,
    /// It was made by a later version of this software.
    #[error(
        "the file has format {found}, and this program reads formats up to {FORMAT}: upgrade this \
         program"
    )]
    Newer {
        /// Its format.
        found: u32,
    },
    /// A line is none of the format.
    #[error("line {line} of the file makes no sense: {detail}; nothing was imported")]
    Line {
        /// Which, from 1.
        line: u64,
        /// Why.
        detail: String,
    },
    /// It ends too early.
    #[error(
        "the file is cut off: it ends after line {lines}, without a trailer; nothing was imported. \
         Copy or export it again"
    )]
    CutOff {
        /// How many lines there are.
        lines: u64,
    },
    /// It is not as it was written.
    #[error(
        "the file is not as it was written: {detail}; nothing was imported. Copy or export it again"
    )]
    Altered {
        /// What differs.
        detail: String,
    },
    /// What a store gives out is not in order.
    #[error("the store is damaged, and can't be exported: {0}")]
    Damaged(String),
    /// The store can't be opened, read or written.
    #[error("{0}")]
    Store(String),
    /// Processes have the store open.
    #[error("{store} is in use by {by}: {advice}")]
    InUse {
        /// The store.
        store: String,
        /// Who.
        by: String,
        /// What to do.
        advice: &'static str,
    },
    /// There is something in the store to import into.
    #[error(
        "{store} is not empty: there are rows in its table {table}. Nothing was imported; import into a \
         store that was never used"
    )]
    NotEmpty {
        /// The store.
        store: String,
        /// Where something is.
        table: String,
    },
    /// What was read back is not what is in the file.
    #[error(
        "what was read back from the store is not what is in the file: {detail}; nothing was imported"
    )]
    Differs {
        /// In what.
        detail: String,
    },
}

impl Error {
    /// Processes have a store open that is to be exported.
    #[must_use]
    pub fn export_in_use(store: String, by: String) -> Error {
        let advice = "stop it first, or its tasks would run in both places. To leave them here and \
                      write a backup all the same, give --backup";
        Error::InUse { store, by, advice }
    }

    /// Processes have a store open that is to be imported into.
    #[must_use]
    pub fn import_in_use(store: String, by: String) -> Error {
        Error::InUse { store, by, advice: "stop it first, and start it when the import is done" }
    }
}
