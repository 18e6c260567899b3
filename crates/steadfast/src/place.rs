//! Where tasks are kept: a SQLite file, PostgreSQL, or memory.

use std::{path::PathBuf, sync::Arc, time::Duration};

use steadfast_engine::{Error, Result};
use steadfast_store::Store;

use crate::{Durability, Flags, Options, postgres};

/// The store, and where it is in words.
pub(crate) async fn open(server: &str, flags: &Flags) -> Result<(Arc<dyn Store>, String)> {
    let path = match flags.store.as_deref() {
        Some("memory:") => {
            only_of_postgres(flags)?;
            return Ok((crate::memory(), "memory, and die with the process".into()));
        }
        Some(address) if postgres::Options::is_address(address) => {
            return open_postgres(address, flags).await;
        }
        Some(path) => PathBuf::from(path.strip_prefix("sqlite:").unwrap_or(path)),
        None => {
            let directory = data_directory()?.join("steadfast");
            std::fs::create_dir_all(&directory)?;
            directory.join(format!("{}.db", file_name(server)))
        }
    };
    only_of_postgres(flags)?;
    let durability = match flags.process_crash_only {
        true => Durability::ProcessCrashOnly,
        false => Durability::Full,
    };
    let store = Options::new(&path).durability(durability).open()?;
    Ok((Arc::new(store), path.display().to_string()))
}

/// The store that flags name, without the password that an address may have.
pub(crate) fn shown(store: &str) -> String {
    match postgres::Options::is_address(store) {
        true => format!("PostgreSQL at {}", postgres::Options::new(store).place()),
        false => store.into(),
    }
}

async fn open_postgres(address: &str, flags: &Flags) -> Result<(Arc<dyn Store>, String)> {
    if flags.process_crash_only {
        let message = "--process-crash-only is for SQLite; PostgreSQL has synchronous_commit";
        return Err(Error::new(message));
    }
    let mut options = postgres::Options::new(address).migrate_on_open(!flags.store_no_migrate);
    if let Some(file) = &flags.store_password_file {
        options = options.password_file(file);
    }
    let schema = flags.store_schema.as_deref().unwrap_or("steadfast");
    options = options.schema(schema);
    if let Some(seconds) = flags.store_lease_seconds {
        options = options.lease(Duration::from_secs(seconds));
    }
    if let Some(most) = flags.store_transactions {
        options = options.transactions(most);
    }
    let store = options.open().await?;
    Ok((Arc::new(store), format!("{}, in the schema {schema}", shown(address))))
}

/// Refuses flags that would do nothing.
fn only_of_postgres(flags: &Flags) -> Result<()> {
    let given = [
        (flags.store_password_file.is_some(), "--store-password-file"),
        (flags.store_schema.is_some(), "--store-schema"),
        (flags.store_lease_seconds.is_some(), "--store-lease-seconds"),
        (flags.store_transactions.is_some(), "--store-transactions"),
        (flags.store_no_migrate, "--store-no-migrate"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) => {
            let message =
                format!("{flag} is for PostgreSQL: give --store postgres://user@host/database");
            Err(Error::new(message))
        }
        None => Ok(()),
    }
}

/// Where programs keep their data: the same wherever the process is started from, because clients
/// start stdio servers from anywhere.
fn data_directory() -> Result<PathBuf> {
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let found = match std::env::consts::OS {
        "windows" => set("LOCALAPPDATA"),
        "macos" => home().map(|home| home.join("Library/Application Support")),
        _ => set("XDG_DATA_HOME").or_else(|| home().map(|home| home.join(".local/share"))),
    };
    found.ok_or_else(|| Error::new("there is no home directory to keep tasks in: give --store"))
}

fn file_name(server: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = server.chars().map(plain).take(100).collect();
    if name.trim_matches('.').is_empty() { "server".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_always_a_file_name() {
        assert_eq!(file_name("orders"), "orders");
        assert_eq!(file_name("../../etc/passwd"), ".._.._etc_passwd");
        assert_eq!(file_name(".."), "server");
        assert_eq!(file_name(""), "server");
    }

    async fn refused(flags: Flags) -> String {
        match open("orders", &flags).await {
            Ok((_, place)) => panic!("{place} was opened"),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn what_is_for_one_store_is_refused_for_another() {
        let store = Some("memory:".to_owned());
        let flags = Flags { store, store_schema: Some("own".into()), ..Flags::default() };
        assert!(refused(flags).await.starts_with("--store-schema is for PostgreSQL"));
        let store = Some("memory:".to_owned());
        let flags = Flags { store, store_transactions: Some(9), ..Flags::default() };
        assert!(refused(flags).await.starts_with("--store-transactions is for PostgreSQL"));
        let store = Some("postgres://nobody@127.0.0.1:1/none".to_owned());
        let flags = Flags { store, process_crash_only: true, ..Flags::default() };
        assert!(refused(flags).await.starts_with("--process-crash-only is for SQLite"));
    }

    #[tokio::test]
    async fn a_database_that_is_not_there_is_an_error_without_the_password() {
        for store in [
            "postgres://ada:secret@127.0.0.1:1/none",
            "host=127.0.0.1 port=1 user=ada password=secret dbname=none",
            "password = 'secret' host=127.0.0.1 port=1",
        ] {
            let store = Some(store.to_owned());
            let error = refused(Flags { store, ..Flags::default() }).await;
            assert!(
                error.contains("can't connect to PostgreSQL") && !error.contains("secret"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_neither_path_nor_address_is_refused_and_not_said() {
        for store in ["mysql://ada:secret@db/d", "jdbc:postgresql://db/d?password=secret"] {
            let store = Some(store.to_owned());
            let error = refused(Flags { store, ..Flags::default() }).await;
            assert!(error.contains("postgres://user@host") && !error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_path_may_look_like_an_address_if_it_says_that_it_is_one() {
        let dir = tempfile::tempdir().unwrap();
        for prefix in ["sqlite:", "sqlite://", ""] {
            let path = format!("{}/host={}.db", dir.path().display(), prefix.len());
            let flags = Flags { store: Some(format!("{prefix}{path}")), ..Flags::default() };
            let (_, place) = open("orders", &flags).await.unwrap();
            assert!(place.ends_with(&path) && std::fs::exists(&path).unwrap(), "{place}");
        }
    }

    #[test]
    fn flags_are_shown_without_a_password() {
        for (store, place) in [
            ("postgres://ada:secret@db:1/d", "PostgreSQL at db:1/d"),
            ("host=db user=ada password=secret dbname=d", "PostgreSQL at db/d"),
            ("password=secret nonsense", "PostgreSQL at ?"),
            ("mysql://ada:secret@db/d", "PostgreSQL at ?"),
            ("orders.db", "orders.db"),
        ] {
            let flags = Flags { store: Some(store.into()), sse: true, ..Flags::default() };
            let debug = format!("{flags:?} {flags:#?}");
            assert!(debug.contains(place) && !debug.contains("secret"), "{debug}");
            assert!(debug.contains("sse: true"), "{debug}");
        }
    }
}
