//! Where the programs are, and who may run them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use super::StartError;

/// Names the directory with the server programs, if they are not to be looked for.
pub(super) const DIRECTORY: &str = "STEADFAST_POSTGRES";

/// The oldest version that a store opens.
const OLDEST: u32 = 14;

/// The directory with the server programs: that which is named, or the first of the path, or that of the
/// newest Debian package.
pub(super) fn programs() -> Result<PathBuf, StartError> {
    programs_of(std::env::var_os(DIRECTORY).map(PathBuf::from))
}

fn programs_of(named: Option<PathBuf>) -> Result<PathBuf, StartError> {
    let dir = match named {
        Some(dir) if complete(&dir) => dir,
        Some(dir) => {
            let (initdb, postgres) = (dir.join("initdb"), dir.join("postgres"));
            let (initdb, postgres) = (initdb.display(), postgres.display());
            let text = format!("{DIRECTORY} is set, and there is no {initdb} or no {postgres}");
            return Err(StartError::Failed(text));
        }
        None => installed().ok_or(StartError::NotInstalled)?,
    };
    let found = version(&dir)?;
    new_enough(dir, found)
}

fn new_enough(directory: PathBuf, found: String) -> Result<PathBuf, StartError> {
    let digits = found.split(|c: char| !c.is_ascii_digit()).next();
    let number = digits.and_then(|digits| digits.parse::<u32>().ok());
    match number.is_some_and(|number| number >= OLDEST) {
        true => Ok(directory),
        false => Err(StartError::TooOld { directory, found }),
    }
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|dir| complete(dir));
    on_path.or_else(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let dirs = versions.map(|version| version.path().join("bin")).filter(|dir| complete(dir));
        dirs.max_by_key(|dir| package(dir))
    })
}

fn version(dir: &Path) -> Result<String, StartError> {
    let said = Command::new(dir.join("postgres")).arg("--version").output()?;
    let wrong = String::from_utf8_lossy(&said.stderr);
    parsed(&String::from_utf8_lossy(&said.stdout)).ok_or_else(|| {
        StartError::Failed(format!("{}/postgres does not say its version: {wrong}", dir.display()))
    })
}

/// What the server calls its version, such as `15.13` or `19beta1`.
fn parsed(said: &str) -> Option<String> {
    let (_, behind) = said.split_once("(PostgreSQL) ")?;
    behind.split_whitespace().next().map(str::to_owned)
}

/// Another program of theirs: Debian has some of them elsewhere than where the server's are linked to.
pub(super) fn program(programs: &Path, name: &str) -> Option<PathBuf> {
    let server = programs.join("postgres");
    let home = server.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = home.into_iter().chain(std::env::split_paths(&path));
    dirs.map(|dir| dir.join(name)).find(|program| program.is_file())
}

fn complete(dir: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file())
}

/// The version that a directory of Debian's is named after.
fn package(dir: &Path) -> Option<u32> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_no_store_opens_are_refused_and_so_is_what_is_none() {
        let empty = tempfile::tempdir().unwrap();
        let none = programs_of(Some(empty.path().into())).unwrap_err().to_string();
        assert!(none.contains("STEADFAST_POSTGRES is set, and there is no"), "{none}");
        assert_eq!(parsed("something else"), None);
        let found = |said: &str| new_enough("/bin".into(), parsed(said).unwrap());
        let old = found("postgres (PostgreSQL) 13.23 (Debian 13.23-1)").unwrap_err().to_string();
        assert!(old.contains("/bin is version 13.23; install 14 or newer"), "{old}");
        assert!(found("postgres (PostgreSQL) 9.6.24").is_err());
        for newer in ["postgres (PostgreSQL) 14.0", "postgres (PostgreSQL) 19beta1"] {
            assert!(found(newer).is_ok(), "{newer}");
        }
    }
}
