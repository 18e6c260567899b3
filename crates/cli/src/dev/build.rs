//! Building.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    Dev,
    project::{Project, cargo, run},
};
use crate::Result;

/// What a build comes to.
pub(super) enum Built {
    Executable(PathBuf),
    /// Cargo has said why.
    Broken,
}

/// Builds it. Dropped before its end, cargo is stopped.
pub(super) async fn build(dev: &Dev, project: &Project) -> Result<Built> {
    let mut command = cargo();
    command.args(["build", "--message-format", "json-render-diagnostics"]);
    command.args(["--package", &project.package, "--bin", &project.bin]);
    if dev.release {
        command.arg("--release");
    }
    if let Some(path) = &dev.manifest_path {
        command.arg("--manifest-path").arg(path);
    }
    let output = run(command.args(&dev.cargo_arg)).await?;
    if !output.status.success() {
        return Ok(Built::Broken);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut executables = messages
        .filter(|message| message["target"]["name"] == *project.bin)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables
        .next_back()
        .map(Built::Executable)
        .ok_or_else(|| format!("cargo has built no executable {}", project.bin).into())
}
