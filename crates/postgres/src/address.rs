//! Where the database is, and how to get in.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::AbortHandle;
use tokio_postgres::{
    Client, Config, Connection, Socket,
    config::{ChannelBinding, SslMode, SslNegotiation},
    error::SqlState,
};

use crate::{
    OpenError, Options,
    error::cause,
    given::Given,
    hosts, password,
    tls::{Papers, Stream, Tls},
    trust::Trust,
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
    /// The one that is asked for, or libpq's default.
    fn choose(asked: Option<String>, roots_of_system: bool) -> Result<Mode, OpenError> {
        let mode = match asked.as_deref() {
            Some("disable") => Mode::Disable,
            Some("allow") => Mode::Allow,
            Some("prefer") => Mode::Prefer,
            Some("require") => Mode::Require,
            Some("verify-ca") => Mode::VerifyCa,
            Some("verify-full") => Mode::VerifyFull,
            Some(_) => {
                return Err(OpenError::Address(
                    "sslmode is none of disable, allow, prefer, require, verify-ca and verify-full"
                        .into(),
                ));
            }
            None if roots_of_system => Mode::VerifyFull,
            None => Mode::Prefer,
        };
        match roots_of_system && mode != Mode::VerifyFull {
            // Anybody can get a certificate of theirs, for a name of his own.
            true => Err(OpenError::Address(
                "sslrootcert=system is too weak with any sslmode but verify-full".into(),
            )),
            false => Ok(mode),
        }
    }

    fn trust(self) -> Trust {
        match self {
            Mode::Disable | Mode::Allow | Mode::Prefer => Trust::Anybody,
            Mode::Require => Trust::RootIfAny,
            Mode::VerifyCa => Trust::Root,
            Mode::VerifyFull => Trust::NameToo,
        }
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
        let Given { mut config, own } = Given::parse(&options.address)?;
        if config.get_application_name().is_none() {
            config.application_name("steadfast");
        }
        // A peer that is gone without a word is noticed in time.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(options.lease.max(Duration::from_secs(5)));
        }
        config.keepalives_idle(options.lease);
        let hosts = hosts::each(&config)?;
        let home = options.home.clone();
        let env = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let papers = Papers {
            root: own.root.or_else(|| env("PGSSLROOTCERT")),
            cert: own.cert.or_else(|| env("PGSSLCERT")),
            key: own.key.or_else(|| env("PGSSLKEY")),
            home: home.clone(),
        };
        let mode = Mode::choose(own.mode.or_else(|| env("PGSSLMODE")), papers.is_system())?;
        if config.get_channel_binding() == ChannelBinding::Require {
            let text = "this program knows no channel binding: leave channel_binding=require out";
            return Err(OpenError::Address(text.into()));
        }
        let is_weak = matches!(mode, Mode::Disable | Mode::Allow | Mode::Prefer);
        if is_weak && config.get_ssl_negotiation() == SslNegotiation::Direct {
            return Err(OpenError::Address(
                "sslnegotiation=direct needs sslmode=require, verify-ca or verify-full".into(),
            ));
        }
        let tls = match mode {
            Mode::Disable => None,
            _ if hosts.iter().all(hosts::is_socket) => None,
            mode => Some(Tls::new(mode.trust(), &papers)?),
        };
        let passfile = own.passfile.or_else(|| env("PGPASSFILE")).map(PathBuf::from);
        let password = password::Source { exact: options.password_file.clone(), passfile, home };
        Ok(Address { hosts, last: Arc::default(), mode, tls, password })
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
            // Which no server encrypts.
            _ if hosts::is_socket(host) => &[SslMode::Disable],
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

/// Shared by everything that connects.
pub(crate) type Shared = Arc<Address>;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(address: &str) -> Result<Address, OpenError> {
        Address::parse(&Options::new(address))
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
