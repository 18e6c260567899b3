//! SQLite itself under power loss. Proves the harness as much as SQLite: what must be safe is, and
//! what must not be is caught.

#![cfg(unix)]
// In a test's helpers a panic is the report.
#![allow(clippy::unwrap_used)]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig, params};
use steadfast_powerloss::{Entry, Image, Log, Loss, Recorder, Rng, runs, scratch};

const COMMITS: u32 = 120;

/// How a recorded run is set up.
#[derive(Clone, Copy)]
struct Setup {
    name: &'static str,
    journal: &'static str,
    synchronous: &'static str,
    drop_syncs: bool,
}

const WAL: Setup = Setup { name: "full", journal: "wal", synchronous: "full", drop_syncs: false };

/// What an image says.
#[derive(Debug, PartialEq)]
enum Verdict {
    Good,
    /// Commits that were acknowledged and are not there, and nothing else is wrong.
    Lost(Vec<u32>),
    /// The database makes no sense.
    Damaged(String),
}

/// The bytes of a row, so that a row with another's content is seen.
fn filler(seed: u64, commit: u32, half: u32) -> Vec<u8> {
    let mut rng = Rng::new(seed ^ u64::from(commit << 1 | half));
    let mut bytes = vec![0; rng.below(600)];
    rng.fill(&mut bytes);
    bytes
}

fn open(dir: &Path, vfs: &str) -> Connection {
    let db =
        Connection::open_with_flags_and_vfs(dir.join("db"), OpenFlags::default(), vfs).unwrap();
    // One thread does everything here: there is nothing to wait for.
    db.busy_timeout(Duration::ZERO).unwrap();
    db
}

/// Commits pairs of rows, each acknowledged with a mark, with everything in between that moves
/// pages: updates, deletions, spills of a tiny cache, checkpoints, a reader that holds one up, a
/// reopened database.
fn commits(dir: &Path, recorder: &Recorder, setup: Setup, seed: u64) -> Connection {
    recorder.drop_syncs(setup.drop_syncs);
    let connect = || {
        let db = open(dir, setup.name);
        db.execute_batch(&format!(
            "PRAGMA page_size = {}; PRAGMA journal_mode = {}; PRAGMA synchronous = {};
             PRAGMA cache_size = 8; PRAGMA wal_autocheckpoint = 40",
            [512, 1024, 4096][seed as usize % 3],
            setup.journal,
            setup.synchronous
        ))
        .unwrap();
        db
    };
    let mut rng = Rng::new(seed);
    let mut db = connect();
    db.execute_batch(
        "CREATE TABLE pair (n INTEGER, half INTEGER, bytes BLOB, PRIMARY KEY (n, half)) WITHOUT ROWID;
         CREATE TABLE churn (id INTEGER PRIMARY KEY, bytes BLOB, noise INTEGER);
         CREATE INDEX churn_noise ON churn (noise)",
    )
    .unwrap();
    recorder.mark("schema");
    let mut reader = None;
    for n in 0..COMMITS {
        let tx = db.transaction().unwrap();
        let insert = "INSERT INTO pair VALUES (?, ?, ?)";
        tx.execute(insert, params![n, 0, filler(seed, n, 0)]).unwrap();
        for _ in 0..if n % 10 == 0 { 40 } else { 2 } {
            let (id, noise) = (rng.below(200) as i64, rng.bits() as i64);
            tx.execute(
                "INSERT OR REPLACE INTO churn VALUES (?, zeroblob(?), ?)",
                params![id, rng.below(400) as i64, noise],
            )
            .unwrap();
        }
        tx.execute("DELETE FROM churn WHERE id = ?", [rng.below(200) as i64]).unwrap();
        tx.execute(insert, params![n, 1, filler(seed, n, 1)]).unwrap();
        tx.commit().unwrap();
        recorder.mark(n.to_string());
        if setup.journal == "wal" {
            match n {
                30 | 70 => {
                    let other = open(dir, setup.name);
                    other.execute_batch("BEGIN; SELECT count(*) FROM pair").unwrap();
                    reader = Some(other);
                }
                50 | 80 => reader = None,
                60 => {
                    let pragma = "PRAGMA wal_checkpoint(TRUNCATE)";
                    assert!(!db.query_row(pragma, [], |row| row.get::<_, bool>(0)).unwrap());
                }
                _ => {}
            }
        }
        if n == 100 {
            drop(reader.take());
            drop(db);
            db = connect();
        }
    }
    db
}

fn record(setup: Setup, seed: u64) -> Log {
    let dir = scratch().unwrap();
    let recorder = Recorder::register(setup.name).unwrap();
    let _open = commits(dir.path(), &recorder, setup, seed);
    recorder.log()
}

fn examine(image: &Image, seed: u64) -> Verdict {
    let dir = scratch().unwrap();
    image.write_to(dir.path()).unwrap();
    read(dir.path(), image, seed).unwrap_or_else(|error| Verdict::Damaged(error.to_string()))
}

