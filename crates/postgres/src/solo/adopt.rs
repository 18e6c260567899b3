//! Giving back what lies on a desk: a dead one's, or our own.

use steadfast_core::Status;
use steadfast_store::{Adopted, Poison};

use super::{Done, Solo, Tx};
use crate::{
    core::alive,
    life::{NOTIFY, channel},
    news::{News, Said, Word},
};

/// Nobody can write in the name of a desk while this is locked, and nobody has begun to before.
pub(crate) const LOCK: &str =
    concat!("SELECT ", alive!(), " FROM desk d WHERE d.n = $1 FOR UPDATE");

pub(crate) const TASKS: &str = "
    SELECT key, status, deaths FROM task WHERE desk = $1 AND desk > 0
    ORDER BY key FOR NO KEY UPDATE";

pub(crate) const GIVE_BACK: &str = "
    UPDATE task t SET epoch = t.epoch + 1, wake = NULL, desk = u.desk, deaths = u.deaths,
        rank = ($1::bigint << 16) + u.place
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY
        AS u (key, desk, deaths, place)
    WHERE t.key = u.key";

pub(crate) const SET_ASIDE: &str = "
    UPDATE task SET status = $2, view = $3, updated = $4 WHERE key = ANY($1::bigint[])";

pub(crate) const ACTIVITIES: &str = "
    WITH held AS (
        SELECT key FROM activity WHERE desk = $1 AND desk > 0 ORDER BY key FOR NO KEY UPDATE
    ), ranked AS (
        SELECT key, row_number() OVER (ORDER BY key) AS place FROM held
    )
    UPDATE activity a SET desk = 0, due = NULL, epoch = a.epoch + 1,
        attempt = least(a.attempt + $3::bigint, 4294967295),
        rank = ($2::bigint << 16) + 32768 + ranked.place
    FROM ranked WHERE a.key = ranked.key RETURNING 1";

pub(crate) const BURY: &str = "DELETE FROM desk WHERE n = $1";

/// From now on it is kept for a day how many batches it has committed, for who has lost an answer.
pub(crate) const REMEMBER: &str = "UPDATE writer SET since = clock_timestamp() WHERE desk = $1";

const HALTED: i64 = -1;
const READY: i64 = 0;

/// Puts everything that lies on a dead desk back, and makes it dead for good.
pub(crate) struct Adopt {
    pub(crate) dead: i64,
    pub(crate) poison: Poison,
}

impl Solo for Adopt {
    type Answer = Adopted;

    async fn run(&self, tx: &Tx<'_>) -> Done<(Adopted, News)> {
        let mut adopted = Adopted::default();
        let alive = match tx.first(LOCK, &[&self.dead]).await? {
            Some(row) => row.try_get(0)?,
            None => false,
        };
        if alive || self.dead == tx.desk {
            return Ok((adopted, News::default()));
        }
        let (mut keys, mut desks, mut all_deaths, mut poisoned) = (vec![], vec![], vec![], vec![]);
        for row in tx.all(TASKS, &[&self.dead]).await? {
            let (key, deaths): (i64, i64) = (row.try_get(0)?, row.try_get(2)?);
            let status = crate::row::status(&row, 1)?;
            let deaths = deaths.saturating_add(1).min(u32::MAX.into());
            let desk = if status.is_halted() {
                HALTED
            } else if deaths < i64::from(self.poison.deaths) {
                adopted.ready += 1;
                READY
            } else {
                adopted.poisoned += 1;
                if !status.is_terminal() {
                    poisoned.push(key);
                }
                HALTED
            };
            keys.push(key);
            desks.push(desk);
            all_deaths.push(deaths);
        }
        if !keys.is_empty() {
            tx.all(GIVE_BACK, &[&tx.moment, &keys, &desks, &all_deaths]).await?;
        }
        if !poisoned.is_empty() {
            let (status, at) = (Status::Stuck as i16, self.poison.at.0);
            tx.all(SET_ASIDE, &[&poisoned, &status, &self.poison.view, &at]).await?;
        }
        adopted.activities =
            tx.all(ACTIVITIES, &[&self.dead, &tx.moment, &1i64]).await?.len() as u64;
        tx.all(BURY, &[&self.dead]).await?;
        tx.all(REMEMBER, &[&self.dead]).await?;
        Ok((adopted, News::anything()))
    }
}

/// Gives back what lies on our own desk, which is dead with that: nobody goes on with what is bound to it.
/// Counts as no death, and as no attempt.
pub(crate) struct GiveBack {
    /// Whether others are told so with the commit, or have to see it.
    pub(crate) tells: bool,
}

impl Solo for GiveBack {
    type Answer = ();

    async fn run(&self, tx: &Tx<'_>) -> Done<((), News)> {
        // Waits for what is being written in its name elsewhere, and lets nothing more begin: so what lies on
        // it from here on is all.
        tx.all(BURY, &[&tx.desk]).await?;
        tx.all(REMEMBER, &[&tx.desk]).await?;
        let (mut keys, mut desks, mut deaths) = (vec![], vec![], vec![]);
        for row in tx.all(TASKS, &[&tx.desk]).await? {
            let halted = crate::row::status(&row, 1)?.is_halted();
            keys.push(row.try_get::<_, i64>(0)?);
            desks.push(if halted { HALTED } else { READY });
            deaths.push(row.try_get::<_, i64>(2)?);
        }
        if !keys.is_empty() {
            tx.all(GIVE_BACK, &[&tx.moment, &keys, &desks, &deaths]).await?;
        }
        let activities = tx.all(ACTIVITIES, &[&tx.desk, &tx.moment, &0i64]).await?;
        let any = !keys.is_empty() || !activities.is_empty();
        if any && self.tells {
            // With the commit: afterwards this process may be gone before it has said so.
            let said = Said { by: tx.desk, word: Word::Farewell };
            tx.all(NOTIFY, &[&channel(tx.core), &said.text()]).await?;
        }
        Ok(((), if any { News::anything() } else { News::written() }))
    }
}
