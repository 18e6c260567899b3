//! What an author's SQL may do on the connection of the store, and what not.

use steadfast_sqlite::{Transaction, in_sqlite};
use steadfast_store::Store as _;

use crate::{
    common::{held, operator, task, turn},
    work::{Bank, pay},
};

#[tokio::test]
async fn what_concerns_the_store_is_refused_with_a_reason() {
    let bank = Bank::open();
    let lease = held(&bank.store, "a").await;
    let control = "are the store's";
    let own = "is the store's own";
    let cases = [
        ("COMMIT", control),
        ("END", control),
        ("ROLLBACK", control),
        ("BEGIN", control),
        ("SAVEPOINT mine", control),
        ("RELEASE work", control),
        ("ROLLBACK TO work", control),
        ("SELECT id FROM task", own),
        ("DELETE FROM Event", own),
        // A statement that the store has prepared long ago.
        ("DELETE FROM event WHERE n = 1", own),
        ("UPDATE main.state SET value = NULL", own),
        ("INSERT INTO notice VALUES (1, 1, x'')", own),
        ("DROP TABLE session", own),
        ("ALTER TABLE inbox ADD COLUMN x", own),
        ("CREATE INDEX mine ON task (tool)", own),
        ("DROP INDEX task_id", own),
        ("CREATE TRIGGER mine AFTER INSERT ON event BEGIN SELECT 1; END", own),
        ("DROP TRIGGER session_over", own),
        ("CREATE VIEW tasks AS SELECT * FROM task; SELECT * FROM tasks", own),
        ("INSERT INTO payment (cents) SELECT count(*) FROM task", own),
        (
            "CREATE TRIGGER mine AFTER INSERT ON payment BEGIN DELETE FROM event; END;
             INSERT INTO payment (cents) VALUES (9)",
            own,
        ),
        ("DELETE FROM sqlite_sequence", "it can only be read"),
        ("UPDATE SQLITE_SEQUENCE SET seq = 0 WHERE name = 'notice'", "it can only be read"),
        ("INSERT INTO main.sqlite_sequence VALUES ('notice', 0)", "it can only be read"),
        // Also beside what has SQLite write there itself.
        (
            "CREATE TABLE book (id INTEGER PRIMARY KEY AUTOINCREMENT);
             ALTER TABLE book RENAME TO tome;
             DROP TABLE tome;
             DELETE FROM sqlite_sequence WHERE name = 'notice'",
            "it can only be read",
        ),
        (
            "CREATE TRIGGER mine AFTER INSERT ON payment BEGIN DELETE FROM sqlite_sequence; END;
             INSERT INTO payment (cents) VALUES (9)",
            "it can only be read",
        ),
        ("CREATE TABLE moved (place TEXT)", "the name moved is reserved"),
        ("CREATE TABLE IF NOT EXISTS Task (id)", "the name Task is reserved"),
        ("CREATE TABLE steadfast_mine (id)", "the name steadfast_mine is reserved"),
        ("CREATE VIEW moved AS SELECT 1", "the name moved is reserved"),
        ("CREATE INDEX moved ON payment (cents)", "the name moved is reserved"),
        ("ATTACH ':memory:' AS other", "other files"),
        ("DETACH main", "other files"),
        ("PRAGMA journal_mode = DELETE", "PRAGMA journal_mode"),
        ("PRAGMA synchronous = OFF", "PRAGMA synchronous"),
        ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys"),
        ("PRAGMA defer_foreign_keys = ON", "PRAGMA defer_foreign_keys"),
        ("PRAGMA writable_schema = ON", "PRAGMA writable_schema"),
        ("CREATE TEMP TABLE task (x)", "temporary"),
        ("CREATE TEMP VIEW event AS SELECT 1", "temporary"),
        ("ANALYZE", "ANALYZE"),
        ("SELECT load_extension('x')", "extensions"),
        ("VACUUM", "VACUUM"),
    ];
    for (sql, reason) in cases {
        let said = bank.run(lease, sql).await;
        assert!(said.len() == 1 && said[0].contains(reason), "{sql}: {said:?}");
    }
    assert_eq!(bank.count("payment"), 0);
    bank.store.turn(turn(lease, 1, b"all is well")).await.unwrap();
}

#[tokio::test]
async fn what_is_the_authors_is_allowed() {
    let bank = Bank::open();
    let lease = held(&bank.store, "a").await;
    let all = in_sqlite(|tx: &Transaction<'_>| {
        let run = || -> steadfast_sqlite::rusqlite::Result<i64> {
            tx.execute_batch(
                "CREATE TABLE book (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT);
                 CREATE INDEX book_title ON book (title);
                 CREATE TABLE log (line TEXT);
                 CREATE TRIGGER book_log AFTER INSERT ON book
                     BEGIN INSERT INTO log VALUES (new.title); END;
                 CREATE VIEW titles AS SELECT title FROM book;
                 ALTER TABLE book ADD COLUMN year INTEGER;
                 ALTER TABLE log RENAME TO lines;
                 CREATE TABLE gone (id INTEGER PRIMARY KEY AUTOINCREMENT);
                 INSERT INTO gone DEFAULT VALUES;
                 DROP TABLE gone;",
            )?;
            for title in ["one", "two", "two"] {
                tx.execute("INSERT INTO book (title) VALUES (?)", [title])?;
            }
            tx.execute("ALTER TABLE book RENAME TO tome", [])?;
            let titles = tx.query(
                "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 9)
                 SELECT DISTINCT title FROM titles, n ORDER BY 1",
                [],
                |row| {
                    // Also while another is read.
                    tx.query_row("SELECT count(*) FROM lines", [], |row| row.get::<_, i64>(0))?;
                    row.get::<_, String>(0)
                },
            )?;
            assert_eq!(titles, ["one", "two"]);
            assert_eq!(tx.query("PRAGMA table_info(tome)", [], |_| Ok(()))?.len(), 3);
            // SQLite counts by itself, and forgets what was dropped and renamed.
            let counters = "SELECT group_concat(name || seq) FROM sqlite_sequence";
            let counted = tx.query_row(counters, [], |row| row.get::<_, String>(0))?;
            assert_eq!(counted, "tome3");
            let none = tx.query_optional("SELECT 1 FROM tome WHERE id = 9", [], |_| Ok(()))?;
            assert!(none.is_none());
            Ok(tx.last_insert_rowid())
        };
        run().map_err(|e| e.to_string())
    });
    let answer = bank.commit(lease, 1, all).await;
    assert!(answer.is_ok(), "{:?}", bank.notes.take());
    assert_eq!((bank.count("tome"), bank.count("lines")), (3, 3));
    // The statements that the store had prepared before go on, as does all else.
    bank.store.turn(turn(lease, 2, b"next")).await.unwrap();
    bank.store.start(task("b")).await.unwrap();
    bank.store.get(operator(), task("b").id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_the_store_from_inside_is_refused_and_does_not_hang() {
    let bank = Bank::open();
    let lease = held(&bank.store, "a").await;
    let store =
        std::sync::Arc::new(steadfast_sqlite::Store::open(bank.dir.path().join("x.db")).unwrap());
    let runtime = tokio::runtime::Handle::current();
    let asks = in_sqlite(move |tx: &Transaction<'_>| {
        let started = runtime.block_on(store.start(task("b")));
        let text = started.unwrap_err().to_string();
        assert!(text.contains("may only use the handle"), "{text}");
        pay(tx, 1)
    });
    bank.commit(lease, 1, asks).await.unwrap();
    assert_eq!(bank.count("payment"), 1);
}
