//! Questions at the terminal, and in scripts.

use crate::{process::Program, server::Server};

#[test]
fn a_form_is_filled_in_line_by_line() {
    let server = Server::start();
    for revision in ["2026-07-28", "2025-11-25", "2025-06-18"] {
        let words = ["call", &server.url(), "fill_in", "--ask", "--revision", revision];
        let mut program = Program::start(&words);
        // In the order of their names: also, colour, count, gift, name, note.
        for (asks, line) in [
            ("Please fill this in.", "1, blue"),
            ("colour", "purple"),
            ("none of these", "2"),
            ("count", "many"),
            ("a whole number, please", "3"),
            ("gift", "y"),
            ("name: What to call it", ""),
            ("Something is needed here.", "Lamp"),
            ("note", ""),
            ("Send this?", ""),
        ] {
            program.until_said(asks);
            program.line(line);
        }
        let ended = program.end();
        let expected = r#"{"name":"Lamp","count":3,"gift":true,"colour":"green","also":["red","blue"],"note":null}"#;
        assert_eq!(ended.out.trim_end(), expected, "{revision}: {ended:?}");
    }
}

#[test]
fn a_person_answers_after_the_server_was_killed() {
    for words in [&["--as-task"][..], &["--revision", "2025-11-25", "--plain"]] {
        let mut server = Server::start();
        let url = server.url();
        let words = [&["call", url.as_str(), "approve", "--ask"], words].concat();
        let mut program = Program::start(&words);
        program.until_said("[y/n]");
        server.kill_and_restart();
        program.line("y");
        let ended = program.end();
        assert_eq!((ended.code(), ended.out.as_str()), (0, "done\n"), "{ended:?}");
        assert_eq!(ended.err.matches("May it be done?").count(), 1, "{ended:?}");
        assert_eq!([server.count("before"), server.count("after")], [1, 1]);
    }
}

#[test]
fn a_script_answers_with_flags_and_else_declines_with_a_reason() {
    let server = Server::start();
    let url = server.url();
    for (flags, expected) in [
        (&["--answer", "approve=yes"][..], "done\n"),
        (&["--answer", "approve:=false"], "left\n"),
        (&[], "declined\n"),
        (&["--answer", "other=yes"], "declined\n"),
    ] {
        for how in ["--as-task", "--plain"] {
            let words = [&["call", url.as_str(), "approve", how], flags].concat();
            let ended = Program::run(&words);
            assert_eq!(ended.out, expected, "{words:?}: {ended:?}");
            let says = ended.err.contains("there is no --answer for approve");
            assert_eq!(says, expected == "declined\n", "{ended:?}");
        }
    }
}

#[test]
fn a_page_is_shown_and_needs_consent() {
    let server = Server::start();
    let url = server.url();
    let mut program = Program::start(&["call", &url, "visit", "--ask"]);
    program.until_said("https://example.com/sign-in");
    program.line("y");
    assert_eq!(program.end().out, "visited\n");
    assert_eq!(Program::run(&["call", &url, "visit", "--consent"]).out, "visited\n");
    let ended = Program::run(&["call", &url, "visit"]);
    assert_eq!(ended.out, "declined\n", "{ended:?}");
}

#[test]
fn who_leaves_at_a_question_has_dismissed_it() {
    let server = Server::start();
    let mut program = Program::start(&["call", &server.url(), "approve", "--ask", "--plain"]);
    program.until_said("[y/n]");
    program.line("/decline");
    assert_eq!(program.end().out, "declined\n");
    let program = Program::start(&["call", &server.url(), "approve", "--ask", "--plain"]);
    program.until_said("[y/n]");
    assert_eq!(program.end().out, "dismissed\n");
}
