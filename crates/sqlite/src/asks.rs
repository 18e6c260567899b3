//! The open questions of a task, which lie in its row: who asks how a task stands reads them with it, and
//! a second tree to descend would be a good part of the time of that read.
//!
//! Each is its operation, the length of its key and that of its body, four bytes each with the lowest
//! first, then its key and its body; in the order they were asked.

use rusqlite::types::{FromSqlError, ValueRef};
use steadfast_core::OpId;
use steadfast_store::QuestionRow;

/// Reads the column.
pub(crate) fn read(column: ValueRef<'_>) -> Result<Vec<QuestionRow>, FromSqlError> {
    let Some(mut left) = column.as_blob_or_null()? else { return Ok(Vec::new()) };
    let mut asked = Vec::new();
    while !left.is_empty() {
        let (one, rest) = first(left).ok_or_else(|| FromSqlError::Other("cut off".into()))?;
        asked.push(one);
        left = rest;
    }
    Ok(asked)
}

/// The first question, and what is behind it.
fn first(blob: &[u8]) -> Option<(QuestionRow, &[u8])> {
    let number = |blob: &[u8], n: usize| {
        Some(u32::from_le_bytes(blob.get(n * 4..n * 4 + 4)?.try_into().ok()?))
    };
    let length = |n| number(blob, n).and_then(|length| usize::try_from(length).ok());
    let op = OpId(number(blob, 0)?);
    let (key, body) = (length(1)?, length(2)?);
    let (key, rest) = blob.get(12..)?.split_at_checked(key)?;
    let (body, rest) = rest.split_at_checked(body)?;
    let key = std::str::from_utf8(key).ok()?.to_owned();
    Some((QuestionRow { key, op, body: body.to_vec() }, rest))
}

/// What to write into the column.
pub(crate) fn write(asked: &[QuestionRow]) -> Option<Vec<u8>> {
    if asked.is_empty() {
        return None;
    }
    let mut blob = Vec::new();
    for QuestionRow { key, op, body } in asked {
        // SQLite holds no value that is longer than this.
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        for number in [op.0, length(key.len()), length(body.len())] {
            blob.extend_from_slice(&number.to_le_bytes());
        }
        blob.extend_from_slice(key.as_bytes());
        blob.extend_from_slice(body);
    }
    Some(blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(key: &str, op: u32, body: &[u8]) -> QuestionRow {
        QuestionRow { key: key.into(), op: OpId(op), body: body.into() }
    }

    #[test]
    fn they_come_back_as_they_went_in() {
        for asked in [
            vec![question("a", 1, b"{}")],
            vec![question("ä", u32::MAX, &[0; 300]), question("", 0, b""), question("b", 7, b"x")],
        ] {
            let blob = write(&asked).unwrap();
            let read = read(ValueRef::Blob(&blob)).unwrap();
            let seen = |rows: &[QuestionRow]| {
                rows.iter().map(|q| (q.key.clone(), q.op, q.body.clone())).collect::<Vec<_>>()
            };
            assert_eq!(seen(&read), seen(&asked));
        }
        assert_eq!(write(&[]), None);
        assert!(read(ValueRef::Null).unwrap().is_empty());
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let whole = write(&[question("key", 1, b"body")]).unwrap();
        for length in 1..whole.len() {
            assert!(read(ValueRef::Blob(&whole[..length])).is_err(), "{length} bytes");
        }
    }
}
