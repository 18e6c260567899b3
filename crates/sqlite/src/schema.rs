//! The tables, and how an older file becomes one of today.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a file as ours: "stdf".
pub(crate) const APPLICATION: i64 = 0x7374_6466;

/// Marks a file as one of ours whose tasks were moved to another store: "stdm". Also versions of this code
/// that know nothing of moving leave it alone. Its table `moved` says where to and when.
pub(crate) const MOVED: i64 = 0x7374_646d;

/// The version that this code reads and writes: one per migration.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// Each takes a file from the version of its place in the list to the next. A migration that has
/// been released is never changed.
const MIGRATIONS: [&str; 6] = [FIRST, QUESTIONS_IN_ROWS, SESSIONS, BONDS, NOTICES, FREED];

/// The tables that are the store's.
const OURS: [&str; 11] = [
    "activity", "counter", "event", "inbox", "kept", "notice", "session", "state", "tag", "task",
    "watch",
];

/// Whether a table is the store's, and not an author's.
pub(crate) fn is_ours(table: &str) -> bool {
    OURS.iter().any(|ours| table.eq_ignore_ascii_case(ours))
}

/// Whether a name is not for anything of an author's: a table of that name would be in the way of ours, of the
/// one that closes a file, or of those to come.
pub(crate) fn is_reserved(name: &str) -> bool {
    let to_come = name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("steadfast_"));
    is_ours(name) || name.eq_ignore_ascii_case("moved") || to_come
}

/// `task.desk` says where a task lies: NULL is parked, -1 is halted or set aside, 0 is the ready
/// pile, and anything above is that desk. `rank` is its place in the ready pile. `owner` is empty for
/// nobody, which no principal can be. `version` is -1 as long as it has none.
///
/// `task.shelf` is the status that a task is listed under: its own, except that one that runs on a
/// desk stands with the completed already. Most tasks begin on a desk and complete there, and so no
/// index has to be changed when they do.
///
/// `event` is one log for all tasks, and has no index: each event knows its task's event before it,
/// and `task.tail` is the last. So a turn that only appends changes one page of the file, together
/// with all others of its batch. The tail of a task on a desk may be behind; what is missing lies
/// above `counter.filed`, which is never far back. See [`history`](crate::history).
///
/// `counter.task` is the highest key of a task if that one was removed, and `counter.number` the
/// number used last.
///
/// `question.place` has the task's key above 24 bits and below them a number that rises from question to
/// question.
///
/// `activity.desk` is 0 while nobody runs it (with a `rank` it is in the queue, with a `due` it waits
/// for its next attempt), NULL if somebody outside does, or a desk; `due` is then the end of its
/// heartbeat.
const FIRST: &str = "
CREATE TABLE counter (
    task INTEGER NOT NULL,
    number INTEGER NOT NULL,
    filed INTEGER NOT NULL
);
INSERT INTO counter VALUES (0, 0, 0);

