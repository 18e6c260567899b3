//! Changes of a session by those who know what it was: one statement finds the row, or does not.

use steadfast_core::Timestamp;
use steadfast_store::SessionRow;

use super::{Done, Solo, Tx};
use crate::{news::News, text};

pub(crate) struct KeepSession {
    pub(crate) session: SessionRow,
    pub(crate) before: Vec<u8>,
}

impl Solo for KeepSession {
    type Answer = bool;

    async fn run(&self, tx: &Tx<'_>) -> Done<(bool, News)> {
        const SQL: &str = "UPDATE session SET expires = greatest(expires, $2), body = $3 \
                           WHERE id = $1 AND body = $4 RETURNING 1";
        let SessionRow { id, expires, body } = &self.session;
        let row = tx.first(SQL, &[&text::stored(id), &expires.0, body, &self.before]).await?;
        // Another process may have a stream of it.
        let changed = row.is_some();
        Ok((changed, News { written: changed, asked: changed, ..News::default() }))
    }
}

pub(crate) struct TouchSession {
    pub(crate) id: String,
    pub(crate) expires: Timestamp,
}

impl Solo for TouchSession {
    type Answer = bool;

    async fn run(&self, tx: &Tx<'_>) -> Done<(bool, News)> {
        const SQL: &str =
            "UPDATE session SET expires = greatest(expires, $2) WHERE id = $1 RETURNING 1";
        let row = tx.first(SQL, &[&text::stored(&self.id), &self.expires.0]).await?;
        let touched = row.is_some();
        Ok((touched, News { written: touched, ..News::default() }))
    }
}
