//! The list of what the texts on tasks ask for names tests that are there.

use std::{fs, path::Path};

#[test]
fn every_test_that_the_list_names_is_there() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(home.join("../../docs/tasks-musts.md")).unwrap();
    let mut named = 0;
    for (module, test) in list.split('`').filter_map(|part| part.split_once("::")) {
        let Ok(source) = fs::read_to_string(home.join(format!("tests/it/{module}.rs"))) else {
            // A type of ours, or a target of the log.
            assert!(!test.contains('_') || test.contains("max_"), "{module}::{test}");
            continue;
        };
        assert!(source.contains(&format!("async fn {test}()")), "{module}::{test}");
        named += 1;
    }
    assert!(named > 80, "only {named} tests are named");
}

#[test]
fn every_test_of_a_must_is_in_the_list() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = fs::read_to_string(home.join("../../docs/tasks-musts.md")).unwrap();
    for module in ["musts_2025", "musts_2026"] {
        let source = fs::read_to_string(home.join(format!("tests/it/{module}.rs"))).unwrap();
        let tests = source.split("#[tokio::test]\nasync fn ").skip(1);
        for test in tests.filter_map(|test| test.split_once("()").map(|(name, _)| name)) {
            if test.contains("must") || test.contains("should") {
                assert!(list.contains(&format!("`{module}::{test}`")), "{module}::{test}");
            }
        }
    }
}
