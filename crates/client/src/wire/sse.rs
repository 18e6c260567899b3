//! Server-sent events, as they come in pieces.

use std::{collections::VecDeque, time::Duration};

/// An event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What kind it says it is.
    pub name: Option<String>,
    /// From where the stream can be taken up again.
    pub id: Option<String>,
    /// Empty in an event that only says where the stream stands.
    pub data: String,
    /// How long to wait before the stream is taken up again.
    pub retry: Option<Duration>,
}

/// Makes events of bytes, wherever they are cut.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// A line feed that comes now belongs to the line that is over.
    after_return: bool,
    /// Anything was read: a byte order mark is one at the very beginning only.
    begun: bool,
    event: Event,
    /// There was a field in it.
    open: bool,
    /// There was data in it, maybe empty.
    has_data: bool,
    ready: VecDeque<Event>,
}

impl Parser {
    /// Takes more bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' => self.end_line(),
                b'\r' => {
                    self.after_return = true;
                    self.end_line();
                }
                byte => self.line.push(byte),
            }
        }
    }

    /// The next event that is whole.
    pub fn next_event(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        let mut text = text.as_ref();
        if !std::mem::replace(&mut self.begun, true) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            return self.end_event();
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "event" => self.event.name = Some(value.to_owned()),
            "retry" => match value.parse() {
                Ok(millis) => self.event.retry = Some(Duration::from_millis(millis)),
                Err(_) => return,
            },
            // Comments have no field, and others are none of ours.
            _ => return,
        }
        self.open = true;
    }

    fn end_event(&mut self) {
        let event = std::mem::take(&mut self.event);
        self.has_data = false;
        if std::mem::take(&mut self.open) {
            self.ready.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        for piece in pieces {
            parser.feed(piece);
        }
        std::iter::from_fn(|| parser.next_event()).collect()
    }

    fn data(event: &str) -> Event {
        Event { data: event.into(), ..Event::default() }
    }

    #[test]
    fn lines_end_in_each_of_three_ways() {
        for text in ["data: a\ndata: b\n\n", "data: a\rdata: b\r\r", "data: a\r\ndata: b\r\n\r\n"] {
            assert_eq!(all(&[text.as_bytes()]), [data("a\nb")], "{text:?}");
        }
    }

    #[test]
    fn it_does_not_matter_where_the_bytes_are_cut() {
        let text = "\u{feff}event: message\r\nid: 7.1\r\nretry: 1500\r\ndata: {\"ü\":1}\r\n\r\n: still \
                    here\n\ndata:x\n\n";
        let whole = all(&[text.as_bytes()]);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].name.as_deref(), Some("message"));
        assert_eq!(whole[0].id.as_deref(), Some("7.1"));
        assert_eq!(whole[0].retry, Some(Duration::from_millis(1_500)));
        assert_eq!(whole[0].data, "{\"ü\":1}");
        assert_eq!(whole[1], data("x"));
        for cut in 0..text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(all(&[one, two]), whole, "{cut}");
        }
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(all(&single), whole);
    }

    #[test]
    fn one_without_data_still_says_where_the_stream_stands() {
        let expected =
            Event { id: Some("a".into()), retry: Some(Duration::from_secs(1)), ..Event::default() };
        for text in ["id: a\nretry: 1000\ndata:\n\n", "id: a\nretry: 1000\n\n"] {
            assert_eq!(all(&[text.as_bytes()]), std::slice::from_ref(&expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_unknown_or_wrong_is_passed_over() {
        assert_eq!(all(&[b"colour: red\n\n: a comment\n\n\n\n"]), []);
        assert_eq!(all(&[b"retry: soon\nid: a\0b\ndata: x\n\n"]), [data("x")]);
        assert_eq!(all(&[b"data\n\n"]), [data("")]);
        assert_eq!(all(&[b"data:  two\n\n"]), [data(" two")]);
        // One space is the separator's; and an empty first line is data as well.
        assert_eq!(all(&[b"data:\ndata: b\n\n"]), [data("\nb")]);
    }

    #[test]
    fn what_is_not_closed_is_no_event() {
        assert_eq!(all(&[b"data: a\n\ndata: b\n"]), [data("a")]);
    }
}
