//! The official schemas of MCP, and what the server says in its tests held against them.
//!
//! The tests write down every message that their clients hear; a script in `harness/schemas` reads the
//! schemas out of the packages that carry them, and judges.

use std::{fs, path::PathBuf, process::Command};

use crate::{Result, cargo, npm, root, run, target};

/// How many messages there were at least when this was last looked at: fewer would mean that they are
/// not written down any more.
const LEAST: &str = "800";

/// The tests that write down what they hear.
pub(crate) const THOSE_THAT_TALK: [&str; 6] =
    ["--package", "steadfast-mcp", "--test", "it", "--test", "rounds_and_streams"];

/// Fetches the packages that carry the schemas.
pub(crate) fn install() -> Result<PathBuf> {
    npm::install(&root().join("harness/schemas"), "schemas")
}

/// Runs tests, and judges what was said in them.
pub(crate) fn schemas(tests: &[&str]) -> Result<()> {
    let from = root().join("harness/schemas");
    let place = install()?;
    let failed = |error| format!("{} can't be prepared: {error}", place.display());
    for file in ["official.mjs", "validate.mjs", "self-test.mjs", "check.mjs"] {
        fs::copy(from.join(file), place.join(file)).map_err(failed)?;
    }
    let traffic = target().join("schemas/traffic");
    if traffic.exists() {
        fs::remove_dir_all(&traffic).map_err(failed)?;
    }
    fs::create_dir_all(&traffic).map_err(failed)?;
    let traffic = traffic.canonicalize().map_err(failed)?;

    let mut test = cargo(&["test"]);
    test.args(tests).env("STEADFAST_TRAFFIC", &traffic);
    run(test)?;
    let mut check = Command::new(place.join("node_modules/node/bin/node"));
    check.arg(place.join("check.mjs")).arg(traffic).arg(LEAST);
    run(check)
}
