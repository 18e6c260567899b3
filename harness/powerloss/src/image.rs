//! What a power cut can leave of a log.

use std::{
    collections::BTreeMap,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    disk::{Change, Content, Disk, Name, apply, put},
    log::{Log, Node},
    rng::Rng,
};

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// How an image treats what was not flushed at the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it is there: only the process died.
    Nothing,
    /// None of it is there.
    Everything,
    /// It is there up to some point of each file's log; the write at that point is torn.
    Tail,
    /// Each write is kept, lost or torn by chance, so that a later one may have overtaken an
    /// earlier one.
    Chance,
    /// The same, and where writes overlap the older may even win.
    Shuffled,
}

impl Loss {
    const ALL: [Loss; 5] =
        [Loss::Nothing, Loss::Everything, Loss::Tail, Loss::Chance, Loss::Shuffled];
}

/// A database's files as they may be found when the power is back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The seed of the series it belongs to.
    pub seed: u64,
    /// How much of the log had happened.
    pub cut: usize,
    /// How the rest was treated.
    pub loss: Loss,
    /// What the test had marked before the cut, in order.
    pub marks: Vec<Arc<str>>,
    /// The files by the path they were recorded under. There is no `-shm` among them, since SQLite
    /// builds it anew.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Image {
    /// Writes the files into a directory, under their own names.
    ///
    /// # Errors
    ///
    /// If a file can't be written.
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        for (path, bytes) in &self.files {
            let name = path.file_name().ok_or_else(|| io::Error::other("a file without a name"))?;
            fs::write(dir.join(name), bytes)?;
        }
        Ok(())
    }

    /// Writes the files into a new directory that stays, for a person to look at.
    ///
    /// # Errors
    ///
    /// If a file can't be written.
    pub fn keep(&self) -> io::Result<PathBuf> {
        let dir = tempfile::Builder::new().prefix("powerloss-").tempdir()?.keep();
        self.write_to(&dir)?;
        Ok(dir)
    }
}

/// A series of images, in the order of their cuts. See
/// [`Recorder::images`](crate::Recorder::images).
pub struct Images {
    log: Log,
    seed: u64,
    rng: Rng,
    /// Sorted, the next one last, so that the log is followed once and not once per image.
    cuts: Vec<usize>,
    disk: Disk,
}

impl Images {
    pub(crate) fn new(log: Log, seed: u64, count: usize) -> Images {
        let mut rng = Rng::new(seed);
        let mut cuts: Vec<usize> = (0..count).map(|_| rng.below(log.entries.len() + 1)).collect();
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        Images { log, seed, rng, cuts, disk: Disk::default() }
    }
}

impl Iterator for Images {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        let cut = self.cuts.pop()?;
        while self.disk.at() < cut {
            self.disk.follow(&self.log.entries[self.disk.at()]);
        }
        let loss = Loss::ALL[self.rng.below(Loss::ALL.len())];
        let files = build(&self.disk, loss, &mut self.rng);
        Some(Image { seed: self.seed, cut, loss, marks: self.disk.marks.clone(), files })
    }
}

impl Log {
    /// `count` images of this log. See [`Recorder::images`](crate::Recorder::images).
    #[must_use]
    pub fn images(&self, seed: u64, count: usize) -> Images {
        Images::new(self.clone(), seed, count)
    }

    /// One image of this log: cut behind `cut` entries, the loss chosen, the rest by the seed.
    #[must_use]
    pub fn image(&self, cut: usize, loss: Loss, seed: u64) -> Image {
        let mut disk = Disk::default();
        self.entries.iter().take(cut).for_each(|entry| disk.follow(entry));
        let files = build(&disk, loss, &mut Rng::new(seed));
        Image { seed, cut: disk.at(), loss, marks: disk.marks, files }
    }
}

fn build(disk: &Disk, loss: Loss, rng: &mut Rng) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for (path, name) in &disk.names {
        if let Some(node) = resolve(name, loss, rng) {
            files.insert(path.clone(), decay(&disk.contents[node.0], loss, rng));
        }
    }
    files
}

/// What a name leads to. Changes of one name are never swapped; those of two names may be.
fn resolve(name: &Name, loss: Loss, rng: &mut Rng) -> Option<Node> {
    let kept = match loss {
        Loss::Nothing => name.pending.len(),
        Loss::Everything => 0,
        Loss::Tail | Loss::Chance | Loss::Shuffled => rng.below(name.pending.len() + 1),
    };
    name.pending[..kept].last().copied().unwrap_or(name.durable)
}

