//! What lies on which desk.

use steadfast_store::{ActivityLease, Desk, Held, Lease, Result, TaskKey};

use super::Readers;
use crate::{
    core::alive,
    error::undone,
    row::{self, get},
};

pub(crate) const HELD: &str = "
    SELECT t.key, t.epoch, t.status,
        CASE WHEN t.letters > 0 THEN (SELECT max(seq) FROM inbox i WHERE i.task = t.key) END
    FROM task t WHERE t.desk = $1 AND t.desk > 0 ORDER BY t.key";

pub(crate) const HELD_ACTIVITIES: &str =
    "SELECT key, epoch FROM activity WHERE desk = $1 AND desk > 0 ORDER BY key";

/// Desks that hold something and are not alive. Skips from one to the next.
pub(crate) const DEAD: &str = concat!(
    "WITH RECURSIVE tasks (desk) AS (
        SELECT (SELECT min(desk) FROM task WHERE desk > 0)
        UNION ALL
        SELECT (SELECT min(t.desk) FROM task t WHERE t.desk > 0 AND t.desk > b.desk)
        FROM tasks b WHERE b.desk IS NOT NULL
    ), activities (desk) AS (
        SELECT (SELECT min(desk) FROM activity WHERE desk > 0)
        UNION ALL
        SELECT (SELECT min(a.desk) FROM activity a WHERE a.desk > 0 AND a.desk > b.desk)
        FROM activities b WHERE b.desk IS NOT NULL
    ), busy AS (
        SELECT desk FROM tasks WHERE desk IS NOT NULL
        UNION SELECT desk FROM activities WHERE desk IS NOT NULL
    )
    SELECT b.desk FROM busy b WHERE b.desk <> $1
        AND NOT EXISTS (SELECT FROM desk d WHERE d.n = b.desk AND ",
    alive!(),
    ") ORDER BY b.desk"
);

pub(crate) const ALIVE: &str =
    concat!("SELECT EXISTS (SELECT FROM desk d WHERE d.n = $1 AND ", alive!(), ")");

/// Writes what needs room where events lie, and takes it back.
const ROOM: &str = "DO $$ BEGIN
        INSERT INTO event (task, seq, body) SELECT 0, 0, convert_to(string_agg(md5(random()::text), ''), 'UTF8')
        FROM generate_series(1, 512);
        RAISE EXCEPTION USING ERRCODE = 'SF000';
    EXCEPTION WHEN SQLSTATE 'SF000' THEN NULL;
    END $$";

impl Readers {
    /// Whether there is room for what is written.
    pub(crate) async fn has_room(&self) -> Result<()> {
        self.point(ROOM, &[]).await.map(drop)
    }

    pub(crate) async fn held(&self, desk: i64) -> Result<Vec<Held>> {
        let rows = self.point(HELD, &[&desk]).await?;
        let held = |r: &tokio_postgres::Row| {
            let lease = Lease { key: TaskKey(get(r, 0)?), epoch: get(r, 1)? };
            let status = row::status(r, 2).map_err(|e| undone(&e))?;
            Ok(Held { lease, status, mail: get(r, 3)? })
        };
        rows.iter().map(held).collect()
    }

    pub(crate) async fn held_activities(&self, desk: i64) -> Result<Vec<ActivityLease>> {
        let rows = self.point(HELD_ACTIVITIES, &[&desk]).await?;
        rows.iter().map(|r| Ok(ActivityLease { key: get(r, 0)?, epoch: get(r, 1)? })).collect()
    }

    pub(crate) async fn dead(&self, own: i64) -> Result<Vec<Desk>> {
        let rows = self.point(DEAD, &[&own]).await?;
        rows.iter().map(|r| Ok(Desk(get(r, 0)?))).collect()
    }

    pub(crate) async fn is_alive(&self, desk: i64) -> Result<bool> {
        self.first(ALIVE, &[&desk]).await?.map_or(Ok(false), |r| get(&r, 0))
    }
}
