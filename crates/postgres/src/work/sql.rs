//! The statements that write a batch back.

/// Most turns that change a row change no more than this. Every column of a statement costs about as
/// much as an index.
pub(crate) const UPDATE_PLAINLY: &str = "
    UPDATE task t SET
        status = u.status, updated = coalesce(u.updated, t.updated),
        ended = coalesce(u.ended, t.ended), expires = u.expires, wake = u.wake, desk = u.desk,
        deaths = u.deaths, view = coalesce(u.view, t.view),
        outcome = coalesce(u.outcome, t.outcome)
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[])
        AS u (key, status, updated, ended, expires, wake, desk, deaths, view, outcome)
    WHERE t.key = u.key";

pub(crate) const UPDATE_TASK: &str = "
    UPDATE task t SET
        status = u.status, updated = coalesce(u.updated, t.updated),
        ended = coalesce(u.ended, t.ended), expires = u.expires, wake = u.wake, desk = u.desk,
        bound = u.bound, rank = u.rank, epoch = u.epoch, deaths = u.deaths, letters = u.letters,
        traces = u.traces, tells = u.tells, dedup = u.dedup, view = coalesce(u.view, t.view),
        outcome = coalesce(u.outcome, t.outcome)
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
                $11::bigint[], $12::bigint[], $13::smallint[], $14::boolean[], $15::text[],
                $16::bytea[], $17::bytea[])
        AS u (key, status, updated, ended, expires, wake, desk, bound, rank, epoch, deaths, letters,
              traces, tells, dedup, view, outcome)
    WHERE t.key = u.key";

/// And most tasks begin so.
pub(crate) const INSERT_PLAINLY: &str = "
    INSERT INTO task (key, status, created, updated, expires, desk, rank, epoch, deaths, letters,
                      version, traces, tells, id, tool, owner, about, view)
    SELECT u.key, u.status, u.created, u.created, u.expires, $11::bigint, 0, 1, 0, 0,
           u.version, 0, false, u.id, u.tool, u.owner, u.about, u.view
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bytea[])
        AS u (key, status, created, expires, version, id, tool, owner, about, view)";

macro_rules! write_recalled {
    ($($same:tt)+) => {
        concat!(
            "
    WITH ended AS (
        UPDATE task t SET
            status = u.status, updated = u.at, ended = u.at, expires = u.expires, wake = NULL,
            desk = NULL, view = coalesce(u.view, t.view), outcome = u.outcome
        FROM unnest($1::bigint[], $2::xid[], $3::smallint[], $4::bigint[], $5::bigint[],
                    $6::bytea[], $7::bytea[])
            AS u (key, remembered, status, at, expires, view, outcome)
        WHERE t.key = u.key AND ",
            $($same)+,
            " RETURNING 1
    ), same AS (
        SELECT 1 FROM unnest($8::bigint[], $9::xid[]) AS u (key, remembered)
        JOIN task t ON t.key = u.key WHERE ",
            $($same)+,
            "
        FOR NO KEY UPDATE OF t SKIP LOCKED
    ), begun AS (
        INSERT INTO task (key, status, created, updated, expires, desk, rank, epoch, deaths,
                          letters, version, traces, tells, id, tool, owner, about, view)
        SELECT u.key, $16::smallint, u.created, u.created, $17::bigint, $20::bigint, 0, 1, 0,
               0, $18::bigint, 0, false, u.id, $19::text, u.owner, u.about, u.view
        FROM unnest($10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::bytea[],
                    $15::bytea[])
            AS u (key, created, id, owner, about, view)
    ), recorded AS (
        INSERT INTO event (task, seq, body)
        SELECT * FROM unnest($21::bigint[], $22::bigint[], $23::bytea[])
    )
    SELECT 1 / ((SELECT count(*) FROM ended) = $24::bigint)::int,
           1 / ((SELECT count(*) FROM same) = $25::bigint)::int,
           1 / ((SELECT count(*) FROM kept WHERE id = ANY($26::text[])) = 0)::int"
        )
    };
}

/// All that most batches of what is remembered write: ends of tasks, new tasks of one tool, and events. And
/// what makes sure that they may: an error if a row is not the version that is remembered, or if a message
/// is kept for one of the new tasks.
///
/// The rows that end are locked before the others, and may be waited for; for the others nobody waits. So
/// two batches don't wait for each other.
pub(crate) const WRITE_RECALLED: &str = write_recalled!("t.xmin = u.remembered");

/// How what is known by heart is written.
pub(super) fn write_recalled() -> &'static str {
    #[cfg(feature = "mutants")]
    if crate::mutants::trusts_memory() {
        return write_recalled!("u.remembered IS NOT NULL");
    }
    WRITE_RECALLED
}

pub(crate) const INSERT_TASK: &str = "
    INSERT INTO task (key, status, created, updated, ended, expires, wake, parent, parent_op, desk,
                      bound, rank, epoch, deaths, letters, version, traces, tells, id, tool, owner,
                      dedup, tags, about, view, outcome)
    SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
                $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
                $16::bigint[], $17::smallint[], $18::boolean[], $19::text[], $20::text[],
                $21::text[], $22::text[], $23::text[], $24::bytea[], $25::bytea[], $26::bytea[])";

/// An error, as of two that begin with the same key, if one of the keys was freed by a task that began and was
/// freed of it after this batch was loaded: its row is there, and can't be there twice. Who has that row locked may
/// wait for the key, and is not waited for.
pub(crate) const NOT_FREED: &str = "
    INSERT INTO freed (owner, key, task, at)
    SELECT f.owner, f.key, f.task, f.at FROM unnest($1::text[], $2::text[]) AS u (owner, key)
    JOIN freed f ON f.owner = u.owner AND f.key = u.key FOR UPDATE OF f NOWAIT";
