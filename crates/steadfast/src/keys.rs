//! The file with the keys that credentials of callers are encrypted with.

use std::{fs::File, io::Read, path::Path};

use steadfast_engine::{Error, Result};
use steadfast_mcp::{CredentialKey, Secret};

/// The keys in a file, a line each, lines that begin with # aside. Errors name the line, never what is in
/// it.
pub(crate) fn read_keys(file: &Path) -> Result<Vec<CredentialKey>> {
    let shown = file.display();
    let unreadable = |error| Error::new(format!("the key file {shown} can't be read: {error}"));
    let mut open = File::open(file).map_err(unreadable)?;
    check_access(&open, file)?;
    let mut text = String::new();
    open.read_to_string(&mut text).map_err(unreadable)?;
    let text = Secret::from(text);
    let lines = text.expose().lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let keys = lines.map(|(n, line)| {
        line.parse().map_err(|error| Error::new(format!("line {} of {shown}: {error}", n + 1)))
    });
    let keys: Vec<CredentialKey> = keys.collect::<Result<_>>()?;
    match keys.is_empty() {
        true => Err(Error::new(format!(
            "the key file {shown} has no keys; make one with: (umask 077; openssl rand -hex 32 > {shown})"
        ))),
        false => Ok(keys),
    }
}

/// Refuses a file that others than its owner and group may open. Groups are how platforms hand secrets to
/// the user of a service.
#[cfg(unix)]
fn check_access(open: &File, file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = open.metadata()?.permissions().mode() & 0o777;
    if mode & 0o027 == 0 {
        return Ok(());
    }
    let shown = file.display();
    Err(Error::new(format!(
        "the key file {shown} may be opened by others (its mode is {mode:03o}): chmod 600 {shown}"
    )))
}

#[cfg(not(unix))]
fn check_access(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &Path, text: &str, mode: u32) {
        std::fs::write(file, text).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        #[cfg(not(unix))]
        let _ = mode;
    }

    #[test]
    fn a_key_file_is_read_and_its_errors_name_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        let (new, old) = ("ab".repeat(32), "cd".repeat(32));
        write(&file, &format!("# new\n{new}\n\n# old\n{old}\n"), 0o600);
        assert_eq!(read_keys(&file).unwrap().len(), 2);
        for (text, says) in
            [("abcd\n", "line 1"), (&*format!("{new}\nabcd"), "line 2"), ("#\n", "no keys")]
        {
            write(&file, text, 0o600);
            let error = read_keys(&file).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("abcd"), "{error}");
        }
        assert!(read_keys(Path::new("/nowhere/keys")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_that_others_may_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys");
        for (mode, fits) in [
            (0o400, true),
            (0o600, true),
            (0o640, true),
            (0o644, false),
            (0o602, false),
            (0o660, false),
        ] {
            write(&file, &"ab".repeat(32), mode);
            assert_eq!(read_keys(&file).is_ok(), fits, "{mode:o}");
        }
    }
}
