//! Texts as PostgreSQL can keep them.
//!
//! It keeps every character but NUL, and those who choose keys and names may choose that too. So it is
//! written as two others, the first of which is for private use and is itself written as two.

use std::borrow::Cow;

const MARK: char = '\u{f8ff}';

/// How a text is stored.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    match text.contains(['\0', MARK]) {
        false => Cow::Borrowed(text),
        true => {
            let marked = text.replace(MARK, &format!("{MARK}1"));
            Cow::Owned(marked.replace('\0', &format!("{MARK}0")))
        }
    }
}

/// What text is stored so.
pub(crate) fn read(stored: String) -> String {
    match stored.contains(MARK) {
        false => stored,
        true => stored
            .replace(&format!("{MARK}0"), "\0")
            .replace(&format!("{MARK}1"), &MARK.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in
            ["", "a", "\0", "a\0b\0", "\u{f8ff}", "\u{f8ff}0", "\0\u{f8ff}1\0", "ä\u{f8ff}\0"]
        {
            let kept = stored(text).into_owned();
            assert!(!kept.contains('\0'));
            assert_eq!(read(kept), text);
        }
    }
}
