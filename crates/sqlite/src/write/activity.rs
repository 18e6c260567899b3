//! Activities: their queue and their life.

use rusqlite::params;
use steadfast_core::{OpId, Timestamp};
use steadfast_store::{
    ActivityEnd, ActivityLease, ActivityRow, ClaimActivities, Refusal, Retried, Touched,
};

use super::{DUE, Done};
use crate::{
    row::{self, activity_columns},
    tx::{Reach, Tx},
};

/// An activity whose epoch was the present one.
struct Leased {
    task: i64,
    op: u32,
    desk: Option<i64>,
}

impl Tx<'_> {
    pub(crate) fn claim_activities(&mut self, claim: &ClaimActivities) -> Done<Vec<ActivityRow>> {
        let sql = "SELECT key, desk FROM activity
                   WHERE due <= ? AND due IS NOT NULL ORDER BY due, key LIMIT ?";
        let due = self.all(sql, [claim.now.0, DUE], |r| {
            Ok((r.get(0)?, r.get::<_, Option<i64>>(1)? != Some(0)))
        })?;
        for (key, overdue) in due {
            self.requeue(key, overdue, overdue)?;
        }
        let limit = i64::try_from(claim.limit).unwrap_or(i64::MAX);
        let mut heads: Vec<(i64, i64)> = Vec::new();
        for name in &claim.names {
            let sql = "SELECT rank, key FROM activity
                       WHERE name = ? AND rank IS NOT NULL ORDER BY rank LIMIT ?";
            heads.extend(self.all(sql, params![name, limit], |r| Ok((r.get(0)?, r.get(1)?)))?);
        }
        heads.sort_unstable();
        // The same name may have been given twice.
        heads.dedup();
        heads.truncate(claim.limit);
        let mut claimed = Vec::with_capacity(heads.len());
        for (_, key) in heads {
            let sql = "UPDATE activity SET desk = ?, rank = NULL, due = NULL, epoch = epoch + 1
                       WHERE key = ?";
            self.run(sql, [self.desk, key])?;
            claimed.extend(self.first(BY_KEY, [key], row::activity)?);
        }
        Ok(claimed)
    }

    /// Puts an activity at the end of the queue; from somebody's hands if `fence`.
    pub(crate) fn requeue(&mut self, key: i64, fence: bool, attempt: bool) -> rusqlite::Result<()> {
        let rank = self.memory.number();
        let sql = "UPDATE activity SET desk = 0, due = NULL, rank = ?, epoch = epoch + ?,
                   attempt = attempt + ? WHERE key = ?";
        self.run(sql, params![rank, fence, attempt, key]).map(drop)
    }

    fn leased(&self, lease: ActivityLease) -> Done<Leased> {
        let sql = "SELECT task, op, desk FROM activity WHERE key = ? AND epoch = ?";
        let leased = self.first(sql, [lease.key, lease.epoch], |r| {
            Ok(Leased { task: r.get(0)?, op: r.get(1)?, desk: r.get(2)? })
        })?;
        Ok(leased.ok_or(Refusal::Fenced)?)
    }

    pub(crate) fn end_activity(&mut self, end: &ActivityEnd) -> Done<Touched> {
        let leased = self.leased(end.lease)?;
        self.run("DELETE FROM activity WHERE key = ?", [end.lease.key])?;
        self.report(&leased, &end.body)
    }

    pub(crate) fn retry_activity(&mut self, retried: &Retried) -> Done<Touched> {
        let leased = self.leased(retried.lease)?;
        let sql = "UPDATE activity SET desk = 0, rank = NULL, due = ?, epoch = epoch + 1,
                   attempt = attempt + 1 WHERE key = ?";
        self.run(sql, [retried.due.0, retried.lease.key])?;
        self.report(&leased, &retried.body)
    }

    pub(crate) fn beat_activity(
        &mut self,
        lease: ActivityLease,
        until: Option<Timestamp>,
        release: bool,
    ) -> Done<()> {
        let leased = self.leased(lease)?;
        // While nobody runs it there is nothing to keep alive; but somebody outside may take it over.
        if leased.desk != Some(0) || release {
            let desk = leased.desk.filter(|_| !release);
            let sql = "UPDATE activity SET desk = ?, rank = NULL, due = ? WHERE key = ?";
            self.run(sql, params![desk, until.map(|until| until.0), lease.key])?;
        }
        Ok(())
    }

    fn report(&mut self, leased: &Leased, body: &[u8]) -> Done<Touched> {
        let mut reach = Reach::default();
        self.deliver(leased.task, Some(OpId(leased.op)), body, &mut reach)?;
        let here = reach.touched.get(&leased.task).is_some_and(|here| *here);
        Ok(self.touched(leased.task, here.then_some(self.desk)))
    }
}

const BY_KEY: &str = concat!(
    "SELECT ",
    activity_columns!(),
    " FROM activity a JOIN task t ON t.key = a.task WHERE a.key = ?"
);
