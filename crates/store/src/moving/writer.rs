//! Making a file.

use std::io::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Error, FORMAT, Kind, Record, Result, Tally,
    order::Order,
    tally::{hex, line},
};

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    /// What kind of store it is from, and the version of its schema: for people.
    #[serde(default)]
    store: String,
    #[serde(default)]
    schema: i64,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Trailer {
    pub(super) counts: std::collections::BTreeMap<Kind, u64>,
    pub(super) content: String,
    pub(super) file: String,
}

/// Lines that are no records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Frame {
    Header(Header),
    Trailer(Trailer),
}

/// Makes a file of records, one at a time.
pub struct Writer<W> {
    out: W,
    hash: Sha256,
    order: Order,
    tally: Tally,
}

impl<W: Write> Writer<W> {
    /// Begins a file of what is in a store of this kind, whose schema has this version.
    pub fn new(out: W, store: &str, schema: i64) -> Result<Writer<W>> {
        let mut writer =
            Writer { out, hash: Sha256::new(), order: Order::default(), tally: Tally::default() };
        let header = Header { format: FORMAT, store: store.into(), schema };
        let line = serde_json::to_vec(&Frame::Header(header)).map_err(std::io::Error::from)?;
        writer.put_line(line)?;
        Ok(writer)
    }

    /// Adds a record.
    pub fn put(&mut self, record: &Record) -> Result<()> {
        self.order.next(record).map_err(Error::Damaged)?;
        let line = line(record).map_err(std::io::Error::from)?;
        self.tally.add(record.kind(), &line);
        self.put_line(line)
    }

    fn put_line(&mut self, mut line: Vec<u8>) -> Result<()> {
        line.push(b'\n');
        self.hash.update(&line);
        Ok(self.out.write_all(&line)?)
    }

    /// What was added so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Ends the file, which is of no use without this. It is not flushed to the disk.
    pub fn finish(self) -> Result<(W, Tally)> {
        let Writer { mut out, hash, order, tally } = self;
        order.end().map_err(Error::Damaged)?;
        let (counts, content) = (tally.counts().clone(), tally.digest());
        let trailer = Trailer { counts, content, file: hex(&hash.finalize()) };
        serde_json::to_writer(&mut out, &Frame::Trailer(trailer)).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok((out, tally))
    }
}
