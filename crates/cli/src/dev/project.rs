//! What is built, and where its source is.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use serde_json::Value;
use tokio::process::Command;

use super::Dev;
use crate::Result;

/// The project as cargo describes it.
pub(super) struct Project {
    /// The name of the binary.
    pub(super) bin: String,
    /// The package it is of.
    pub(super) package: String,
    /// Directories with source: all that is below them.
    pub(super) source: BTreeSet<PathBuf>,
    /// Directories with manifests: only the files in them.
    pub(super) manifests: BTreeSet<PathBuf>,
}

/// The cargo that runs us, or that is found.
pub(super) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs cargo for its output; what it has to say goes to the person. Dropped before its end, it is
/// stopped.
pub(super) async fn run(command: &mut Command) -> Result<Output> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let wrong = |error| format!("cargo can't be run: {error}");
    let running = command.kill_on_drop(true).spawn().map_err(wrong)?;
    Ok(running.wait_with_output().await.map_err(wrong)?)
}

impl Project {
    pub(super) async fn find(dev: &Dev) -> Result<Project> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        if let Some(path) = &dev.manifest_path {
            command.arg("--manifest-path").arg(path);
        }
        let output = run(&mut command).await?;
        if !output.status.success() {
            return Err("cargo can't describe the project".into());
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        Project::read(&metadata, dev.package.as_deref(), dev.bin.as_deref())
    }

    fn read(metadata: &Value, package: Option<&str>, bin: Option<&str>) -> Result<Project> {
        let members = metadata["packages"].as_array().cloned().unwrap_or_default();
        let wanted = |member: &&Value| package.is_none_or(|name| member["name"] == name);
        let defaults = metadata["workspace_default_members"].as_array();
        let default = |member: &&Value| {
            package.is_some() || defaults.is_none_or(|all| all.contains(&member["id"]))
        };
        let mut found = Vec::new();
        for member in members.iter().filter(wanted).filter(default) {
            for target in targets(member).filter(|target| is(target, "bin")) {
                let name = target["name"].as_str().unwrap_or_default();
                let chosen = match (bin, member["default_run"].as_str()) {
                    (Some(bin), _) => name == bin,
                    (None, Some(default)) => name == default,
                    (None, None) => true,
                };
                if chosen {
                    found.push((member["name"].as_str().unwrap_or_default(), name));
                }
            }
        }
        let (package, bin) = match found[..] {
            [one] => one,
            [] => return Err("there is no such binary in this project".into()),
            _ => {
                let names: Vec<&str> = found.iter().map(|(_, bin)| *bin).collect();
                let names = names.join(", ");
                return Err(
                    format!("there are several binaries; say --bin with one of {names}").into()
                );
            }
        };
        let (mut source, mut manifests) = (BTreeSet::new(), BTreeSet::new());
        manifests.extend(metadata["workspace_root"].as_str().map(PathBuf::from));
        for member in &members {
            let Some(home) = member["manifest_path"].as_str().map(Path::new).and_then(Path::parent)
            else {
                continue;
            };
            manifests.insert(home.to_owned());
            source.insert(home.join("src"));
            let wanted = ["bin", "lib", "proc-macro"];
            let paths = targets(member).filter(|target| wanted.iter().any(|kind| is(target, kind)));
            for path in paths.filter_map(|target| target["src_path"].as_str()) {
                // A target may be anywhere; right beside the manifest it is watched already.
                let parent = Path::new(path).parent().filter(|parent| *parent != home);
                source.extend(parent.map(Path::to_owned));
            }
        }
        source.retain(|path| path.is_dir());
        Ok(Project { bin: bin.to_owned(), package: package.to_owned(), source, manifests })
    }
}

fn targets(member: &Value) -> impl Iterator<Item = &Value> {
    member["targets"].as_array().into_iter().flatten()
}

fn is(target: &Value, kind: &str) -> bool {
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata() -> Value {
        let bin =
            |name: &str| json!({ "name": name, "kind": ["bin"], "src_path": "/w/a/src/x.rs" });
        json!({ "workspace_root": "/w", "workspace_default_members": ["1", "2"], "packages": [
            { "id": "1", "name": "a", "manifest_path": "/w/a/Cargo.toml", "targets": [bin("one")] },
            { "id": "2", "name": "b", "manifest_path": "/w/b/Cargo.toml", "default_run": "two",
              "targets": [bin("two"), bin("three")] },
            { "id": "3", "name": "c", "manifest_path": "/w/c/Cargo.toml", "targets": [bin("four")] },
        ] })
    }

    #[test]
    fn the_binary_is_the_only_one_or_the_default_or_what_was_said() {
        let bin = |package, bin| Project::read(&metadata(), package, bin).map(|found| found.bin);
        assert_eq!(bin(Some("a"), None).unwrap(), "one");
        assert_eq!(bin(Some("b"), None).unwrap(), "two");
        assert_eq!(bin(None, Some("three")).unwrap(), "three");
        assert_eq!(bin(Some("c"), None).unwrap(), "four");
        let several = bin(None, None).unwrap_err().message;
        assert!(several.contains("one, two"), "{several}");
        assert!(bin(None, Some("five")).is_err());
    }

    #[test]
    fn all_members_are_watched() {
        let project = Project::read(&metadata(), Some("a"), None).unwrap();
        let homes: Vec<&str> = project.manifests.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(homes, ["/w", "/w/a", "/w/b", "/w/c"]);
    }
}
