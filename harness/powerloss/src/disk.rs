//! What is durable at a point of the log, and what is still up to chance.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::log::{Entry, Node};

/// A change of a file's content.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write(u64, Arc<[u8]>),
    Truncate(u64),
}

/// A file: what is certain, and what was asked for since.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) durable: Vec<u8>,
    pub(crate) pending: Vec<Change>,
}

/// A directory entry: which file a name leads to.
#[derive(Default)]
pub(crate) struct Name {
    pub(crate) durable: Option<Node>,
    pub(crate) pending: Vec<Option<Node>>,
}

/// A disk, as far as a log has been followed.
#[derive(Default)]
pub(crate) struct Disk {
    at: usize,
    pub(crate) contents: Vec<Content>,
    pub(crate) names: BTreeMap<PathBuf, Name>,
    pub(crate) marks: Vec<Arc<str>>,
}

impl Disk {
    /// How many entries were followed.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Follows one more entry.
    pub(crate) fn follow(&mut self, entry: &Entry) {
        self.at += 1;
        match entry {
            Entry::Found(node, path, bytes) => {
                self.content(*node).durable = bytes.to_vec();
                let name = self.names.entry(path.clone()).or_default();
                *name = Name { durable: Some(*node), pending: Vec::new() };
            }
            Entry::Create(node, path) => {
                self.content(*node);
                self.name(path).pending.push(Some(*node));
            }
            Entry::Delete(path) => self.name(path).pending.push(None),
            Entry::Write(node, offset, bytes) => {
                let change = Change::Write(*offset, Arc::clone(bytes));
                self.content(*node).pending.push(change);
            }
            Entry::Truncate(node, size) => {
                self.content(*node).pending.push(Change::Truncate(*size));
            }
            Entry::Sync(node) => self.sync(*node),
            Entry::SyncDir(dir) => self.sync_dir(dir),
            Entry::Mark(label) => self.marks.push(Arc::clone(label)),
            Entry::Open(_) | Entry::DroppedSync(_) => {}
        }
    }

    fn content(&mut self, node: Node) -> &mut Content {
        if self.contents.len() <= node.0 {
            self.contents.resize_with(node.0 + 1, Content::default);
        }
        &mut self.contents[node.0]
    }

    fn name(&mut self, path: &Path) -> &mut Name {
        self.names.entry(path.to_path_buf()).or_default()
    }

    /// The content, and the entry by which the file is reached; what happened to that name before
    /// can't come back then.
    fn sync(&mut self, node: Node) {
        let content = self.content(node);
        for change in content.pending.drain(..) {
            apply(&mut content.durable, &change);
        }
        for name in self.names.values_mut() {
            if let Some(at) = name.pending.iter().position(|to| *to == Some(node)) {
                name.durable = Some(node);
                name.pending.drain(..=at);
            }
        }
    }

    fn sync_dir(&mut self, dir: &Path) {
        for (path, name) in &mut self.names {
            if path.parent() == Some(dir)
                && let Some(last) = name.pending.drain(..).next_back()
            {
                name.durable = last;
            }
        }
    }
}

/// Lets a change happen whole.
pub(crate) fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, new) => put(bytes, *offset, new),
        Change::Truncate(size) => bytes.resize(*size as usize, 0),
    }
}

/// Overwrites, and extends with zeros where the file was too short.
pub(crate) fn put(bytes: &mut Vec<u8>, offset: u64, new: &[u8]) {
    let from = offset as usize;
    let to = from + new.len();
    if bytes.len() < to {
        bytes.resize(to, 0);
    }
    bytes[from..to].copy_from_slice(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Node = Node(0);
    const B: Node = Node(1);

    fn write(node: Node, bytes: &[u8]) -> Entry {
        Entry::Write(node, 0, bytes.into())
    }

    fn create(node: Node, path: &str) -> Entry {
        Entry::Create(node, path.into())
    }

    fn follow(entries: &[Entry]) -> Disk {
        let mut disk = Disk::default();
        entries.iter().for_each(|entry| disk.follow(entry));
        disk
    }

    #[test]
    fn a_flush_covers_only_what_was_written_to_its_file_before_it() {
        let disk = follow(&[
            create(A, "/d/a"),
            create(B, "/d/b"),
            write(A, b"early"),
            write(B, b"other"),
            Entry::Sync(A),
            write(A, b"later"),
        ]);
        assert_eq!(disk.contents[0].durable, b"early");
        assert_eq!(disk.contents[0].pending.len(), 1);
        assert_eq!(disk.contents[1].durable, b"");
    }

    #[test]
    fn a_new_file_has_a_durable_name_from_its_first_flush_on() {
        let mut disk = follow(&[create(A, "/d/a")]);
        assert_eq!(disk.names[Path::new("/d/a")].durable, None);
        disk.follow(&Entry::Sync(A));
        assert_eq!(disk.names[Path::new("/d/a")].durable, Some(A));
    }

    #[test]
    fn a_deletion_is_durable_only_after_a_flush_of_its_directory() {
        let mut disk = follow(&[
            create(A, "/d/a"),
            Entry::Sync(A),
            Entry::Delete("/d/a".into()),
            create(B, "/d/b"),
            Entry::Sync(B),
            Entry::SyncDir("/elsewhere".into()),
        ]);
        assert_eq!(disk.names[Path::new("/d/a")].durable, Some(A));
        disk.follow(&Entry::SyncDir("/d".into()));
        assert_eq!(disk.names[Path::new("/d/a")].durable, None);
        assert_eq!(disk.names[Path::new("/d/b")].durable, Some(B));
    }

    #[test]
    fn flushing_a_file_created_in_place_of_another_ends_the_other() {
        let disk = follow(&[
            create(A, "/d/a"),
            Entry::Sync(A),
            Entry::Delete("/d/a".into()),
            create(B, "/d/a"),
            Entry::Sync(B),
        ]);
        let name = &disk.names[Path::new("/d/a")];
        assert_eq!((name.durable, name.pending.len()), (Some(B), 0));
    }
}
