//! What a server's user can set: flags, and the environment behind them.
#![allow(rustdoc::bare_urls)] // The comments are what --help says.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, FromArgMatches, Parser};

/// Where and how a server runs.
///
/// Whatever is not given is left to the code that runs the server, and then to the default.
#[derive(Args, Clone, Default)]
pub struct Flags {
    /// Speak MCP over standard input and output, for clients that start the server themselves
    #[arg(long)]
    pub stdio: bool,

    /// Listen for HTTP on this address [default: 127.0.0.1:8787; port 0 takes a free one]
    ///
    /// Other addresses than loopback need an authentication choice: --token-file or --anonymous.
    #[arg(long, value_name = "ADDRESS:PORT", env = "STEADFAST_LISTEN")]
    pub listen: Option<SocketAddr>,

    /// Keep tasks here: the path of a SQLite file, postgres://user@host/database, or memory: for none that
    /// survive [default: a file of the server's name in the user's data directory]
    ///
    /// Any number of processes on any number of machines may share a database of PostgreSQL 14 or newer;
    /// those on one machine may share a file. The address is as libpq has it, also as host=... user=..., with
    /// sslmode, sslrootcert and passfile; what it leaves out comes from PGPASSWORD, PGPASSFILE, PGSSLMODE and
    /// PGSSLROOTCERT. A path that looks like one is written sqlite:PATH. Others on this machine may see what
    /// a program is started with: a password is better kept in a file.
    #[arg(long, value_name = "PATH|ADDRESS", env = "STEADFAST_STORE", hide_env_values = true)]
    pub store: Option<String>,

    /// Take the password for PostgreSQL from this file, anew for each connection
    #[arg(long, value_name = "FILE", env = "STEADFAST_STORE_PASSWORD_FILE")]
    pub store_password_file: Option<PathBuf>,

    /// Keep the tables in this schema of the database [default: steadfast]
    #[arg(long, value_name = "NAME", env = "STEADFAST_STORE_SCHEMA")]
    pub store_schema: Option<String>,

    /// Others take over the tasks of a process that PostgreSQL has not heard of for this many seconds
    /// [default: 10]
    #[arg(long, value_name = "SECONDS", env = "STEADFAST_STORE_LEASE_SECONDS")]
    pub store_lease_seconds: Option<u64>,

    /// Have at most this many transactions of steps open in PostgreSQL at once, on a connection each; others
    /// wait [default: 4]
    #[arg(long, value_name = "NUMBER", env = "STEADFAST_STORE_TRANSACTIONS",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub store_transactions: Option<u16>,

    /// Leave the tables of PostgreSQL as they are: `steadfast migrate` makes them and brings them up to date
    #[arg(long, env = "STEADFAST_STORE_NO_MIGRATE")]
    pub store_no_migrate: bool,

    /// Do not wait for the disk: a power cut may lose the last commits, a crash of the process nothing
    #[arg(long, env = "STEADFAST_PROCESS_CRASH_ONLY")]
    pub process_crash_only: bool,

    /// Know callers by bearer tokens: a file with a line "principal token" each
    #[arg(long, value_name = "FILE", env = "STEADFAST_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// Encrypt credentials of callers with a key from this file before they are stored: 32 bytes in
    /// hexadecimal or base64
    ///
    /// Only its owner and group may have access. It may have several keys, a line each: the first
    /// encrypts, all decrypt. Keep it away from the store and its backups.
    #[arg(long, value_name = "FILE", env = "STEADFAST_CREDENTIAL_KEY_FILE")]
    pub credential_key_file: Option<PathBuf>,

    /// Serve anybody, also on addresses other than loopback: all callers are one principal
    #[arg(long, env = "STEADFAST_ANONYMOUS")]
    pub anonymous: bool,

    /// Let callers without a name list tasks, who then see each other's
    #[arg(long, env = "STEADFAST_ANONYMOUS_LIST")]
    pub anonymous_list: bool,

    /// Offer tools about tasks to clients that know none: status, result, list, input, cancel
    #[arg(long, env = "STEADFAST_COMPANIONS")]
    pub companions: bool,

