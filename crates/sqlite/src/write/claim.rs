//! Taking tasks from the ready pile.

use rusqlite::params;
use steadfast_store::{ClaimTasks, Claimed, TaskRow};

use super::{DUE, Done};
use crate::{
    history,
    memory::Card,
    row::{self, NO_VERSION},
    tx::Tx,
};

/// A tool and a version of it, as the column has it. There are few, however many tasks there are.
type Class = (String, i64);

impl Tx<'_> {
    pub(crate) fn claim(&mut self, claim: &ClaimTasks) -> Done<Vec<Claimed>> {
        self.wake_due(claim.now.0)?;
        let classes = self.classes(claim)?;
        let mut claimed = Vec::new();
        while claimed.len() < claim.limit {
            let Some((key, (tool, version))) = self.pick(&classes)? else { break };
            let version = match version {
                NO_VERSION => claim.newest(&tool).map_or(NO_VERSION, i64::from),
                version => version,
            };
            // Before it lies on a desk: then its tail is exact, and nothing need be looked for.
            let (history, tail) = history::whole(self.statements.conn, key)?;
            let sql = "UPDATE task SET desk = ?, version = ?, epoch = epoch + 1, wake = NULL,
                       shelf = iif(status = 1, 7, status) WHERE key = ?";
            self.alter(key, sql, [self.desk, version, key])?;
            let Some(row) = row::load(self.statements.conn, key)? else { continue };
            let TaskRow { epoch, status, deaths, .. } = row;
            let child = row.parent.is_some();
            self.memory.keep(key, Card { epoch, status, deaths, tail, child, bare: false });
            let inbox = row::inbox(self.statements.conn, key, i64::MIN)?;
            claimed.push(Claimed { row, history, inbox });
        }
        Ok(claimed)
    }

    /// Puts parked tasks that are due on the pile; if there are very many, those that were due first.
    /// The next claim takes the rest: their wake has passed, so nobody sleeps on it.
    fn wake_due(&mut self, now: i64) -> rusqlite::Result<()> {
        let sql = "SELECT key FROM task INDEXED BY task_wake
                   WHERE wake <= ? AND wake IS NOT NULL AND desk IS NULL
                   ORDER BY wake, key LIMIT ?";
        for key in self.all(sql, [now, DUE], |r| r.get(0))? {
            self.put_ready(key)?;
        }
        Ok(())
    }

    /// What lies on the pile and the caller can run. Skips from one version to the next, so that it
    /// doesn't matter how many tasks lie there that the caller can't.
    fn classes(&self, claim: &ClaimTasks) -> rusqlite::Result<Vec<Class>> {
        let mut classes = Vec::new();
        for (tool, low, high) in claim.tools.iter().filter(|(_, low, high)| low <= high) {
            let (low, high) = (i64::from(*low), i64::from(*high));
            let mut next = NO_VERSION;
            loop {
                let sql = "SELECT min(version) FROM task INDEXED BY task_ready
                           WHERE desk = 0 AND tool = ? AND version >= ?";
                let found = self.first(sql, params![tool, next], |r| r.get(0))?;
                let version: Option<i64> = found.flatten();
                let Some(version) = version.filter(|version| *version <= high) else { break };
                if version == NO_VERSION || version >= low {
                    classes.push((tool.clone(), version));
                }
                next = low.max(version + 1);
            }
        }
        classes.sort_unstable();
        classes.dedup();
        Ok(classes)
    }

    /// The task whose turn it is: of the owner behind the one served last, the one that became ready
    /// first.
    fn pick(&mut self, classes: &[Class]) -> rusqlite::Result<Option<(i64, Class)>> {
        let served = self.served.clone();
        let next = served.map(|served| self.next_owner(classes, &served)).transpose()?.flatten();
        let owner = match next {
            Some(owner) => Some(owner),
            None => self.first_owner(classes)?,
        };
        let Some(owner) = owner else { return Ok(None) };
        let sql = "SELECT rank, key FROM task INDEXED BY task_ready
                   WHERE desk = 0 AND tool = ? AND version = ? AND owner = ?
                   ORDER BY rank LIMIT 1";
        let mut best: Option<(i64, i64, &Class)> = None;
        for class in classes {
            let params = params![class.0, class.1, owner];
            let head = self.first(sql, params, |r| Ok((r.get(0)?, r.get(1)?, class)))?;
            best = best.into_iter().chain(head).min();
        }
        *self.served = Some(owner);
        Ok(best.map(|(_, key, class)| (key, class.clone())))
    }

    fn next_owner(&self, classes: &[Class], after: &str) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT min(owner) FROM task INDEXED BY task_ready
                   WHERE desk = 0 AND tool = ? AND version = ? AND owner > ?";
        self.least(classes, |tool, version| {
            self.first(sql, params![tool, version, after], |r| r.get(0))
        })
    }

    fn first_owner(&self, classes: &[Class]) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT min(owner) FROM task INDEXED BY task_ready
                   WHERE desk = 0 AND tool = ? AND version = ?";
        self.least(classes, |tool, version| self.first(sql, params![tool, version], |r| r.get(0)))
    }

    fn least(
        &self,
        classes: &[Class],
        owner: impl Fn(&str, i64) -> rusqlite::Result<Option<Option<String>>>,
    ) -> rusqlite::Result<Option<String>> {
        let mut least: Option<String> = None;
        for (tool, version) in classes {
            least = least.into_iter().chain(owner(tool, *version)?.flatten()).min();
        }
        Ok(least)
    }
}
