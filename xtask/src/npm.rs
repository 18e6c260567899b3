//! Programs from npm, as a lock file has them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, run, system, target};

/// Installs what the lock file in a directory says into a directory of this name among the built, which
/// is returned, and the Node that it brings with it.
pub(crate) fn install(from: &Path, name: &str) -> Result<PathBuf> {
    let place = target().join(name);
    let failed = |error| format!("{} can't be prepared: {error}", place.display());
    let lock = fs::read(from.join("package-lock.json")).map_err(failed)?;
    // Written when all is there.
    let done = place.join("installed-lock.json");
    let node = place.join("node_modules/node/bin/node");
    if node.exists() && fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Ok(place);
    }
    system::have(&["npm", "--version"], &["nodejs", "npm"])?;
    fs::create_dir_all(&place).map_err(failed)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(from.join(file), place.join(file)).map_err(failed)?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"]).current_dir(&place);
    run(npm)?;
    if !node.exists() {
        // It is fetched by a script of its package.
        return Err(format!("npm ran no script, so that {} is missing", node.display()));
    }
    fs::write(done, lock).map_err(failed)?;
    Ok(place)
}
