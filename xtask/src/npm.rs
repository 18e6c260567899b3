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
    // It is fetched by a script of its package.
    install_with(from, name, &["node_modules/node/bin/node".into()], &[])
}

/// The same of packages without a Node, of which no script is run, and that must have these files.
pub(crate) fn install_files(from: &Path, name: &str, files: &[PathBuf]) -> Result<PathBuf> {
    install_with(from, name, files, &["--ignore-scripts"])
}

fn install_with(from: &Path, name: &str, files: &[PathBuf], how: &[&str]) -> Result<PathBuf> {
    let place = target().join(name);
    let failed = |error| format!("{} can't be prepared: {error}", place.display());
    let lock = fs::read(from.join("package-lock.json")).map_err(failed)?;
    // Written when all is there.
    let done = place.join("installed-lock.json");
    let missing = || files.iter().map(|file| place.join(file)).find(|file| !file.exists());
    if missing().is_none() && fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Ok(place);
    }
    system::have(&["npm", "--version"], &["nodejs", "npm"])?;
    fs::create_dir_all(&place).map_err(failed)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(from.join(file), place.join(file)).map_err(failed)?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund", "--loglevel", "error"])
        .args(how)
        .current_dir(&place);
    run(npm)?;
    if let Some(missing) = missing() {
        return Err(format!("npm has installed no {}, or ran no script", missing.display()));
    }
    fs::write(done, lock).map_err(failed)?;
    Ok(place)
}
