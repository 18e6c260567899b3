//! Programs of the system that others need.

use std::process::{Command, Stdio};

use crate::{Result, run};

/// Makes sure that a command works: as root on Debian or Ubuntu by installing the packages it is in.
pub(crate) fn have(command: &[&str], packages: &[&str]) -> Result<()> {
    if works(command) {
        return Ok(());
    }
    if is_root() && works(&["apt-get", "--version"]) {
        let apt = |args: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.args(args).env("DEBIAN_FRONTEND", "noninteractive");
            run(apt)
        };
        apt(&["update"])?;
        apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat())?;
        if works(command) {
            return Ok(());
        }
    }
    let (command, packages) = (command.join(" "), packages.join(" "));
    Err(format!("`{command}` does not work (Debian, Ubuntu: apt-get install {packages})"))
}

fn works(command: &[&str]) -> bool {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    process.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
