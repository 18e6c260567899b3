//! What a statement begins with.

/// The words that would end the transaction, or begin another in its place.
const CONTROL: [&str; 6] = ["BEGIN", "START", "COMMIT", "END", "ABORT", "PREPARE"];

/// The word by which a statement controls the transaction, if it does. Savepoints are the author's own.
///
/// Only one statement goes to the server at a time, and in a procedure a COMMIT is refused by itself: so the
/// first words tell.
pub(super) fn control(sql: &str) -> Option<String> {
    let mut rest = sql;
    let first = word(&mut rest);
    let second = word(&mut rest);
    let third = word(&mut rest);
    let to = |word: &str| word == "TO";
    let controls = match first.as_str() {
        // ROLLBACK [WORK | TRANSACTION] TO [SAVEPOINT] name
        "ROLLBACK" => !(to(&second) || to(&third)),
        // Not that of a statement.
        "PREPARE" => second == "TRANSACTION",
        word => CONTROL.contains(&word),
    };
    controls.then_some(first)
}

/// Whether a statement takes away all that is prepared on the connection.
pub(super) fn deallocates_all(sql: &str) -> bool {
    let mut rest = sql;
    if word(&mut rest) != "DEALLOCATE" {
        return false;
    }
    // DEALLOCATE [PREPARE] ALL
    let second = word(&mut rest);
    second == "ALL" || second == "PREPARE" && word(&mut rest) == "ALL"
}

/// Takes the next word, in capitals; what stands before it and means nothing is passed over.
fn word(rest: &mut &str) -> String {
    skip(rest);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (word, behind) = rest.split_at(end);
    *rest = behind;
    word.to_ascii_uppercase()
}

/// Passes over space, semicolons and comments, which may be nested.
fn skip(rest: &mut &str) {
    loop {
        let before = rest.len();
        *rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if let Some(comment) = rest.strip_prefix("--") {
            *rest = comment.split_once('\n').map_or("", |(_, behind)| behind);
        } else if rest.starts_with("/*") {
            *rest = behind_comment(rest);
        }
        if rest.len() == before {
            return;
        }
    }
}

fn behind_comment(text: &str) -> &str {
    let mut depth = 0;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return text.get(at..).unwrap_or("");
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::{control, deallocates_all};

    #[test]
    fn what_ends_the_transaction_is_known_by_its_first_words() {
        let ends = [
            "COMMIT",
            "commit work",
            " ;; end",
            "-- so\n/* or /* so */ ä */ Rollback",
            "ROLLBACK AND CHAIN",
            "ABORT",
            "begin",
            "START TRANSACTION",
            "PREPARE TRANSACTION 'x'",
        ];
        for sql in ends {
            assert!(control(sql).is_some(), "{sql}");
        }
        let others = [
            "SELECT 1",
            "INSERT INTO commit VALUES (1)",
            "-- COMMIT",
            "/* COMMIT",
            "",
            "SAVEPOINT a",
            "ROLLBACK TO a",
            "ROLLBACK TRANSACTION TO SAVEPOINT a",
            "RELEASE a",
            "PREPARE it AS SELECT 1",
            "committed",
        ];
        for sql in others {
            assert_eq!(control(sql), None, "{sql}");
        }
    }

    #[test]
    fn only_all_of_the_prepared_statements_are_kept_from_an_author() {
        for sql in ["DEALLOCATE ALL", "deallocate /* so */ prepare all;"] {
            assert!(deallocates_all(sql), "{sql}");
        }
        for sql in ["DEALLOCATE mine", "DEALLOCATE PREPARE mine", "SELECT 'DEALLOCATE ALL'"] {
            assert!(!deallocates_all(sql), "{sql}");
        }
    }
}