    /// Serve clients of 2024-11-05 at /sse as well
    #[arg(long, env = "STEADFAST_SSE")]
    pub sse: bool,

    /// Serve requests to this host name as well; * for any. May repeat
    #[arg(long, value_name = "HOST", env = "STEADFAST_ALLOW_HOST", value_delimiter = ',')]
    pub allow_host: Vec<String>,

    /// Serve web pages of this origin, such as https://app.example.com. May repeat
    #[arg(long, value_name = "ORIGIN", env = "STEADFAST_ALLOW_ORIGIN", value_delimiter = ',')]
    pub allow_origin: Vec<String>,

    /// Run at most this many tasks at once, one at least; others queue [default: 1000]
    #[arg(long, value_name = "NUMBER", env = "STEADFAST_MAX_RUNNING")]
    pub max_running: Option<usize>,

    /// Run at most this many activities at once; others queue [default: 64]
    #[arg(long, value_name = "NUMBER", env = "STEADFAST_MAX_ACTIVITIES")]
    pub max_activities: Option<usize>,

    /// Serve no clients: only run tasks and activities, beside other processes on the same store
    #[arg(long, env = "STEADFAST_WORKER", conflicts_with_all = ["stdio", "front"])]
    pub worker: bool,

    /// With --worker: take up work of these tools and activities alone. May repeat
    #[arg(
        long,
        value_name = "NAME",
        env = "STEADFAST_ONLY",
        value_delimiter = ',',
        requires = "worker"
    )]
    pub only: Vec<String>,

    /// Serve clients and run nothing: the work is for processes with --worker on the same store
    #[arg(long, env = "STEADFAST_FRONT")]
    pub front: bool,

    /// Keep tasks this many days after they end, where their tool does not say [default: 7]
    #[arg(long, value_name = "DAYS", env = "STEADFAST_RETENTION_DAYS")]
    pub retention_days: Option<u64>,

    /// End sessions of clients up to 2025-11-25 that are idle for this many seconds [default: 3600]
    #[arg(long, value_name = "SECONDS", env = "STEADFAST_SESSION_IDLE_SECONDS")]
    pub session_idle_seconds: Option<u64>,

    /// Hang up streams that wait for an answer after this many seconds; clients of 2025-11-25 come back for
    /// the rest, and only theirs are [default: never]
    #[arg(long, value_name = "SECONDS", env = "STEADFAST_STREAM_LIFE_SECONDS",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub stream_life_seconds: Option<u64>,

    /// When told to stop, give calls and steps in flight this many seconds [default: 10]
    #[arg(long, value_name = "SECONDS", env = "STEADFAST_DRAIN_SECONDS")]
    pub drain_seconds: Option<u64>,

    /// For development: run twice whatever a crash may run again, and fail what is not the same then
    ///
    /// Closures of steps, activities and undo functions run a second time with the same key (not steps that
    /// run at most once), and a tool's function is run again from its history. What is not idempotent or not
    /// deterministic fails its task with an error that says where and how. Not for production: effects that
    /// are not idempotent happen twice.
    #[arg(long, env = "STEADFAST_VALIDATE_EFFECTS")]
    pub validate_effects: bool,

    /// Log to standard error from this level on: error, warn, info, debug or trace [default: warn]
    #[arg(long, value_name = "LEVEL", env = "STEADFAST_LOG")]
    pub log: Option<tracing::Level>,
}

impl std::fmt::Debug for Flags {
    /// Without the password that the address of a store may have.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        macro_rules! shown {
            ($($name:ident),*) => {{
                // None is left out.
                let Flags { store, $($name),* } = self;
                f.debug_struct("Flags")
                    .field("store", &store.as_deref().map(crate::place::shown))
                    $(.field(stringify!($name), $name))*
                    .finish()
            }};
        }
        shown!(
            stdio,
            listen,
            store_password_file,
            store_schema,
            store_lease_seconds,
            store_transactions,
            store_no_migrate,
            process_crash_only,
            token_file,
            credential_key_file,
            anonymous,
            anonymous_list,
            companions,
            sse,
            allow_host,
            allow_origin,
            max_running,
            max_activities,
            worker,
            only,
            front,
            retention_days,
            session_idle_seconds,
            stream_life_seconds,
            drain_seconds,
            validate_effects,
            log
        )
    }
}

