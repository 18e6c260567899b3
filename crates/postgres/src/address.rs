//! Where the database is, and how to get in: what libpq's addresses have beside what the driver
//! knows.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Config, Connection, Socket, config::SslMode, error::SqlState};

use crate::{
    OpenError, Options,
    error::cause,
    hosts, password,
    tls::{Stream, Tls, Trust},
};

/// As libpq has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    fn parse(text: &str) -> Result<Mode, OpenError> {
        Ok(match text {
            "disable" => Mode::Disable,
            "allow" => Mode::Allow,
            "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" => Mode::VerifyCa,
            "verify-full" => Mode::VerifyFull,
            _ => {
                return Err(OpenError::Address(
                    "sslmode is none of disable, allow, prefer, require, verify-ca and verify-full"
                        .into(),
                ));
            }
        })
    }
}

/// Where the database is, and how to get in.
#[derive(Clone)]
pub(crate) struct Address {
    /// One for each host.
    hosts: Vec<Config>,
    /// The one that let us in last: it is tried first.
    last: Arc<AtomicUsize>,
    mode: Mode,
    tls: Option<Tls>,
    password: password::Source,
}

/// How the driver's end of a connection is polled.
pub(crate) type Wire = Connection<Socket, Stream>;

impl Address {
    pub(crate) fn parse(options: &Options) -> Result<Address, OpenError> {
        let mut own = Own::default();
        let rest = own.take_out(&options.address)?;
        // The driver's error may quote what it does not understand, and with it the password.
        let mut config: Config = rest.parse().map_err(|_| {
            OpenError::Address("what was given as the address of a database is none".into())
        })?;
        let env = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let mode = match own.mode.or_else(|| env("PGSSLMODE")) {
            Some(text) => Mode::parse(&text)?,
            None => Mode::Prefer,
        };
        let root = own.root.or_else(|| env("PGSSLROOTCERT"));
        let tls = match mode {
            Mode::Disable => None,
            _ => {
                // As libpq does it: with a root at hand, `require` verifies that far.
                let trust = match mode {
                    Mode::VerifyFull => Trust::NameToo,
                    Mode::VerifyCa => Trust::Root,
                    Mode::Require if root.is_some() => Trust::Root,
                    _ => Trust::Anybody,
                };
                Some(Tls::new(trust, root, own.cert, own.key)?)
            }
        };
        let password = password::Source {
            exact: options.password_file.clone(),
            passfile: own.passfile.or_else(|| env("PGPASSFILE")).map(PathBuf::from),
        };
        if config.get_application_name().is_none() {
            config.application_name("steadfast");
        }
        // A peer that is gone without a word is noticed in time.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(options.lease.max(Duration::from_secs(5)));
        }
        config.keepalives_idle(options.lease);
        Ok(Address { hosts: hosts::each(&config)?, last: Arc::default(), mode, tls, password })
    }

    /// A connection whose messages are polled by a task of this runtime. It ends with that.
    pub(crate) async fn connect(&self) -> Result<(Client, AbortHandle), OpenError> {
        let (client, wire) = self.wire().await?;
        let polled = tokio::spawn(async move {
            // Whoever uses it finds out by its calls.
            let _ = wire.await;
        });
        Ok((client, polled.abort_handle()))
    }

    /// A connection, and what must be polled for it: to the first host that lets us in.
    pub(crate) async fn wire(&self) -> Result<(Client, Wire), OpenError> {
        let count = self.hosts.len();
        let first = hosts::at_random(&self.hosts).unwrap_or(self.last.load(Ordering::Relaxed));
        let mut whys = Vec::new();
        for at in (first..first + count).map(|at| at % count) {
            let host = &self.hosts[at];
            let patience = host.get_connect_timeout().copied().unwrap_or(hosts::PATIENCE);
            let why = match tokio::time::timeout(patience, self.reach(host)).await {
                Ok(Ok(connected)) => {
                    self.last.store(at, Ordering::Relaxed);
                    return Ok(connected);
                }
                Ok(Err(OpenError::Connect(why))) => why,
                Ok(Err(error)) => return Err(error),
                Err(_) => format!("it says nothing for {patience:?}"),
            };
            whys.push(format!("{}: {why}", hosts::name(host)));
        }
        Err(OpenError::Connect(whys.join("; ")))
    }

    /// With encryption or without, as the mode has it.
    async fn reach(&self, host: &Config) -> Result<(Client, Wire), OpenError> {
        let modes: &[SslMode] = match self.mode {
            Mode::Disable => &[SslMode::Disable],
            Mode::Allow => &[SslMode::Disable, SslMode::Require],
            Mode::Prefer => &[SslMode::Prefer, SslMode::Disable],
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => &[SslMode::Require],
        };
        let mut host = host.clone();
        if host.get_password().is_none()
            && let Some(password) = self.password.find(&host)?
        {
            host.password(password);
        }
        let mut last = String::new();
        for mode in modes {
            host.ssl_mode(*mode);
            let tls = self.tls.clone().unwrap_or_else(Tls::none);
            match host.connect(tls).await {
                Ok(connected) => return Ok(connected),
                Err(error) => {
                    last = cause(&error);
                    if !is_of_the_way(&error) {
                        break;
                    }
                }
            }
        }
        Err(OpenError::Connect(last))
    }
}

