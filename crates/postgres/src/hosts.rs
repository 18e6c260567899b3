//! The hosts of an address, one at a time.
//!
//! The driver knows of several as well, but one that takes a connection and then says nothing, as a
//! machine does that hangs, would keep it from the next for ever.

use std::time::{Duration, SystemTime};

use tokio_postgres::{
    Config,
    config::{Host, LoadBalanceHosts, TargetSessionAttrs},
};

use crate::OpenError;

/// How long one host may take, from the first packet until it has let us in.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The address of each host, as if it were the only one.
pub(crate) fn each(all: &Config) -> Result<Vec<Config>, OpenError> {
    let count = all.get_hosts().len().max(all.get_hostaddrs().len());
    let wrong = |text: &str| Err(OpenError::Address(text.into()));
    let fits = |len: usize| len <= 1 || len == count;
    if count == 0 {
        return wrong("the address of the database has no host");
    }
    if !fits(all.get_ports().len()) {
        return wrong("the address of the database has several hosts, and another number of ports");
    }
    if !all.get_hostaddrs().is_empty()
        && !all.get_hosts().is_empty()
        && all.get_hosts().len() != all.get_hostaddrs().len()
    {
        return wrong("the address of the database has another number of hosts than of hostaddrs");
    }
    Ok((0..count).map(|at| one(all, at, count)).collect())
}

fn one(all: &Config, at: usize, count: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(at) {
        Some(Host::Tcp(name)) => _ = one.host(name),
        #[cfg(unix)]
        Some(Host::Unix(path)) => _ = one.host_path(path),
        None => {}
    }
    if let Some(address) = all.get_hostaddrs().get(at) {
        one.hostaddr(*address);
        // Without a name the driver encrypts nothing.
        if one.get_hosts().is_empty() {
            one.host(address.to_string());
        }
    }
    if let Some(port) = all.get_ports().get(at).or_else(|| all.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    one.connect_timeout(all.get_connect_timeout().copied().unwrap_or(PATIENCE));
    if let Some(time) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*time);
    }
    one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    if let Some(time) = all.get_keepalives_interval() {
        one.keepalives_interval(time);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    // Of several one is the primary, and the others are of no use to us.
    one.target_session_attrs(match all.get_target_session_attrs() {
        TargetSessionAttrs::Any if count > 1 => TargetSessionAttrs::ReadWrite,
        wanted => wanted,
    });
    one.ssl_negotiation(all.get_ssl_negotiation()).channel_binding(all.get_channel_binding());
    one.load_balance_hosts(all.get_load_balance_hosts());
    one
}

/// Whether it is reached by a socket of this machine's, and not by the network.
pub(crate) fn is_socket(host: &Config) -> bool {
    host.get_hostaddrs().is_empty() && !matches!(host.get_hosts().first(), Some(Host::Tcp(_)))
}

/// With which to begin, if that is to be left to chance.
pub(crate) fn at_random(hosts: &[Config]) -> Option<usize> {
    let random = |host: &Config| host.get_load_balance_hosts() == LoadBalanceHosts::Random;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    hosts.first().is_some_and(random).then(|| since.subsec_micros() as usize % hosts.len())
}

/// What people call it.
pub(crate) fn name(host: &Config) -> String {
    let name = match host.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    host.get_ports().first().map_or_else(|| name.clone(), |port| format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(address: &str) -> Result<Vec<Config>, OpenError> {
        each(&address.parse().unwrap())
    }

    #[test]
    fn each_host_has_its_port_and_all_the_rest() {
        let hosts = split(
            "postgres://ann:secret@one:1,two:2/app?application_name=x&connect_timeout=7&\
             keepalives_idle=3&options=-csearch_path%3Dy",
        )
        .unwrap();
        assert_eq!(hosts.iter().map(name).collect::<Vec<_>>(), ["one:1", "two:2"]);
        for host in hosts {
            assert_eq!((host.get_user(), host.get_dbname()), (Some("ann"), Some("app")));
            assert_eq!(host.get_password(), Some(&b"secret"[..]));
            assert_eq!(host.get_options(), Some("-csearch_path=y"));
            assert_eq!(host.get_application_name(), Some("x"));
            assert_eq!(host.get_connect_timeout(), Some(&Duration::from_secs(7)));
            assert_eq!(host.get_keepalives_idle(), Duration::from_secs(3));
            assert_eq!(host.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        let one = split("host=one user=ann").unwrap().remove(0);
        assert_eq!(one.get_target_session_attrs(), TargetSessionAttrs::Any);
        assert_eq!(one.get_connect_timeout(), Some(&PATIENCE));
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(split("user=ann").is_err());
        assert!(split("host=a,b,c port=1,2 user=ann").is_err());
        assert!(split("host=a,b hostaddr=127.0.0.1 user=ann").is_err());
        assert_eq!(split("host=a,b port=7 user=ann").unwrap()[1].get_ports(), [7]);
    }
}
