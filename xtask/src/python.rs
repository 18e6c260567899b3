//! Python packages, as a list of requirements has them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Result, run, system, target};

/// Installs what a list says into an environment of this name among the built, and returns its Python.
pub(crate) fn install(list: &Path, name: &str) -> Result<PathBuf> {
    let place = target().join(name);
    let failed = |error| format!("{} can't be prepared: {error}", place.display());
    let wanted = fs::read(list).map_err(failed)?;
    // Written when all is there.
    let done = place.join("installed-requirements.txt");
    let python = place.join("bin/python");
    if python.exists() && fs::read(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    // Debian has the module without what it needs to install pip.
    system::have(&["python3", "-m", "ensurepip", "--version"], &["python3", "python3-venv"])?;
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&place);
    run(venv)?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    pip.arg(list);
    run(pip)?;
    fs::write(done, wanted).map_err(failed)?;
    Ok(python)
}
