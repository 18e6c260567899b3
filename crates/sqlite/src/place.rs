//! What file system a database lies on.

use std::path::Path;

/// The name of the network file system that this directory is on, if it is on one.
///
/// The processes on a file share memory and locks. Over a network neither works between machines,
/// and some file systems pretend that it does.
#[cfg(target_os = "linux")]
pub(crate) fn network(directory: &Path) -> Option<&'static str> {
    // The type of the field differs between platforms.
    network_kind(rustix::fs::statfs(directory).ok()?.f_type as u64 & 0xffff_ffff)
}

/// The name of a network file system by the number that statfs(2) has for it.
#[cfg(target_os = "linux")]
fn network_kind(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x564c => "NCP",
        0x5346_414f => "AFS",
        0x0bd0_0bd0 => "Lustre",
        0x00c3_6400 => "Ceph",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x6573_5546 => "FUSE",
        _ => return None,
    })
}

/// Known on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network(_: &Path) -> Option<&'static str> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::Path;

    use super::{network, network_kind};

    #[test]
    fn file_systems_of_this_machine_are_told_from_those_of_others() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xff53_4d42), Some("SMB"));
        for (local, kind) in [("ext4", 0xef53), ("xfs", 0x5846_5342), ("btrfs", 0x9123_683e)] {
            assert_eq!(network_kind(kind), None, "{local}");
        }
        assert_eq!(network(Path::new("/proc")), None);
        assert_eq!(network(Path::new("/no/such/directory")), None);
    }
}