fn decay(content: &Content, loss: Loss, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = content.durable.clone();
    let mut pending: Vec<&Change> = content.pending.iter().collect();
    match loss {
        Loss::Nothing => pending.iter().for_each(|change| apply(&mut bytes, change)),
        Loss::Everything => {}
        Loss::Tail => {
            let kept = rng.below(pending.len() + 1);
            pending[..kept].iter().for_each(|change| apply(&mut bytes, change));
            if let Some(change) = pending.get(kept) {
                tear(&mut bytes, change, rng);
            }
        }
        Loss::Chance | Loss::Shuffled => {
            if loss == Loss::Shuffled {
                rng.shuffle(&mut pending);
            }
            // From "almost all is there" to "almost nothing is": with one fixed share, long runs
            // of either would never be seen.
            let (keep, torn) = (rng.below(101) as u64, rng.below(101) as u64);
            for change in pending {
                if rng.chance(keep) {
                    apply(&mut bytes, change);
                } else if rng.chance(torn) {
                    tear(&mut bytes, change, rng);
                }
            }
        }
    }
    bytes
}

/// Lets a write happen in part. There is no half of a truncation.
fn tear(bytes: &mut Vec<u8>, change: &Change, rng: &mut Rng) {
    let Change::Write(offset, new) = change else {
        return;
    };
    let sectors = sectors(*offset, new.len());
    let whole = rng.below(sectors.len() + 1);
    let shape = rng.below(3);
    let broken = rng.below(sectors.len());
    for (number, range) in sectors.into_iter().enumerate() {
        let at = offset + range.start as u64;
        let part = &new[range];
        match shape {
            0 if number < whole => put(bytes, at, part),
            1 if rng.chance(50) => put(bytes, at, part),
            2 if number == broken => {
                // A block that was allotted and never written reads as zeros.
                let mut noise = vec![0; part.len()];
                if rng.chance(70) {
                    rng.fill(&mut noise);
                }
                put(bytes, at, &noise);
            }
            2 => put(bytes, at, part),
            _ => {}
        }
    }
}

/// The parts of a write, cut where the file's sectors meet.
fn sectors(offset: u64, len: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < len {
        let room = (SECTOR - (offset + start as u64) % SECTOR) as usize;
        let end = (start + room).min(len);
        parts.push(start..end);
        start = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Entry;

    /// One flushed file of a's, overwritten with b's without a flush.
    fn overwritten() -> Log {
        Log {
            entries: vec![
                Entry::Found(Node(0), "/d/a".into(), vec![b'a'; 4096].into()),
                Entry::Write(Node(0), 100, vec![b'b'; 3000].into()),
                Entry::Mark("told".into()),
            ],
        }
    }

    #[test]
    fn sectors_are_those_of_the_file_and_not_of_the_write() {
        assert_eq!(sectors(500, 600), [0..12, 12..524, 524..600]);
        assert_eq!(sectors(512, 512), vec![0..512]);
        assert_eq!(sectors(0, 0), []);
    }

    #[test]
    fn the_same_seed_builds_the_same_images() {
        let series = |seed| Images::new(overwritten(), seed, 50).collect::<Vec<_>>();
        assert_eq!(series(7), series(7));
        assert_ne!(series(7), series(8));
    }

    #[test]
    fn a_torn_write_leaves_the_bytes_around_it_alone() {
        for image in Images::new(overwritten(), 1, 500) {
            for bytes in image.files.values() {
                assert_eq!(bytes[..100], [b'a'; 100]);
                assert_eq!(bytes[3100..], [b'a'; 996]);
            }
        }
    }

    #[test]
    fn an_unflushed_write_is_seen_whole_lost_with_holes_and_with_garbage() {
        let [mut whole, mut lost, mut holes, mut garbage] = [false; 4];
        for image in Images::new(overwritten(), 1, 500).filter(|image| image.cut >= 2) {
            let written = &image.files[Path::new("/d/a")][100..3100];
            whole |= written.iter().all(|byte| *byte == b'b');
            lost |= written.iter().all(|byte| *byte == b'a');
            holes |= written[0] == b'a' && written[2999] == b'b';
            garbage |= written.iter().any(|byte| !b"ab\0".contains(byte));
        }
        assert_eq!([whole, lost, holes, garbage], [true; 4]);
    }

    #[test]
    fn a_mark_is_in_an_image_only_behind_it() {
        let log = overwritten();
        assert!(log.image(2, Loss::Nothing, 0).marks.is_empty());
        assert_eq!(log.image(3, Loss::Nothing, 0).marks, ["told".into()]);
    }
}