fn read(dir: &Path, image: &Image, seed: u64) -> rusqlite::Result<Verdict> {
    let db = Connection::open(dir.join("db"))?;
    // Only to save time: nobody pulls the plug here.
    db.execute_batch("PRAGMA synchronous = off; PRAGMA mmap_size = 100000000")?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if integrity != "ok" {
        return Ok(Verdict::Damaged(integrity));
    }
    let schema = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let told = image.marks.iter().filter_map(|mark| mark.parse().ok()).max();
    let mut there = 0;
    match schema {
        0 if image.marks.is_empty() => return Ok(Verdict::Good),
        0 => {}
        _ => {
            let mut rows = db.prepare("SELECT n, half, bytes FROM pair ORDER BY n, half")?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                let (n, half): (u32, u32) = (row.get(0)?, row.get(1)?);
                if (n, half) != (there / 2, there % 2) {
                    return Ok(Verdict::Damaged(format!("row {n}.{half} in place {there}")));
                }
                if row.get::<_, Vec<u8>>(2)? != filler(seed, n, half) {
                    return Ok(Verdict::Damaged(format!("row {n}.{half} has other bytes")));
                }
                there += 1;
            }
        }
    }
    if there % 2 == 1 {
        return Ok(Verdict::Damaged(format!("half of commit {} is there", there / 2)));
    }
    let lost: Vec<u32> = (there / 2..told.map_or(0, |last: u32| last + 1)).collect();
    let schema_lost = schema < 3 && !image.marks.is_empty();
    Ok(if lost.is_empty() && !schema_lost { Verdict::Good } else { Verdict::Lost(lost) })
}

/// A failure that a person can look into.
fn report(image: &Image, seed: u64, verdict: &Verdict) -> String {
    let kept: PathBuf = image.keep().unwrap();
    format!(
        "{verdict:?}: run {seed}, images {}, cut {}, loss {:?}; kept in {}",
        image.seed,
        image.cut,
        image.loss,
        kept.display()
    )
}

/// Nothing at all is lost in any image.
fn survives(setup: Setup, seeds: u64, images: usize) {
    for seed in runs(seeds) {
        let log = record(setup, seed);
        for image in log.images(seed, images) {
            let verdict = examine(&image, seed);
            assert!(verdict == Verdict::Good, "{}", report(&image, seed, &verdict));
        }
    }
}

#[test]
fn wal_with_full_loses_no_acknowledged_commit() {
    survives(WAL, 6, 500);
}

#[test]
fn a_rollback_journal_with_extra_loses_no_acknowledged_commit() {
    let setup = Setup { name: "extra", journal: "delete", synchronous: "extra", ..WAL };
    survives(setup, 3, 300);
}

#[test]
fn wal_with_normal_loses_acknowledged_commits_and_nothing_else() {
    let setup = Setup { name: "normal", synchronous: "normal", ..WAL };
    let mut losses = 0;
    for seed in runs(3) {
        let log = record(setup, seed);
        for image in log.images(seed, 300) {
            let verdict = examine(&image, seed);
            assert!(!matches!(verdict, Verdict::Damaged(_)), "{}", report(&image, seed, &verdict));
            losses += usize::from(verdict != Verdict::Good);
            // A process that dies loses nothing even so.
            assert!(image.loss != Loss::Nothing || verdict == Verdict::Good);
        }
    }
    assert!(losses > 0, "the harness does not see what NORMAL loses");
}

#[test]
fn a_disk_that_drops_flushes_is_caught() {
    let setup = Setup { name: "dropped", drop_syncs: true, ..WAL };
    let log = record(setup, 0);
    let (mut bad, mut killed) = (0, 0);
    for image in log.images(0, 100) {
        let verdict = examine(&image, 0);
        let died = image.loss == Loss::Nothing;
        killed += usize::from(died);
        assert!(!died || verdict == Verdict::Good, "{}", report(&image, 0, &verdict));
        bad += usize::from(verdict != Verdict::Good);
    }
    assert!(bad > 0 && killed > 0, "{bad} bad, {killed} without loss");
}

/// The flushes of one file, or of the directory, taken out of a good log.
fn without(log: &Log, suffix: Option<&str>) -> Log {
    let mut log = log.clone();
    let mut nodes = Vec::new();
    log.entries.retain(|entry| match entry {
        Entry::Create(node, path) => {
            let name = path.file_name().unwrap().to_string_lossy();
            if suffix.is_some_and(|suffix| name == format!("db{suffix}")) {
                nodes.push(*node);
            }
            true
        }
        Entry::Sync(node) => !nodes.contains(node),
        Entry::SyncDir(_) => suffix.is_some(),
        _ => true,
    });
    log
}

#[test]
fn flushes_missing_for_one_file_or_the_directory_are_caught() {
    let wal = record(Setup { name: "one-file", ..WAL }, 1);
    let extra = Setup { name: "one-file", journal: "delete", synchronous: "extra", ..WAL };
    let rollback = record(extra, 1);
    for (what, log) in [
        ("the WAL", without(&wal, Some("-wal"))),
        ("the main file", without(&wal, Some(""))),
        ("the directory", without(&wal, None)),
        ("the main file under a journal", without(&rollback, Some(""))),
        ("the journal", without(&rollback, Some("-journal"))),
        ("the journal's directory", without(&rollback, None)),
    ] {
        let bad = log.images(1, 60).filter(|image| examine(image, 1) != Verdict::Good).count();
        assert!(bad > 0, "flushes of {what} can be left out and nobody notices");
    }
}

#[test]
fn the_log_holds_all_that_reached_the_files() {
    for (seed, setup) in [(1, WAL), (2, Setup { journal: "delete", ..WAL })] {
        let setup = Setup { name: "complete", ..setup };
        let dir = scratch().unwrap();
        let recorder = Recorder::register(setup.name).unwrap();
        let _open = commits(dir.path(), &recorder, setup, seed);
        let log = recorder.log();
        let image = log.image(log.entries.len(), Loss::Nothing, 0);
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path().canonicalize().unwrap();
            if path.extension().is_none() && !path.ends_with("db-shm") {
                files.push(path);
            }
        }
        files.sort();
        assert_eq!(files, image.files.keys().cloned().collect::<Vec<_>>());
        for (path, bytes) in &image.files {
            assert!(std::fs::read(path).unwrap() == *bytes, "{} differs", path.display());
        }
    }
}
