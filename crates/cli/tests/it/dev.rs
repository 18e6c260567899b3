//! `steadfast dev`, on projects that have no dependencies, so that they build in a moment.

use std::path::{Path, PathBuf};

use crate::{
    process::Program,
    server::{FLAGS, ROLE, Server, until},
};

/// A server that writes down that it runs, and with what.
fn source(version: &str) -> String {
    format!(
        r#"fn main() {{
            let words: Vec<String> = std::env::args().skip(1).collect();
            let text = format!("{version} {{}} {{}}", words[1], std::process::id());
            std::fs::write(&words[0], text).unwrap();
            loop {{ std::thread::park() }}
        }}"#
    )
}

struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    fn new() -> Project {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        let manifest =
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
        let project = Project { dir };
        project.write(&source("one"));
        project
    }

    fn write(&self, text: &str) {
        std::fs::write(self.dir.path().join("src/main.rs"), text).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn start(&self) -> Program {
        let state = self.state();
        let words = ["dev", "--grace", "5", "--", state.to_str().unwrap(), "an argument"];
        Program::with(&words, |command| {
            command.current_dir(self.dir.path());
            command.env("CARGO_TARGET_DIR", self.dir.path().join("target"));
        })
    }

    /// Waits until this version runs, and returns its process.
    fn until(&self, version: &str) -> String {
        let mut process = String::new();
        until(&format!("{version} runs"), || {
            let text = std::fs::read_to_string(self.state()).unwrap_or_default();
            let prefix = format!("{version} an argument ");
            process = text.strip_prefix(&prefix).unwrap_or_default().to_owned();
            !process.is_empty()
        });
        process
    }
}

fn is_running(process: &str) -> bool {
    // A process that nobody has waited for is over as well.
    let stat = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_change_is_built_and_the_server_restarted_and_what_does_not_build_leaves_it_running() {
    let project = Project::new();
    let program = project.start();
    let one = project.until("one");
    project.write("fn main() { nonsense }");
    program.until_said("the server that runs stays");
    program.until_said("error[E0425]");
    assert!(is_running(&one));
    project.write(&source("two"));
    let two = project.until("two");
    assert!(!is_running(&one), "the old one is gone before the new one comes");
    program.signal("TERM");
    let ended = program.end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(!is_running(&two), "it leaves nothing behind");
}

/// A program that says which build it is, and then becomes the server of these tests: to build a server
/// with all that it depends on would take minutes, and what is rebuilt and restarted is the same to
/// `steadfast dev` and to the clients.
fn becomes_a_server(build: &str, effects: &Path) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        r#"use std::{{fs::OpenOptions, io::Write, os::unix::process::CommandExt, process::Command}};
        fn main() {{
            let mut file = OpenOptions::new().create(true).append(true).open({effects:?}).unwrap();
            file.write_all(b"{build}\n").unwrap();
            let failed = Command::new({program:?}).args({ROLE:?}).exec();
            panic!("{{failed}}");
        }}"#
    )
}

#[test]
fn a_call_of_a_connected_client_survives_the_rebuild_and_the_restart() {
    let mut home = Server::down();
    home.flag("--drain-seconds=1");
    let effects = home.dir().join("effects");
    let project = Project::new();
    project.write(&becomes_a_server("build one", &effects));
    let program = Program::with(&["dev", "--grace", "5"], |command| {
        command.current_dir(project.dir.path()).env(FLAGS, home.flags());
        command.env("CARGO_TARGET_DIR", project.dir.path().join("target"));
    });
    let url = home.url();
    // Both wait until there is a server at all.
    let session =
        ["call", &url, "work", "--arg", "number=7", "--plain", "--revision", "2025-11-25"];
    let session = Program::start(&session);
    let keyed = ["call", &url, "work", "--arg", "number=8", "--plain", "--key", "k"];
    let keyed = Program::start(&keyed);
    home.until("second", 2);
    project.write(&becomes_a_server("build two", &effects));
    // What they were at goes on in the new server.
    home.until("second", 4);
    home.open("second");
    for (client, number) in [(session, "7"), (keyed, "8")] {
        let ended = client.end();
        assert_eq!((ended.code(), ended.out.trim()), (0, number), "{ended:?}");
    }
    program.signal("TERM");
    assert_eq!(program.end().code(), 0);
    let counts = ["build one", "build two", "first", "last"].map(|effect| home.count(effect));
    assert_eq!(counts, [1, 1, 2, 2]);
}

#[test]
fn a_server_that_ends_by_itself_is_run_again_after_a_change() {
    let project = Project::new();
    project.write("fn main() { std::process::exit(3) }");
    let program = project.start();
    program.until_said("the server has ended (exit status: 3)");
    project.write(&source("one"));
    project.until("one");
    program.signal("INT");
    assert_eq!(program.end().code(), 0);
}
