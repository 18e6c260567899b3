//! What file system a database lies on.

use std::path::Path;

/// The name of the network file system that this directory is on, if it is on one.
///
/// The processes on a file share memory and locks. Over a network neither works between machines,
/// and some file systems pretend that it does.
#[cfg(target_os = "linux")]
pub(crate) fn network(directory: &Path) -> Option<&'static str> {
    // The numbers that statfs(2) gives; the type of the field differs between platforms.
    let kind = rustix::fs::statfs(directory).ok()?.f_type as u64 & 0xffff_ffff;
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
