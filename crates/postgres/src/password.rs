//! Passwords that are not in the address: of the environment and of files.

use std::path::{Path, PathBuf};

use tokio_postgres::{Config, config::Host};

use crate::OpenError;

/// Where else a password may be.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// A file with nothing else in it.
    pub(crate) exact: Option<PathBuf>,
    /// A file in libpq's format; `~/.pgpass` if there is none.
    pub(crate) passfile: Option<PathBuf>,
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
}

impl Source {
    /// Looks for it, anew for every connection.
    pub(crate) fn find(&self, config: &Config) -> Result<Option<String>, OpenError> {
        if let Some(path) = &self.exact {
            let text = read(path)?;
            return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
        }
        if let Some(password) = std::env::var("PGPASSWORD").ok().filter(|text| !text.is_empty()) {
            return Ok(Some(password));
        }
        let home = self.home.as_ref().map(|home| home.join(".pgpass"));
        let path = match &self.passfile {
            Some(path) => path.clone(),
            None => match home.filter(|path| path.is_file()) {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        let text = read(&path)?;
        if others_can_read(&path) {
            let path = path.display();
            tracing::warn!(%path, "others can read this file of passwords: it is ignored, as libpq does");
            return Ok(None);
        }
        Ok(matching(&text, config))
    }
}

#[cfg(unix)]
fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_can_read(_: &Path) -> bool {
    false
}

fn read(path: &Path) -> Result<String, OpenError> {
    std::fs::read_to_string(path)
        .map_err(|e| OpenError::File { path: path.into(), detail: e.to_string() })
}

/// Where servers have their socket unless they are told otherwise: libpq knows the one that it was built
/// with.
#[cfg(unix)]
const DIRECTORIES: [&str; 3] = ["/tmp", "/var/run/postgresql", "/run/postgresql"];

/// The password of the first line that fits: `host:port:database:user:password`, where a star fits
/// everything.
fn matching(text: &str, config: &Config) -> Option<String> {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        // Where a server is expected to have its socket.
        #[cfg(unix)]
        Some(Host::Unix(path)) if !DIRECTORIES.iter().any(|usual| path == Path::new(usual)) => {
            path.to_string_lossy().into_owned()
        }
        _ => "localhost".into(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let wanted = [host.as_str(), &port, database, user];
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(fields);
    let mut fitting = lines.filter(|fields| {
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        fields.len() == 5 && fields.iter().zip(&wanted).all(fits)
    });
    fitting.next().and_then(|mut fields| fields.pop())
}

/// The five fields of a line; a backslash takes its meaning from what follows it.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        if let Some(last) = fields.last_mut() {
            last.push(c);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let config: Config = "postgres://ann@db:5433/app".parse().unwrap();
        let text = "# db:5433:app:ann:comment\nother:*:*:*:no\ndb:5433:app:bob:no\n\
                    db:5433:*:ann:a\\:b\\\\c:d\n*:*:*:*:late\n";
        assert_eq!(matching(text, &config).as_deref(), Some("a:b\\c:d"));
        assert_eq!(matching("db:5432:app:ann:no", &config), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_is_localhost_only_where_a_server_usually_has_it() {
        let text = "localhost:*:*:*:usual\n/own/run:*:*:*:own\n";
        for (host, password) in [
            ("/var/run/postgresql", Some("usual")),
            ("/tmp", Some("usual")),
            ("/own/run", Some("own")),
            ("/other", None),
        ] {
            let config: Config = format!("host={host} user=ann").parse().unwrap();
            assert_eq!(matching(text, &config).as_deref(), password, "{host}");
        }
    }
}
