//! What happened to a database's files, in one order.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

/// A file's content, whatever its name: a file that is deleted and created again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(pub usize);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file was opened that was there before the recording, with this content; all of it durable.
    Found(Node, PathBuf, Arc<[u8]>),
    /// A file was created.
    Create(Node, PathBuf),
    /// A file that the log knows was opened once more.
    Open(Node),
    /// Bytes were written at an offset.
    Write(Node, u64, Arc<[u8]>),
    /// The file was cut (or extended with zeros) to a size.
    Truncate(Node, u64),
    /// The file was flushed.
    Sync(Node),
    /// A flush was asked for, acknowledged and not done.
    DroppedSync(Node),
    /// A name was removed from its directory.
    Delete(PathBuf),
    /// A directory was flushed.
    SyncDir(PathBuf),
    /// The test says something, for instance that a commit was acknowledged.
    Mark(Arc<str>),
}

/// A recording. Cheap to clone: the bytes are shared.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// All that happened, oldest first.
    pub entries: Vec<Entry>,
}

/// The directory that a flush of `path`'s directory is a flush of.
pub(crate) fn parent(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// What a recorder and the open files of its VFS share.
#[derive(Default)]
pub(crate) struct Tape {
    inner: Mutex<Inner>,
    drop_syncs: AtomicBool,
    fail_syncs: AtomicU32,
}

#[derive(Default)]
struct Inner {
    log: Log,
    /// The names as a running process sees them.
    names: Vec<(PathBuf, Node)>,
    nodes: usize,
}

impl Tape {
    /// The lists are never left half changed, so that a panic elsewhere does no harm here.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, entry: Entry) {
        self.inner().log.entries.push(entry);
    }

    pub(crate) fn log(&self) -> Log {
        self.inner().log.clone()
    }

    pub(crate) fn clear(&self) {
        *self.inner() = Inner::default();
    }

    /// Whether the log has followed this file since its creation, or since it was found.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.inner().names.iter().any(|(name, _)| name == path)
    }

    /// Notes that `path` was opened; `before` is what it held if it was there before.
    pub(crate) fn open(&self, path: PathBuf, before: Option<Vec<u8>>) -> Node {
        let mut inner = self.inner();
        if let Some(&(_, node)) = inner.names.iter().find(|(name, _)| *name == path) {
            inner.log.entries.push(Entry::Open(node));
            return node;
        }
        let node = Node(inner.nodes);
        inner.nodes += 1;
        inner.names.push((path.clone(), node));
        inner.log.entries.push(match before {
            Some(content) => Entry::Found(node, path, content.into()),
            None => Entry::Create(node, path),
        });
        node
    }

    /// Notes that a name was removed, if it is one of ours, and with `sync` that its directory was
    /// flushed with it.
    pub(crate) fn delete(&self, path: &Path, sync: bool) {
        let mut inner = self.inner();
        if let Some(at) = inner.names.iter().position(|(name, _)| name == path) {
            let (path, _) = inner.names.remove(at);
            let dir = parent(&path);
            inner.log.entries.push(Entry::Delete(path));
            if sync {
                inner.log.entries.push(Entry::SyncDir(dir));
            }
        }
    }

    /// Notes that a file was flushed, and its directory with it if one is given.
    pub(crate) fn sync(&self, node: Node, dir: Option<&Path>) {
        let entries = &mut self.inner().log.entries;
        entries.push(Entry::Sync(node));
        entries.extend(dir.map(|dir| Entry::SyncDir(dir.to_path_buf())));
    }

    pub(crate) fn drops_syncs(&self) -> bool {
        self.drop_syncs.load(Ordering::SeqCst)
    }

    /// Whether the flush that is asked for now is to fail.
    pub(crate) fn fails_sync(&self) -> bool {
        let next = |left: u32| left.checked_sub(1);
        self.fail_syncs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    pub(crate) fn set_fail_syncs(&self, count: u32) {
        self.fail_syncs.store(count, Ordering::SeqCst);
    }

    pub(crate) fn set_drop_syncs(&self, on: bool) {
        self.drop_syncs.store(on, Ordering::SeqCst);
    }
}
