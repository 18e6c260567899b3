//! What the compiler says when an attribute is misused.
#![allow(missing_docs)]

#[test]
fn a_mistake_is_shown_where_it_is_with_what_to_write_instead() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
