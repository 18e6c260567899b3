//! What must not be moved, and that nothing is left of an attempt.

use std::time::Duration;

use steadfast_core::{Status, Timestamp};
use steadfast_store::{
    After, Caller, NewTask, Started, Store, Turn,
    moving::{Error, Kind as Of, Purpose},
};

use crate::{
    home::{Home, Kind, move_away},
    seen::id,
};

const KINDS: [Kind; 2] = [Kind::Sqlite, Kind::Postgres];

fn task(name: &str) -> NewTask {
    NewTask {
        id: id(name),
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

async fn held(store: &dyn Store, name: &str) -> steadfast_store::Lease {
    match store.start(task(name)).await.unwrap() {
        Started::New { lease: Some(lease), .. } => lease,
        other => panic!("{other:?}"),
    }
}

/// A store with a task that nobody has in hand, and its file.
async fn exported(kind: Kind) -> (Home, Vec<u8>) {
    let home = Home::new(kind);
    let handle = home.open().await;
    held(&*handle.store, "a").await;
    held(&*handle.store, "b").await;
    handle.kill();
    home.leases_run_out().await;
    let file = home.export(&move_away()).await.unwrap();
    (home, file)
}

async fn is_empty(home: &Home) -> bool {
    let handle = home.open().await;
    let now = Timestamp(0);
    let counts = handle.store.counts(Caller { principal: None, now }).await.unwrap();
    handle.store.close().await.unwrap();
    drop(handle);
    home.leases_run_out().await;
    counts.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_a_process_has_open_is_exported_as_a_backup_alone() {
    for kind in KINDS {
        let home = Home::new(kind);
        let handle = home.open().await;
        let lease = held(&*handle.store, "a").await;
        let error = home.export(&move_away()).await.unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        assert!(error.to_string().contains("stop it first"), "{error}");
        // It was not closed for nothing.
        let other = home.open().await;
        other.store.close().await.unwrap();
        drop(other);
        let file = home.export(&Purpose::Backup).await.unwrap();
        // Who has the task goes on with it.
        let turn = Turn {
            lease,
            at: Timestamp(2),
            first: 1,
            events: vec![b"{}".to_vec()],
            restart: false,
            consumed: None,
            view: None,
            progress: true,
            effects: Vec::new(),
            after: After::Keep,
        };
        handle.store.turn(turn).await.unwrap();
        // In the copy it lies on the ready pile, and nobody has died with it.
        let copy = Home::new(Kind::Sqlite);
        let tally = copy.import(&file).await.unwrap();
        assert_eq!((tally.count(Of::Task), tally.count(Of::Event)), (1, 1));
        let copy = copy.open().await;
        let row = copy.store.row(lease.key).await.unwrap().unwrap();
        assert_eq!((row.desk, row.epoch, row.deaths), (None, lease.epoch + 1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_moved_can_not_be_opened_until_that_is_taken_back() {
    for kind in KINDS {
        let (home, file) = exported(kind).await;
        for _ in 0..2 {
            let refused = home.try_open().await.err().unwrap();
            assert!(refused.contains("exported to a file at 20"), "{refused}");
            assert!(refused.contains("steadfast reopen"), "{refused}");
        }
        // It can be exported again, as after a death in the middle.
        let again = home.export(&move_away()).await.unwrap();
        assert_eq!(again, file);
        assert!(home.try_open().await.is_err(), "{kind:?}");
        assert!(home.reopen().await && !home.reopen().await, "{kind:?}");
        let handle = home.open().await;
        let dead = handle.store.dead().await.unwrap();
        assert_eq!(dead.len(), 1, "what lay on the desk still does");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_fails_leaves_the_store_open() {
    for kind in KINDS {
        let home = Home::new(kind);
        let handle = home.open().await;
        held(&*handle.store, "a").await;
        handle.kill();
        home.leases_run_out().await;
        let mut sink = |_| Err(Error::File(std::io::Error::other("the disk is full")));
        let failed = match &home {
            Home::Sqlite { options, .. } => options.export(&move_away(), &mut sink),
            Home::Postgres { options } => options.export(&move_away(), &mut sink).await,
        };
        assert!(failed.unwrap_err().to_string().contains("the disk is full"));
        home.open().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_imported_from_a_file_that_is_not_whole() {
    for kind in KINDS {
        let (_, file) = exported(Kind::Sqlite).await;
        let text = String::from_utf8(file.clone()).unwrap();
        let home = Home::new(kind);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        assert!(lines.len() > 5, "{text}");
        for length in [1, 2, lines.len() - 1] {
            let cut = lines[..length].concat();
            let error = home.import(cut.as_bytes()).await.unwrap_err();
            assert!(matches!(error, Error::CutOff { .. }), "{error}");
        }
        let altered = text.replacen("\"tool\":\"tool\"", "\"tool\":\"fool\"", 1);
        let error = home.import(altered.as_bytes()).await.unwrap_err();
        assert!(matches!(error, Error::Altered { .. }), "{error}");
        if let Home::Sqlite { _dir, .. } = &home {
            assert_eq!(std::fs::read_dir(_dir.path()).unwrap().count(), 0, "a file is left");
        }
        assert!(is_empty(&home).await, "{kind:?}");
        // And then the whole one goes in.
        home.import(&file).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_imported_into_a_store_that_has_something_or_is_in_use() {
    for kind in KINDS {
        let (old, file) = exported(kind).await;
        let error = old.import(&file).await.unwrap_err();
        assert!(error.to_string().contains("exported to a file"), "{error}");
        let home = Home::new(kind);
        home.import(&file).await.unwrap();
        let error = home.import(&file).await.unwrap_err();
        assert!(matches!(&error, Error::NotEmpty { table, .. } if table == "task"), "{error}");
        let home = Home::new(kind);
        let _handle = home.open().await;
        let error = home.import(&file).await.unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
    }
}

/// It was stopped for longer than its lease, nobody saw it, and its tasks are elsewhere now.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_comes_back_to_a_store_that_was_moved_can_do_nothing() {
    let home = Home::new(Kind::Postgres);
    let Home::Postgres { options } = &home else { unreachable!() };
    let handle = home.open().await;
    held(&*handle.store, "a").await;
    let before = handle.store.desk();
    // Its heart beats every two seconds: so the export comes before the next.
    home.leases_run_out().await;
    home.export(&move_away()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), async {
        let error = handle.store.start(task("b")).await.unwrap_err().to_string();
        assert!(error.contains("exported to a file"), "{error}");
    })
    .await
    .expect("it hangs");
    assert_eq!(handle.store.desk(), before, "it has no other desk");
    // And when it is open again it goes on by itself.
    options.reopen().await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), async {
        while handle.store.start(task("b")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("it does not go on");
}
