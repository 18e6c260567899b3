//! Changes of a session by those who know what it was: one statement finds the row, or does not.

use steadfast_core::Timestamp;
use steadfast_store::SessionRow;

use super::{Done, Solo, Tx};
use crate::{text, work::News};

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
        Ok(told(row.is_some()))
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
        Ok(told(row.is_some()))
    }
}

fn told(changed: bool) -> (bool, News) {
    (changed, if changed { News::Lazy } else { News::None })
}