/// Of tasks that begin with a key and are freed of it by the same batch: nobody else begins with it meanwhile.
pub(crate) const FREE_NEW: &str = "UPDATE task SET dedup = NULL WHERE key = ANY($1::bigint[])";
pub(crate) const PUT_FREED: &str = "
    INSERT INTO freed (owner, key, task, at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
    ON CONFLICT (owner, key) DO UPDATE SET task = excluded.task, at = excluded.at";

pub(crate) const INSERT_TAG: &str = "
    INSERT INTO tag (name, value, task) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])";
pub(crate) const INSERT_EVENT: &str = "
    INSERT INTO event (task, seq, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])";
pub(crate) const INSERT_INBOX: &str = "
    INSERT INTO inbox (task, seq, op, notice, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bytea[])";
pub(crate) const INSERT_QUESTION: &str = "
    INSERT INTO question (task, n, op, key, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[])";
pub(crate) const INSERT_KEPT: &str = "
    INSERT INTO kept (n, until, id, sender, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bytea[])";
pub(crate) const INSERT_ACTIVITY: &str = "
    INSERT INTO activity (key, task, op, desk, rank, due, epoch, attempt, name, token, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::bytea[])";
pub(crate) const UPDATE_ACTIVITY: &str = "
    UPDATE activity a SET desk = u.desk, rank = u.rank, due = u.due, epoch = u.epoch,
                          attempt = u.attempt
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[]) AS u (key, desk, rank, due, epoch, attempt)
    WHERE a.key = u.key";
pub(crate) const WRITE_STATE: &str = "
    INSERT INTO state (scope, key, version, value)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])
    ON CONFLICT (scope, key) DO UPDATE SET version = excluded.version, value = excluded.value";
pub(crate) const INSERT_WATCH: &str = "
    INSERT INTO watch (scope, key, task)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING";
pub(crate) const PUT_SESSION: &str = "
    INSERT INTO session (id, expires, body)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])
    ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, body = excluded.body";
pub(crate) const INSERT_NOTICE: &str = "
    INSERT INTO notice (n, until, body)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])";

pub(crate) const EVENTS_OF: &str = "DELETE FROM event WHERE task = ANY($1::bigint[])";
pub(crate) const INBOX_OF: &str = "DELETE FROM inbox WHERE task = ANY($1::bigint[])";
pub(crate) const QUESTIONS_OF: &str = "DELETE FROM question WHERE task = ANY($1::bigint[])";
pub(crate) const WATCHES_OF: &str = "DELETE FROM watch WHERE task = ANY($1::bigint[])";
pub(crate) const ACTIVITIES_OF: &str = "DELETE FROM activity WHERE task = ANY($1::bigint[])";
pub(crate) const TAGS_OF: &str = "DELETE FROM tag WHERE task = ANY($1::bigint[])";
pub(crate) const TASKS: &str = "DELETE FROM task WHERE key = ANY($1::bigint[])";
pub(crate) const ACTIVITIES: &str = "DELETE FROM activity WHERE key = ANY($1::bigint[])";
pub(crate) const KEPT: &str = "DELETE FROM kept WHERE n = ANY($1::bigint[])";
pub(crate) const TELLS: &str =
    "UPDATE task SET tells = false WHERE parent = ANY($1::bigint[]) AND tells";
pub(crate) const INBOX_BOUND: &str =
    "DELETE FROM inbox WHERE task = ANY($1::bigint[]) AND (op IS NOT NULL OR notice)";
pub(crate) const SCOPES: &str = "DELETE FROM state WHERE scope = ANY($1::text[])";
pub(crate) const SESSIONS: &str = "DELETE FROM session WHERE id = ANY($1::text[])";
pub(crate) const NOTICES: &str = "DELETE FROM notice WHERE n <= $1::bigint";

/// What goes one by one.
pub(crate) const CONSUMED: &str = "
    DELETE FROM inbox i USING unnest($1::bigint[], $2::bigint[]) AS u (task, upto)
    WHERE i.task = u.task AND i.seq <= u.upto";
pub(crate) const REPLACED: &str = "
    DELETE FROM inbox i USING unnest($1::bigint[], $2::bytea[]) AS u (task, body)
    WHERE i.task = u.task AND i.notice AND i.body = u.body";
pub(crate) const CLOSED: &str = "
    DELETE FROM question q USING unnest($1::bigint[], $2::text[]) AS u (task, key)
    WHERE q.task = u.task AND q.key = u.key";
pub(crate) const UNWATCHED: &str = "
    DELETE FROM watch w USING unnest($1::text[], $2::text[], $3::bigint[]) AS u (scope, key, task)
    WHERE w.scope = u.scope AND w.key = u.key AND w.task = u.task";
pub(crate) const FREED_GONE: &str = "
    DELETE FROM freed f USING unnest($1::text[], $2::text[], $3::bigint[]) AS u (owner, key, task)
    WHERE f.owner = u.owner AND f.key = u.key AND f.task = u.task";

/// The removal of tasks: all that is theirs by number, themselves last, and with them the keys that they were
/// freed of. What is theirs by name is in [`SCOPES`].
pub(crate) const REMOVAL: [&str; 7] =
    [EVENTS_OF, INBOX_OF, QUESTIONS_OF, WATCHES_OF, ACTIVITIES_OF, TAGS_OF, TASKS];
