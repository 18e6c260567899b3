//! Programs of PostgreSQL, run by somebody who may, since it does not run as root; and files that belong to him.

use std::{path::Path, process::Command};

use super::{find, server::StartError};

/// A directory that belongs to whoever runs what is in it.
pub(super) fn home(prefix: &str, below: Option<&Path>) -> std::io::Result<tempfile::TempDir> {
    let below = below.map_or_else(std::env::temp_dir, Path::to_owned);
    // The server is told where it is, and may be started from elsewhere.
    let home = tempfile::Builder::new().prefix(prefix).tempdir_in(std::path::absolute(below)?)?;
    if let Some((user, group)) = find::servant() {
        #[cfg(unix)]
        std::os::unix::fs::chown(home.path(), Some(user), Some(group))?;
        #[cfg(not(unix))]
        let _ = (user, group);
    }
    Ok(home)
}

/// Writes a file that only the server may read.
pub(super) fn put(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        if let Some((user, group)) = find::servant() {
            std::os::unix::fs::chown(path, Some(user), Some(group))?;
        }
    }
    Ok(())
}

/// Runs a program to its end, and gives what it printed.
pub(super) fn run_as_servant(command: &mut Command) -> Result<String, StartError> {
    as_servant(command.current_dir("/"));
    let done = command.output()?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(StartError::Failed(String::from_utf8_lossy(&done.stderr).into_owned())),
    }
}

/// Lets a program be run by somebody who may run a server.
pub(super) fn as_servant(command: &mut Command) {
    #[cfg(unix)]
    if let Some((user, group)) = find::servant() {
        use std::os::unix::process::CommandExt;
        command.uid(user).gid(group);
    }
}
