//! Passwords of the database, and all that a server says.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::json;
use steadfast_postgres::testing::{self, Server, Setup};

use crate::client::Client;

/// A server that logs everything, and all that it has said.
struct Talker {
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Talker {
    fn start(dir: &tempfile::TempDir, more: impl FnOnce(&mut Command)) -> Talker {
        let mut command = Command::new(env!("CARGO_BIN_EXE_survive-server"));
        command.args(["--listen", "127.0.0.1:0", "--log", "trace", "--drain-seconds", "1"]);
        command.arg("--dir").arg(dir.path()).current_dir(dir.path()).env("HOME", dir.path());
        for name in ["PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT"] {
            command.env_remove(name);
        }
        more(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let keep = |from: Box<dyn Read + Send>| {
            let said = said.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(from).lines() {
                    *said.lock().unwrap() += &format!("{}\n", line.unwrap());
                }
            })
        };
        let readers = vec![
            keep(Box::new(child.stdout.take().unwrap())),
            keep(Box::new(child.stderr.take().unwrap())),
        ];
        Talker { child, said, readers }
    }

    /// Waits until it has said this, and gives what follows it in the line.
    fn until(&self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let said = self.said.lock().unwrap().clone();
            if let Some((_, rest)) = said.split_once(words)
                && let Some((rest, _)) = rest.split_once('\n')
            {
                return rest.to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not say {words}:\n{said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// All that it has said until its end.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        (status, std::mem::take(&mut *self.said.lock().unwrap()))
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn sql(server: &Server, text: &str) {
    testing::sql(&server.options(), text).await.unwrap();
}

/// From each place where a password can be, to a server that uses all its connections, loses them, and is
/// not let in again.
#[tokio::test(flavor = "multi_thread")]
async fn no_password_is_said_wherever_it_comes_from() {
    let server = Setup::default().start().unwrap();
    sql(&server, "CREATE ROLE ann LOGIN SUPERUSER").await;
    server.rules("host all steadfast all trust\nhost all ann all scram-sha-256\n").unwrap();
    let port = server.port();
    let url = |user: &str| format!("postgres://{user}@127.0.0.1:{port}/postgres?sslmode=disable");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    type Way<'w> = Box<dyn Fn(&mut Command, &str) + 'w>;
    let ways: [(&str, Way<'_>); 4] = [
        (
            "an address",
            Box::new(|command, password| {
                command.args(["--store", &url(&format!("ann:{password}"))]);
            }),
        ),
        (
            "words",
            Box::new(|command, password| {
                let words = format!("port={port} user=ann password='{password}' dbname=postgres");
                command.args(["--store", &format!("host=127.0.0.1 sslmode=disable {words}")]);
            }),
        ),
        (
            "PGPASSWORD",
            Box::new(|command, password| {
                command.args(["--store", &url("ann")]).env("PGPASSWORD", password);
            }),
        ),
        (
            "a file",
            Box::new(|command, password| {
                std::fs::write(&file, password).unwrap();
                command.args(["--store", &url("ann"), "--store-password-file"]).arg(&file);
            }),
        ),
    ];
    for (way, give) in ways {
        sql(&server, "ALTER ROLE ann PASSWORD 'whisper-right'").await;
        let (status, refused) = Talker::start(&dir, |command| give(command, "whisper-wrong")).end();
        assert!(!status.success() && refused.contains("authentication failed"), "{way}: {refused}");
        assert!(!refused.contains("whisper"), "{way}: {refused}");

        let mut talker = Talker::start(&dir, |command| give(command, "whisper-right"));
        let address = talker.until("listens on http://");
        let address = address.trim_end_matches("/mcp").parse().unwrap();
        let place = talker.until("its tasks are in ");
        assert_eq!(
            place,
            format!("PostgreSQL at 127.0.0.1:{port}/postgres, in the schema steadfast")
        );
        let client = Client::connect(address, "2025-11-25");
        for id in 0..8 {
            client.call(address, json!(id), "nap", json!({ "seconds": 0 })).last();
        }
        sql(&server, "ALTER ROLE ann PASSWORD 'whisper-other'").await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'";
        sql(&server, cut).await;
        talker.until("authentication failed");
        talker.child.kill().unwrap();
        let (_, said) = talker.end();
        assert!(said.contains("DEBUG") && said.contains("steadfast::lease"), "{way}: {said}");
        let told = said.lines().find(|line| line.contains("whisper"));
        assert_eq!(told, None, "{way}");
    }
    let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.contains("whisper")), "{names:?}");
}