CREATE TABLE task (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    tool TEXT NOT NULL,
    version INTEGER NOT NULL,
    owner TEXT NOT NULL,
    status INTEGER NOT NULL,
    shelf INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ended INTEGER,
    expires INTEGER,
    wake INTEGER,
    parent INTEGER,
    parent_op INTEGER,
    tells INTEGER NOT NULL,
    dedup TEXT,
    desk INTEGER,
    rank INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    deaths INTEGER NOT NULL,
    tail INTEGER,
    tags TEXT,
    view BLOB NOT NULL,
    about BLOB NOT NULL,
    end BLOB
);
CREATE UNIQUE INDEX task_id ON task (id);
CREATE INDEX task_desk ON task (desk) WHERE desk > 0;
CREATE INDEX task_ready ON task (tool, version, owner, rank) WHERE desk = 0;
CREATE INDEX task_wake ON task (wake) WHERE wake IS NOT NULL AND desk IS NULL;
CREATE INDEX task_expires ON task (expires) WHERE expires IS NOT NULL;
CREATE INDEX task_parent ON task (parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX task_dedup ON task (owner, tool, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX task_owner ON task (owner, shelf);
CREATE INDEX task_tool ON task (tool, shelf);

CREATE TABLE tag (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    task INTEGER NOT NULL,
    PRIMARY KEY (name, value, task)
) WITHOUT ROWID;

CREATE TABLE event (
    n INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    before INTEGER,
    body BLOB NOT NULL
);

CREATE TABLE inbox (
    task INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    op INTEGER,
    notice INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (task, seq)
) WITHOUT ROWID;

CREATE TABLE kept (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    sender TEXT NOT NULL,
    until INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX kept_id ON kept (id);
CREATE INDEX kept_until ON kept (until);

CREATE TABLE question (
    place INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    op INTEGER NOT NULL,
    body BLOB NOT NULL
);

CREATE TABLE activity (
    key INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    op INTEGER NOT NULL,
    name TEXT NOT NULL,
    token TEXT NOT NULL,
    desk INTEGER,
    rank INTEGER,
    due INTEGER,
    epoch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX activity_token ON activity (token);
CREATE UNIQUE INDEX activity_op ON activity (task, op);
CREATE INDEX activity_queue ON activity (name, rank) WHERE rank IS NOT NULL;
CREATE INDEX activity_due ON activity (due) WHERE due IS NOT NULL;
CREATE INDEX activity_desk ON activity (desk) WHERE desk > 0;

CREATE TABLE state (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value BLOB,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;

CREATE TABLE watch (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    task INTEGER NOT NULL,
    PRIMARY KEY (scope, key, task)
) WITHOUT ROWID;
CREATE INDEX watch_task ON watch (task);
";

/// The open questions of a task move into its row; see [`asks`](crate::asks) for how they are written.
const QUESTIONS_IN_ROWS: &str = "
ALTER TABLE task ADD COLUMN asks BLOB;
UPDATE task SET asks = (
    SELECT unhex(group_concat(
        printf('%02x%02x%02x%02x', op & 255, op >> 8 & 255, op >> 16 & 255, op >> 24 & 255)
        || printf('%02x%02x%02x%02x', k & 255, k >> 8 & 255, k >> 16 & 255, k >> 24 & 255)
        || printf('%02x%02x%02x%02x', b & 255, b >> 8 & 255, b >> 16 & 255, b >> 24 & 255)
        || hex(name) || hex(body), '' ORDER BY place))
    FROM (SELECT place, op, CAST(key AS BLOB) AS name, octet_length(key) AS k,
                 body, octet_length(body) AS b
          FROM question WHERE place >> 24 = task.key))
WHERE key IN (SELECT place >> 24 FROM question);
DROP TABLE question;
";

const SESSIONS: &str = "
CREATE TABLE session (
    id TEXT PRIMARY KEY,
    expires INTEGER NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX session_expires ON session (expires);
";

/// A dedup key is one principal's, whatever the tool: those so far belonged to a tool, and keep its name
/// as the engine writes it. `bound` is the desk that a task was started for.
const BONDS: &str = "
UPDATE task SET dedup = tool || char(10) || dedup WHERE dedup IS NOT NULL;
DROP INDEX task_dedup;
CREATE UNIQUE INDEX task_dedup ON task (owner, dedup) WHERE dedup IS NOT NULL;
ALTER TABLE task ADD COLUMN bound INTEGER;
";

/// The state of a session goes with it, by whatever way. The number of a notice is never used again, so
/// that who has read up to it can go on from there.
const NOTICES: &str = "
CREATE TRIGGER session_over AFTER DELETE ON session BEGIN
    DELETE FROM state WHERE scope = 'session/' || old.id;
END;

CREATE TABLE notice (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    until INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX notice_until ON notice (until);
";

/// A key that was freed stays in its row until another has it: who had asked for it before finds the task by
/// that. Since when is in microseconds.
const FREED: &str = "
ALTER TABLE task ADD COLUMN freed INTEGER;
";

/// What a file is, as far as its header and schema say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Empty,
    Ours(i64),
    Foreign,
    /// Closed, because its tasks are elsewhere.
    Moved {
        to: String,
        at: String,
    },
}

/// Reads what a file is. Writes nothing.
pub(crate) fn look(conn: &Connection) -> rusqlite::Result<Found> {
    let application: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application == MOVED {
        let sql = "SELECT place, at FROM moved";
        return conn.query_row(sql, [], |r| Ok(Found::Moved { to: r.get(0)?, at: r.get(1)? }));
    }
    Ok(match (application, tables) {
        (APPLICATION, _) => Found::Ours(version),
        (0, 0) => Found::Empty,
        _ => Found::Foreign,
    })
}

/// The tables that are neither ours nor SQLite's.
pub(crate) fn foreign_tables(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let closed = matches!(look(conn)?, Found::Moved { .. });
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
               ORDER BY name";
    let mut tables: Vec<String> = crate::tx::all(conn, sql, [], |row| row.get(0))?;
    tables.retain(|name| !(is_ours(name) || closed && name == "moved"));
    Ok(tables)
}

/// Brings an empty file, or one of ours, to [`VERSION`]: whole or not at all. Says what was found if
/// it is neither, or newer.
pub(crate) fn migrate(conn: &mut Connection) -> rusqlite::Result<Found> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Looked at again under the write lock: two processes may open a new file at the same time.
    let found = look(&tx)?;
    let from = match found {
        Found::Empty => 0,
        Found::Ours(version) if version < VERSION => version,
        Found::Ours(_) | Found::Foreign | Found::Moved { .. } => return Ok(found),
    };
    for migration in MIGRATIONS.iter().skip(usize::try_from(from).unwrap_or(0)) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()?;
    Ok(Found::Ours(VERSION))
}

#[cfg(test)]
mod tests {
    use steadfast_core::OpId;
    use steadfast_store::QuestionRow;

    use super::*;

    /// A task as the first version had it.
    fn old_task(conn: &Connection, key: i64) {
        let sql = "INSERT INTO task (key, id, tool, version, owner, status, shelf, created, updated, \
                   tells, rank, epoch, deaths, view, about) \
                   VALUES (?1, 'task-' || ?1, 't', 1, '', 3, 3, 0, 0, 0, 0, 1, 0, x'', x'')";
        conn.execute(sql, [key]).unwrap();
    }

    #[test]
    fn all_tables_are_known_as_ours() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn).unwrap();
        let sql =
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let tables: Vec<String> = crate::tx::all(&conn, sql, [], |row| row.get(0)).unwrap();
        assert!(tables.len() > 10);
        let unknown: Vec<_> = tables.iter().filter(|table| !is_ours(table)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(is_ours("TASK") && !is_ours("payment"));
        assert!(["Task", "MOVED", "Steadfast_x"].into_iter().all(is_reserved));
        assert!(
            ["payment", "moved_on", "steadfast", ""].into_iter().all(|name| !is_reserved(name))
        );
    }

    #[test]
    fn dedup_keys_of_old_stay_those_of_their_tools() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(FIRST).unwrap();
        conn.pragma_update(None, "application_id", APPLICATION).unwrap();
        conn.pragma_update(None, "user_version", 1).unwrap();
        for (key, tool) in [(1, "a"), (2, "b"), (3, "b")] {
            old_task(&conn, key);
            let sql = "UPDATE task SET tool = ?, dedup = iif(key < 3, 'once', NULL) WHERE key = ?";
            conn.execute(sql, rusqlite::params![tool, key]).unwrap();
        }
        assert_eq!(migrate(&mut conn).unwrap(), Found::Ours(VERSION));
        let sql = "SELECT dedup, bound FROM task ORDER BY key";
        let rows = crate::tx::all(&conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let key = |text: &str| Some(text.to_owned());
        let expected: [(Option<String>, Option<i64>); 3] =
            [(key("a\nonce"), None), (key("b\nonce"), None), (None, None)];
        assert_eq!(rows, expected);
    }

    #[test]
    fn questions_of_the_first_version_move_into_their_rows() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(FIRST).unwrap();
        conn.pragma_update(None, "application_id", APPLICATION).unwrap();
        conn.pragma_update(None, "user_version", 1).unwrap();
        let long = vec![0xfe; 70_000];
        let asked: [(i64, &str, u32, &[u8]); 3] =
            [(1, "ä", 1, b"one"), (2, "b", u32::MAX, &long), (5, "", 0, b"")];
        old_task(&conn, 7);
        old_task(&conn, 8);
        // Not in their order.
        for (place, key, op, body) in asked.iter().rev() {
            let sql = "INSERT INTO question (place, key, op, body) VALUES (?, ?, ?, ?)";
            conn.execute(sql, rusqlite::params![7 << 24 | place, key, op, body]).unwrap();
        }
        assert_eq!(migrate(&mut conn).unwrap(), Found::Ours(VERSION));
        let read = |key: i64| {
            conn.query_row("SELECT asks FROM task WHERE key = ?", [key], |row| {
                Ok(crate::asks::read(row.get_ref(0)?)?)
            })
        };
        let question = |&(_, key, op, body): &(i64, &str, u32, &[u8])| QuestionRow {
            key: key.into(),
            op: OpId(op),
            body: body.into(),
        };
        assert_eq!(read(7).unwrap(), asked.iter().map(question).collect::<Vec<_>>());
        assert!(read(8).unwrap().is_empty());
    }
}
