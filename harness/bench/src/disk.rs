//! What the stores lie on: where nothing is ever flushed, a figure says nothing.

use std::path::Path;

use crate::Result;

/// The name of the file system of a directory. An error if it is in memory, where to flush costs nothing.
pub(crate) fn check(directory: &Path) -> Result<String> {
    // The type of the field differs between platforms.
    let kind = rustix::fs::statfs(directory)?.f_type as u64 & 0xffff_ffff;
    match kind {
        0x0102_1994 | 0x8584_58f6 => Err(format!(
            "{} is in memory, where a flush to the disk costs nothing: give --dir with a directory on a disk",
            directory.display()
        )
        .into()),
        kind => Ok(name(kind)),
    }
}

/// By the number that statfs(2) has for it.
fn name(kind: u64) -> String {
    match kind {
        0xef53 => "ext2/3/4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x2fc1_2fc1 => "zfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        0x794c_7630 => "overlayfs".into(),
        other => format!("file system {other:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_from_a_disk() {
        assert_eq!(name(0xef53), "ext2/3/4");
        assert_eq!(name(0x1234), "file system 0x1234");
        // Linux has one everywhere.
        let refused = check(Path::new("/dev/shm")).unwrap_err().to_string();
        assert!(refused.contains("--dir"), "{refused}");
        assert!(check(Path::new(env!("CARGO_MANIFEST_DIR"))).is_ok());
    }
}
