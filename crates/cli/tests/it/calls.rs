//! `steadfast call`, `resume`, `task` and `tools`.

use crate::{process::Program, server::Server};

const REVISIONS: [&str; 4] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"];

#[test]
fn a_result_goes_to_standard_output_alone_and_the_exit_code_is_0() {
    let server = Server::start();
    for revision in REVISIONS {
        let words = ["call", &server.url(), "greet", "--arg", "name=Ada", "--revision", revision];
        let ended = Program::run(&words);
        assert_eq!((ended.code(), ended.out.as_str()), (0, "Hello, Ada!\n"), "{ended:?}");
        assert_eq!(ended.err, "", "{revision}");
    }
    let words = ["call", &server.url(), "greet", "--json", r#"{"name": "Bob"}"#];
    assert_eq!(Program::run(&words).out, "Hello, Bob!\n");
}

#[test]
fn a_tool_that_fails_is_1_and_what_came_to_nothing_is_2() {
    let server = Server::start();
    let url = server.url();
    let failed = Program::run(&["call", &url, "fail"]);
    assert_eq!(failed.code(), 1, "{failed:?}");
    assert!(failed.out.contains("it can't be done"), "{failed:?}");
    for words in [
        &["call", &url, "no_such"][..],
        &["call", &url, "no_such", "--arg", "a=b"],
        &["call", &url, "greet", "--json", "[]"],
        &["call", &url, "work", "--arg", "number=seven"],
        &["call", "ftp://nowhere", "greet"],
        &["call", &url, "greet", "--as-task", "--plain"],
        &["call", "http://127.0.0.1:1/mcp", "greet", "--wait", "0"],
        &["task", &url, "get", "00000000000000000000000000000000"],
    ] {
        let ended = Program::run(words);
        assert_eq!(ended.code(), 2, "{words:?}: {ended:?}");
        assert!(ended.out.is_empty() && !ended.err.is_empty(), "{words:?}: {ended:?}");
    }
}

#[test]
fn a_call_survives_a_kill_of_the_server_and_says_how_far_it_is() {
    for (revision, how) in [
        ("2026-07-28", "--as-task"),
        ("2025-11-25", "--as-task"),
        ("2025-11-25", "--plain"),
        ("2025-06-18", "--plain"),
    ] {
        let mut server = Server::start();
        let url = server.url();
        let words = ["call", &url, "work", "--arg", "number=7", "--revision", revision, how];
        let program = Program::start(&words);
        server.until("second", 1);
        program.until_said("one");
        server.kill_and_restart();
        server.open("second");
        let ended = program.end();
        assert_eq!((ended.code(), ended.out.as_str()), (0, "7\n"), "{revision}: {ended:?}");
        if how == "--plain" {
            assert!(ended.err.contains("[#######.............] 1/3 one"), "{ended:?}");
            assert!(ended.err.contains("info: it begins"), "{ended:?}");
        }
        assert_eq!([server.count("first"), server.count("last")], [1, 1]);
    }
}

/// What is printed when it is left is a command that goes on.
#[test]
fn one_that_is_left_with_ctrl_c_says_how_to_take_it_up() {
    for (revision, how) in [("2026-07-28", "--as-task"), ("2025-11-25", "--plain")] {
        let server = Server::start();
        let url = server.url();
        let words = ["call", &url, "work", "--arg", "number=7", "--revision", revision, how];
        let program = Program::start(&words);
        program.until_said("one");
        server.until("second", 1);
        program.signal("INT");
        let ended = program.end();
        assert_eq!(ended.code(), 130, "{ended:?}");
        let command = ended.err.lines().find_map(|line| line.strip_prefix("  steadfast "));
        let words: Vec<&str> = command.unwrap().split(' ').collect();
        let program = Program::start(&words);
        server.open("second");
        let ended = program.end();
        assert_eq!((ended.code(), ended.out.as_str()), (0, "7\n"), "{words:?}: {ended:?}");
    }
}

#[test]
fn one_that_takes_too_long_is_left_in_the_same_way() {
    let server = Server::start();
    let words = ["call", &server.url(), "work", "--arg", "number=7", "--timeout", "1"];
    let ended = Program::run(&words);
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.err.contains("steadfast task http"), "{ended:?}");
}

#[test]
fn a_task_is_looked_at_answered_and_cancelled() {
    let server = Server::start();
    let url = server.url();
    let begin = |words: &[&str], said: &str| {
        let program = Program::start(&[&["call", url.as_str()], words].concat());
        program.until_said(said);
        program.signal("INT");
        let ended = program.end();
        ended.err.trim_end().rsplit(' ').next().unwrap().to_owned()
    };
    let task = begin(&["approve", "--ask"], "[y/n]");
    assert_eq!(Program::run(&["task", &url, "answer", &task, "--answer", "approve=yes"]).code(), 0);
    assert_eq!(Program::run(&["task", &url, "result", &task]).out, "done\n");
    let task = begin(&["work", "--arg", "number=1"], "one");
    let seen = Program::run(&["task", &url, "get", &task]);
    assert!(seen.out.contains(r#""status": "working""#), "{seen:?}");
    assert_eq!(Program::run(&["task", &url, "cancel", &task]).code(), 0);
    let ended = Program::run(&["task", &url, "result", &task]);
    assert_eq!(ended.code(), 1, "{ended:?}");
    assert!(ended.err.contains("cancelled"), "{ended:?}");
    let nothing = Program::run(&["task", &url, "answer", &task, "--answer", "approve=yes"]);
    assert!(nothing.code() == 2 && nothing.err.contains("asks nothing"), "{nothing:?}");
}

#[test]
fn tools_are_listed_with_their_parameters() {
    let server = Server::start();
    for revision in REVISIONS {
        let ended = Program::run(&["tools", &server.url(), "--revision", revision]);
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(ended.out.contains("greet\n    Greets. A plain tool.\n"), "{}", ended.out);
        assert!(ended.out.contains("--arg name=... (string) Who to greet"), "{}", ended.out);
    }
    let ended = Program::run(&["tools", &server.url(), "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&ended.out).unwrap().is_array());
}

#[test]
fn a_token_comes_from_a_file_or_the_environment() {
    let server = Server::with(&["--token-file", "tokens"]);
    let (url, file) = (server.url(), server.dir().join("token"));
    std::fs::write(&file, "the-secret-of-ada\n").unwrap();
    let words = ["tools", &url];
    let refused = Program::run(&words);
    assert!(refused.code() == 2 && refused.err.contains("401"), "{refused:?}");
    let by_file = Program::run(&["tools", &url, "--token-file", file.to_str().unwrap()]);
    assert_eq!(by_file.code(), 0, "{by_file:?}");
    let by_name = Program::with(&words, |command| {
        command.env("STEADFAST_TOKEN", "the-secret-of-ada");
    });
    assert_eq!(by_name.end().code(), 0);
}
