//! Where the programs are, and who may run them.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The directory with the newest server programs: of the path, or of a Debian package.
pub(super) fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|dir| complete(dir));
    on_path.or_else(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let dirs = versions.map(|version| version.path().join("bin")).filter(|dir| complete(dir));
        dirs.max_by_key(|dir| version(dir))
    })
}

/// Another program of theirs: Debian has some of them elsewhere than where the server's are linked to.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let server = programs()?.join("postgres");
    let home = server.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = home.into_iter().chain(std::env::split_paths(&path));
    dirs.map(|dir| dir.join(name)).find(|program| program.is_file())
}

fn complete(dir: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file())
}

fn version(dir: &Path) -> Option<u32> {
    dir.parent()?.file_name()?.to_str()?.parse().ok()
}

/// The user and group to run a server as. The server refuses to be run by root, so that root needs
/// somebody else to do it; `None` is whoever we are.
pub(super) fn servant() -> Option<(u32, u32)> {
    static SERVANT: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *SERVANT.get_or_init(|| {
        if !are_root() {
            return None;
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        ["postgres", "nobody"].iter().find_map(|name| {
            let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
            let fields = lines.find(|fields| fields.first() == Some(name))?;
            Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
        })
    })
}

/// What we make is ours, which says who we are.
#[cfg(unix)]
fn are_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    let made = tempfile::tempfile().and_then(|file| file.metadata());
    made.is_ok_and(|made| made.uid() == 0)
}

#[cfg(not(unix))]
fn are_root() -> bool {
    false
}
