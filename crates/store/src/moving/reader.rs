//! Reading a file, and comparing what came of it.

use std::io::{BufRead, Read};

use sha2::{Digest, Sha256};

use super::{
    Error, FORMAT, Kind, Record, Result, Tally,
    order::Order,
    tally::{hex, line},
    writer::{Frame, Trailer},
};

/// Nobody writes longer lines: whatever has them is some other file.
const LONGEST: u64 = 1 << 30;

/// Is told how far an import is.
type Progress = Box<dyn FnMut(&Tally, Option<&Tally>) + Send>;

/// Reads a file record by record, and what comes back out of a store after it.
pub struct Reader {
    input: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    lines: u64,
    hash: Sha256,
    order: Order,
    tally: Tally,
    back: Tally,
    over: bool,
    progress: Progress,
}

impl Reader {
    /// Begins to read. What is no file of ours, or is of a later version, is refused.
    pub fn new(input: Box<dyn BufRead + Send>) -> Result<Reader> {
        let mut reader = Reader {
            input,
            buffer: Vec::new(),
            lines: 0,
            hash: Sha256::new(),
            order: Order::default(),
            tally: Tally::default(),
            back: Tally::default(),
            over: false,
            progress: Box::new(|_, _| ()),
        };
        reader.next_line()?;
        // Of a later version all else may be different.
        #[derive(serde::Deserialize)]
        struct First {
            header: Version,
        }
        #[derive(serde::Deserialize)]
        struct Version {
            format: u32,
        }
        let first: First = serde_json::from_slice(&reader.buffer).map_err(|_| Error::Foreign)?;
        match first.header.format {
            1..=FORMAT => {}
            0 => return Err(Error::Foreign),
            found => return Err(Error::Newer { found }),
        }
        reader.hash.update(&reader.buffer);
        Ok(reader)
    }

    /// Has `progress` called with what was read so far and, when all was, what came back out of the store.
    #[must_use]
    pub fn on_progress(
        mut self,
        progress: impl FnMut(&Tally, Option<&Tally>) + Send + 'static,
    ) -> Reader {
        self.progress = Box::new(progress);
        self
    }

    /// Reads a line into the buffer, with its end. Empty at the end of the file.
    fn next_line(&mut self) -> Result<()> {
        self.buffer.clear();
        (&mut self.input).take(LONGEST).read_until(b'\n', &mut self.buffer)?;
        self.lines += u64::from(!self.buffer.is_empty());
        Ok(())
    }

    /// The next record. `None` if that was all, and all is as it was written.
    #[allow(clippy::should_implement_trait)] // It goes on no more after an error.
    pub fn next(&mut self) -> Result<Option<Record>> {
        if self.over {
            return Ok(None);
        }
        self.next_line()?;
        let lines = self.lines;
        if self.buffer.last() != Some(&b'\n') {
            let lines = lines - u64::from(!self.buffer.is_empty());
            return Err(Error::CutOff { lines });
        }
        let wrong = |detail: String| Error::Line { line: lines, detail };
        if self.buffer.starts_with(b"{\"trailer\"") {
            let frame = serde_json::from_slice(&self.buffer).map_err(|e| wrong(e.to_string()))?;
            let Frame::Trailer(trailer) = frame else {
                return Err(wrong("it is no trailer".into()));
            };
            self.order.end().map_err(wrong)?;
            self.finish(&trailer)?;
            return Ok(None);
        }
        let record: Record =
            serde_json::from_slice(&self.buffer).map_err(|e| wrong(e.to_string()))?;
        self.order.next(&record).map_err(wrong)?;
        self.hash.update(&self.buffer);
        let line = line(&record).map_err(std::io::Error::from)?;
        self.tally.add(record.kind(), &line);
        (self.progress)(&self.tally, None);
        Ok(Some(record))
    }

    fn finish(&mut self, trailer: &Trailer) -> Result<()> {
        let altered = |detail| Err(Error::Altered { detail });
        if hex(&std::mem::take(&mut self.hash).finalize()) != trailer.file {
            return altered("its SHA-256 is not the one in its trailer".to_owned());
        }
        if let Some(detail) =
            difference("the trailer", &trailer.counts, "the file", self.tally.counts())
        {
            return altered(detail);
        }
        if self.tally.digest() != trailer.content {
            return altered("the digest of its content is not the one in its trailer".to_owned());
        }
        self.next_line()?;
        if !self.buffer.is_empty() {
            return altered("there is something behind its trailer".to_owned());
        }
        self.over = true;
        Ok(())
    }

    /// A record was read back from the store that all was written to.
    pub fn came_back(&mut self, record: &Record) -> Result<()> {
        let line = line(record).map_err(std::io::Error::from)?;
        self.back.add(record.kind(), &line);
        (self.progress)(&self.tally, Some(&self.back));
        Ok(())
    }

    /// Whether all that was in the file came back, and nothing else: then it says what that was. Before the
    /// end of the file nothing did.
    pub fn compare(&self) -> Result<Tally> {
        let differs = |detail| Err(Error::Differs { detail });
        if !self.over {
            return differs("the file was not read to its end".to_owned());
        }
        let (file, back) = (self.tally.counts(), self.back.counts());
        if let Some(detail) = difference("the file", file, "the store", back) {
            return differs(detail);
        }
        match self.tally == self.back {
            true => Ok(self.tally.clone()),
            false => differs("the counts are the same, and the digests are not".to_owned()),
        }
    }
}

type Counts = std::collections::BTreeMap<Kind, u64>;

/// The first kind that there is another number of, in words.
fn difference(one: &str, ours: &Counts, other: &str, theirs: &Counts) -> Option<String> {
    let count = |counts: &Counts, kind: Kind| counts.get(&kind).copied().unwrap_or(0);
    let mut kinds = ours.keys().chain(theirs.keys()).copied();
    let kind = kinds.find(|kind| count(ours, *kind) != count(theirs, *kind))?;
    let (ours, theirs) = (count(ours, kind), count(theirs, kind));
    Some(format!("records of the kind {}: {ours} in {one}, {theirs} in {other}", kind.name()))
}