/// Whether it may be otherwise with encryption, or without: the server's rules are about that, or it
/// has none.
fn is_of_the_way(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        None => error.to_string().contains("TLS"),
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// The parameters that the driver does not know.
#[derive(Default)]
struct Own {
    mode: Option<String>,
    root: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    passfile: Option<String>,
}

impl Own {
    fn slot(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            "sslcert" => &mut self.cert,
            "sslkey" => &mut self.key,
            "passfile" => &mut self.passfile,
            _ => return None,
        })
    }

    /// Takes them out of an address of either form.
    fn take_out(&mut self, address: &str) -> Result<String, OpenError> {
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return self.take_out_words(address);
        }
        let Some((front, query)) = address.split_once('?') else { return Ok(address.into()) };
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').and_then(|(name, v)| Some((self.slot(name)?, v))) {
                Some((slot, value)) => *slot = Some(unescaped(value)?),
                None => rest.push(pair),
            }
        }
        Ok(match rest.is_empty() {
            true => front.into(),
            false => format!("{front}?{}", rest.join("&")),
        })
    }

    /// Of `name=value name='value'`. A value of ours has no spaces unless it is quoted.
    fn take_out_words(&mut self, address: &str) -> Result<String, OpenError> {
        let mut rest = String::new();
        let mut left = address.trim_start();
        while !left.is_empty() {
            let end = word_end(left);
            let (word, behind) = left.split_at(end);
            let pair = word.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            match pair.and_then(|(name, value)| Some((self.slot(name)?, value))) {
                Some((slot, value)) => {
                    *slot = Some(value.trim_matches('\'').replace("\\'", "'"));
                }
                None => rest = format!("{rest} {word}"),
            }
            left = behind.trim_start();
        }
        Ok(rest.trim_start().into())
    }
}

/// Where the first pair of a list ends.
fn word_end(text: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

fn unescaped(text: &str) -> Result<String, OpenError> {
    let wrong = || OpenError::Address("a % in the address is not followed by two digits".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(left.next()?).to_digit(16);
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                u8::try_from(high * 16 + low).map_err(|_| wrong())?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Shared by everything that connects.
pub(crate) type Shared = Arc<Address>;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(address: &str) -> Result<Address, OpenError> {
        Address::parse(&Options::new(address))
    }

    #[test]
    fn our_own_parameters_are_taken_out_of_both_forms() {
        for text in [
            "postgres://u:secret@h:5433/d?sslmode=verify-ca&application_name=x&passfile=%2Fp%20q",
            "host=h port=5433 user=u password=secret dbname=d sslmode=verify-ca \
             application_name=x passfile='/p q'",
        ] {
            let mut own = Own::default();
            let rest = own.take_out(text).unwrap();
            assert!(!rest.contains("sslmode") && !rest.contains("passfile"), "{rest}");
            assert_eq!(own.mode.as_deref(), Some("verify-ca"));
            assert_eq!(own.passfile.as_deref(), Some("/p q"));
            let config: Config = rest.parse().unwrap();
            assert_eq!(config.get_application_name(), Some("x"));
            assert_eq!((config.get_dbname(), config.get_user()), (Some("d"), Some("u")));
            assert_eq!(config.get_ports(), [5433]);
        }
    }

    #[test]
    fn a_password_is_in_no_error_and_no_debug_text() {
        for text in [
            "postgres://u:secret@h:x/d",
            "postgres://u:secret@h/d?sslmode=secret",
            "postgres://u:secret@h/d?password=secret&nonsense=secret",
            "secret",
            "password=secret nonsense=secret",
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(!format!("{:?}", Options::new(text)).contains("secret"));
        }
        let good = parsed("postgres://u:secret@h/d?sslmode=disable").unwrap();
        assert!(!format!("{good:?}").contains("secret"));
    }
}