#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    flags: Flags,
}

impl Flags {
    /// The flags of this process, for a server of this name. Ends the process if they are wrong, or if
    /// they ask for help.
    #[must_use]
    pub fn of_process(server: &str) -> Flags {
        let about =
            format!("{server}: an MCP server whose tool calls survive crashes and restarts");
        let mut command = Alone::command().about(about);
        let matches = command.get_matches_mut();
        match Alone::from_arg_matches(&matches) {
            Ok(alone) => alone.flags,
            Err(error) => error.format(&mut command).exit(),
        }
    }

    /// These, and what they leave open from others.
    #[must_use]
    pub fn or(self, other: Flags) -> Flags {
        let either = |one: Vec<String>, two| if one.is_empty() { two } else { one };
        Flags {
            stdio: self.stdio || other.stdio,
            listen: self.listen.or(other.listen),
            store: self.store.or(other.store),
            store_password_file: self.store_password_file.or(other.store_password_file),
            store_schema: self.store_schema.or(other.store_schema),
            store_lease_seconds: self.store_lease_seconds.or(other.store_lease_seconds),
            store_transactions: self.store_transactions.or(other.store_transactions),
            store_no_migrate: self.store_no_migrate || other.store_no_migrate,
            process_crash_only: self.process_crash_only || other.process_crash_only,
            token_file: self.token_file.or(other.token_file),
            credential_key_file: self.credential_key_file.or(other.credential_key_file),
            anonymous: self.anonymous || other.anonymous,
            anonymous_list: self.anonymous_list || other.anonymous_list,
            companions: self.companions || other.companions,
            sse: self.sse || other.sse,
            allow_host: either(self.allow_host, other.allow_host),
            allow_origin: either(self.allow_origin, other.allow_origin),
            max_running: self.max_running.or(other.max_running),
            max_activities: self.max_activities.or(other.max_activities),
            worker: self.worker || other.worker,
            only: either(self.only, other.only),
            front: self.front || other.front,
            retention_days: self.retention_days.or(other.retention_days),
            session_idle_seconds: self.session_idle_seconds.or(other.session_idle_seconds),
            stream_life_seconds: self.stream_life_seconds.or(other.stream_life_seconds),
            drain_seconds: self.drain_seconds.or(other.drain_seconds),
            validate_effects: self.validate_effects || other.validate_effects,
            log: self.log.or(other.log),
        }
    }

    pub(crate) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.unwrap_or(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_well_formed_and_each_explains_itself() {
        let command = Alone::command();
        command.clone().debug_assert();
        for argument in command.get_arguments().filter(|argument| argument.get_id() != "help") {
            assert!(argument.get_help().is_some(), "{}", argument.get_id());
        }
    }

    #[test]
    fn what_is_given_goes_before_what_the_code_says() {
        let parse = |words: &[&str]| Alone::try_parse_from(words).map(|alone| alone.flags);
        let code =
            Flags { store: Some("code.db".into()), drain_seconds: Some(3), ..Flags::default() };
        let given = parse(&["x", "--store", "flag.db", "--allow-host", "a,b"]).unwrap();
        let flags = given.or(code);
        assert_eq!((flags.store.as_deref(), flags.drain_seconds), (Some("flag.db"), Some(3)));
        assert_eq!(flags.allow_host, ["a", "b"]);
        assert!(parse(&["x", "--validate-effects"]).unwrap().validate_effects);
        let transactions = |count| parse(&["x", "--store-transactions", count]);
        assert_eq!(transactions("9").unwrap().store_transactions, Some(9));
        assert!(transactions("0").is_err() && transactions("1001").is_err());
        assert!(parse(&["x", "--listen", "nowhere"]).is_err());
        assert!(parse(&["x", "--what"]).is_err());
    }
}
