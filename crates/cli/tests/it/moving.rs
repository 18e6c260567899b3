//! `steadfast export`, `import` and `reopen`, with real stores of both kinds.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use steadfast_core::{Status, TaskId, Timestamp};
use steadfast_postgres::testing;
use steadfast_store::{Caller, NewTask, Store};

fn steadfast(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    for name in ["STEADFAST_STORE", "STEADFAST_STORE_SCHEMA", "STEADFAST_STORE_PASSWORD_FILE"] {
        command.env_remove(name);
    }
    command.args(words);
    command
}

/// What it said on standard output, or on standard error with its exit code.
fn run(words: &[&str]) -> Result<String, (i32, String)> {
    said(&steadfast(words).output().unwrap())
}

fn said(output: &Output) -> Result<String, (i32, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err((output.status.code().unwrap(), text(&output.stderr))),
    }
}

fn refused(words: &[&str]) -> String {
    match run(words) {
        Err((2, error)) => error,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn task(name: &str) -> NewTask {
    NewTask {
        id: TaskId::new(name).unwrap(),
        tool: "tool".into(),
        version: Some(1),
        owner: None,
        tags: Default::default(),
        parent: None,
        dedup: None,
        bound: false,
        status: Status::Running,
        created: Timestamp(1),
        wake: None,
        expires: None,
        hold: true,
        about: b"{}".to_vec(),
        view: b"{}".to_vec(),
        events: vec![b"{}".to_vec()],
    }
}

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A store with two tasks of a process that has died.
    async fn filled(&self, name: &str) -> String {
        let store = steadfast_sqlite::Store::open(self.path(name)).unwrap();
        for id in ["one", "two"] {
            store.start(task(id)).await.unwrap();
        }
        store.kill();
        self.name(name)
    }
}

async fn tasks_in(store: &dyn Store) -> u64 {
    let caller = Caller { principal: None, now: Timestamp(0) };
    store.counts(caller).await.unwrap().values().sum()
}

fn digest(said: &str) -> &str {
    said.lines().find_map(|line| line.strip_prefix("digest ")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_moved_to_postgresql_and_back_by_count_and_digest() {
    let bench = Bench::new();
    let (old, file, back) = (bench.filled("old.db").await, bench.name("file"), bench.name("back"));
    let said = run(&["export", "--store", &old, &file]).unwrap();
    assert!(said.starts_with(&format!("exported 2 tasks, 2 events to {file}\n")), "{said}");
    assert!(said.contains("The store is closed"), "{said}");
    assert!(!bench.path("file.partial").exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it is for its owner alone");
    }
    let refuses = steadfast_sqlite::Store::open(&old).unwrap_err().to_string();
    assert!(refuses.contains(&format!("exported to {file} at ")), "{refuses}");
    assert!(refuses.contains(&format!("steadfast reopen --store {old}")), "{refuses}");

    let server = testing::shared().unwrap();
    let url = server.url();
    let place = ["--store", url.as_str(), "--store-schema", "moved"];
    let with =
        |command: &str, more: &str| run(&[&[command], &place[..], &[more]].concat()).unwrap();
    let imported = with("import", &file);
    assert!(imported.starts_with("imported 2 tasks, 2 events\n"), "{imported}");
    assert!(imported.contains("read back from the store"), "{imported}");
    assert_eq!(digest(&imported), digest(&said));
    let options = server.options().schema("moved");
    let store = options.clone().open().await.unwrap();
    assert_eq!(tasks_in(&store).await, 2);
    store.close().await.unwrap();
    drop(store);

    let exported = with("export", &back);
    assert_eq!(digest(&exported), digest(&said));
    let refuses = options.open().await.unwrap_err().to_string();
    assert!(refuses.contains(&format!("exported to {back} at ")), "{refuses}");
    let new = bench.name("new.db");
    assert_eq!(digest(&run(&["import", "--store", &new, &back]).unwrap()), digest(&said));
    let store = steadfast_sqlite::Store::open(&new).unwrap();
    assert_eq!(tasks_in(&store).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_way_of_standard_streams_no_file_is_needed() {
    let bench = Bench::new();
    let (old, new) = (bench.filled("old.db").await, bench.name("new.db"));
    let mut export =
        steadfast(&["export", "--store", &old, "-"]).stdout(Stdio::piped()).spawn().unwrap();
    let piped = export.stdout.take().unwrap();
    let import = steadfast(&["import", "--store", &new, "-"]).stdin(piped).output().unwrap();
    assert!(export.wait().unwrap().success());
    assert!(said(&import).unwrap().starts_with("imported 2 tasks"), "{import:?}");
    assert!(steadfast_sqlite::Store::open(&old).is_err());
    let store = steadfast_sqlite::Store::open(&new).unwrap();
    assert_eq!(tasks_in(&store).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_use_is_exported_as_a_backup_alone() {
    let bench = Bench::new();
    let (old, file) = (bench.name("old.db"), bench.name("file"));
    let store = steadfast_sqlite::Store::open(&old).unwrap();
    store.start(task("one")).await.unwrap();
    let error = refused(&["export", "--store", &old, &file]);
    assert!(error.contains("is in use by a process: stop it first"), "{error}");
    assert!(error.contains("--backup"), "{error}");
    assert_eq!(left(bench.dir.path()), ["old.db"]);
    let said = run(&["export", "--store", &old, "--backup", &file]).unwrap();
    assert!(said.ends_with("The store is as it was.\n"), "{said}");
    store.start(task("two")).await.unwrap();
    steadfast_sqlite::Store::open(&old).unwrap();
}

/// The files in a directory, but for those that SQLite and its handles make beside their own.
fn left(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_str().unwrap().to_owned());
    let mut names: Vec<String> = names
        .filter(|n| !n.ends_with("-wal") && !n.ends_with("-shm") && !n.ends_with(".desks"))
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_imported_is_refused_and_leaves_nothing() {
    let bench = Bench::new();
    let (old, file, new) = (bench.filled("old.db").await, bench.name("file"), bench.name("new.db"));
    run(&["export", "--store", &old, &file]).unwrap();
    let whole = std::fs::read_to_string(&file).unwrap();
    let other = bench.name("other");
    let cut = &whole[..whole.len() - 200];
    for (content, why) in [
        (cut.to_owned(), "the file is cut off"),
        (whole.replace("\"two\"", "\"owt\""), "the file is not as it was written"),
        (whole.replace("\"format\":1", "\"format\":2"), "upgrade this program"),
        ("something else".to_owned(), "no file of `steadfast export`"),
        (whole.replacen("\"epoch\"", "\"epic\"", 1), "line 2 of the file makes no sense"),
    ] {
        std::fs::write(&other, content).unwrap();
        let error = refused(&["import", "--store", &new, &other]);
        assert!(error.starts_with("steadfast: ") && error.contains(why), "{error}");
        assert_eq!(left(bench.dir.path()), ["file", "old.db", "other"], "{why}");
    }
    run(&["import", "--store", &new, &file]).unwrap();
    let error = refused(&["import", "--store", &new, &file]);
    assert!(error.contains("is not empty: there are rows in its table task"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_can_be_taken_back() {
    let bench = Bench::new();
    let (old, file) = (bench.filled("old.db").await, bench.name("file"));
    run(&["export", "--store", &old, &file]).unwrap();
    assert!(refused(&["export", "--store", &old, &file]).contains("it is there already"));
    let reopen = || steadfast(&["reopen", "--store", &old]).output().unwrap();
    let again = String::from_utf8(reopen().stderr).unwrap();
    assert_eq!(again, "servers can open the store again\n");
    assert_eq!(String::from_utf8(reopen().stderr).unwrap(), "the store was not closed\n");
    let store = steadfast_sqlite::Store::open(&old).unwrap();
    assert_eq!(tasks_in(&store).await, 2);
}

#[test]
fn places_that_are_none_are_refused() {
    let bench = Bench::new();
    let (none, file) = (bench.name("none.db"), bench.name("file"));
    for (words, why) in [
        (vec!["export", "--store", &none, &file], "there is no file"),
        (vec!["reopen", "--store", &none], "there is no file"),
        (vec!["export", "--store", "memory:", &file], "dies with its process"),
        (vec!["export", "--store", &none, "--store-schema", "x", &file], "is for PostgreSQL"),
        (vec!["import", "--store", &none, &file], "can't read"),
        (
            vec!["export", "--store", "postgres://ada:secret@127.0.0.1:1/none", &file],
            "can't connect",
        ),
    ] {
        let error = refused(&words);
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
        assert!(left(bench.dir.path()).is_empty(), "{why}");
    }
    let url = testing::shared().unwrap().url();
    let error = refused(&["export", "--store", &url, "--store-schema", "nowhere", &file]);
    assert!(error.contains("there is no schema nowhere"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_names_the_tables_that_it_does_not_have() {
    let bench = Bench::new();
    let (old, file) = (bench.filled("old.db").await, bench.name("file"));
    let of_author = steadfast_sqlite::rusqlite::Connection::open(&old).unwrap();
    let export = |more: &[&str]| run(&[&["export", "--store", &old, &file], more].concat());
    let make = |sql: &str| of_author.execute_batch(sql).unwrap();
    make("CREATE TABLE payment (id INTEGER PRIMARY KEY AUTOINCREMENT, cents INTEGER)");
    let said = export(&["--backup"]).unwrap();
    assert!(said.ends_with("\n1 table that is not Steadfast's stays behind: payment\n"), "{said}");
    std::fs::remove_file(&file).unwrap();
    // The store can't be closed, and stays as it is.
    make("CREATE TABLE Moved (id)");
    let says = refused(&["export", "--store", &old, &file]);
    assert!(says.contains("a table of yours with the name \"moved\""), "{says}");
    drop(steadfast_sqlite::Store::open(&old).unwrap());
    make("ALTER TABLE Moved RENAME TO book");
    let said = export(&[]).unwrap();
    let left = "2 tables that are not Steadfast's stay behind: book, payment";
    assert!(said.contains("The store is closed") && said.contains(left), "{said}");
    // Also of a file that is closed already.
    std::fs::remove_file(&file).unwrap();
    assert!(export(&[]).unwrap().contains(left));
    for n in 0..20 {
        make(&format!("CREATE TABLE many_{n:02} (id)"));
    }
    std::fs::remove_file(&file).unwrap();
    let said = export(&[]).unwrap();
    assert!(said.contains("22 tables") && said.ends_with("many_18 and 2 more\n"), "{said}");
}
