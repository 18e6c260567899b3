//! A process that is no server. One that is: `examples/tested`.

use steadfast::testing::TestProcess;

#[cfg(unix)]
#[tokio::test]
#[should_panic(expected = "it said:\n/bin/sh: ")]
async fn a_process_that_ends_at_once_is_quoted() {
    // A shell knows no --listen.
    TestProcess::cargo_bin("/bin/sh").up().await;
}

#[tokio::test]
#[should_panic(expected = "nowhere can't be started")]
async fn a_program_that_is_not_there_is_named() {
    TestProcess::cargo_bin("nowhere").up().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a process needs a clock that runs")]
async fn a_paused_clock_is_refused() {
    TestProcess::cargo_bin("nowhere").up().await;
}
