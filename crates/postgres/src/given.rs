//! What is given as an address, in either of libpq's forms: what the driver understands of it, and what it
//! does not know.

use tokio_postgres::Config;

use crate::{OpenError, hosts};

/// The parameters of libpq that mean something here.
const UNDERSTOOD: [&str; 23] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "passfile",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Those that mean nothing here. An address with one of them is refused: many are about safety.
const OTHERS: [&str; 29] = [
    "client_encoding",
    "fallback_application_name",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "keepalives_count",
    "krbsrvname",
    "max_protocol_version",
    "min_protocol_version",
    "oauth_client_id",
    "oauth_client_secret",
    "oauth_issuer",
    "oauth_scope",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "scram_client_key",
    "scram_server_key",
    "service",
    "servicefile",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslpassword",
    "sslsni",
];

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Whether a text is meant as an address, rather than as the path of a file: it has a scheme, or begins with
/// `name=`. A wrong address is one as well, so that it is an error and no file with a password in its name.
pub(crate) fn is_address(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    if text.starts_with("sqlite:") {
        return false;
    }
    // One letter is a drive.
    let is_scheme = |text: &str| {
        text.len() > 1 && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.:".contains(c))
    };
    let is_parameter = |name: &str| UNDERSTOOD.contains(&name) || OTHERS.contains(&name);
    text.starts_with("postgres:")
        || text.starts_with("postgresql:")
        || text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
        || text.split_once('=').is_some_and(|(name, _)| is_parameter(name.trim_end()))
}

/// An address, understood.
pub(crate) struct Given {
    /// What the driver knows.
    pub(crate) config: Config,
    pub(crate) own: Own,
}

/// The parameters that the driver does not know, or knows less of.
#[derive(Default)]
pub(crate) struct Own {
    pub(crate) mode: Option<String>,
    pub(crate) root: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) passfile: Option<String>,
}

impl Given {
    pub(crate) fn parse(address: &str) -> Result<Given, OpenError> {
        let mut own = Own::default();
        let rest = own.take_out(address.trim_start())?;
        // The driver's error may quote what it does not understand, and with it the password.
        let config = rest.parse().map_err(|_| none())?;
        Ok(Given { config, own })
    }

    /// Hosts and database, and neither user nor password.
    pub(crate) fn place(&self) -> String {
        let hosts = match hosts::each(&self.config) {
            Ok(hosts) => hosts.iter().map(hosts::name).collect::<Vec<_>>().join(","),
            Err(_) => String::new(),
        };
        let database = self.config.get_dbname().or(self.config.get_user());
        format!("{hosts}/{}", database.unwrap_or_default())
    }
}

fn none() -> OpenError {
    wrong("what was given as the address of a database is none")
}

fn wrong(text: &str) -> OpenError {
    OpenError::Address(text.into())
}

impl Own {
    /// Takes a parameter if it is one of these, and gives it back if it is the driver's.
    fn take(&mut self, name: &str, value: String) -> Result<Option<String>, OpenError> {
        let slot = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            "sslcert" => &mut self.cert,
            "sslkey" => &mut self.key,
            "passfile" => &mut self.passfile,
            name if OTHERS.contains(&name) => {
                let text = format!("this program does not know libpq's {name} in an address");
                return Err(OpenError::Address(text));
            }
            _ => return Ok(Some(value)),
        };
        // As in libpq, where nothing is the same as none.
        *slot = Some(value).filter(|value| !value.is_empty());
        Ok(None)
    }

    /// Takes them out of an address of either form.
    fn take_out(&mut self, address: &str) -> Result<String, OpenError> {
        match SCHEMES.iter().find_map(|scheme| address.strip_prefix(scheme)) {
            Some(rest) => self.take_out_of_url(rest),
            None => self.take_out_of_words(address),
        }
    }

    fn take_out_of_url(&mut self, url: &str) -> Result<String, OpenError> {
        // As libpq does it: in the user and the password everything but / and @ may stand as it is.
        let user = match url.find(['@', '/']) {
            Some(at) if url[at..].starts_with('@') => at + 1,
            _ => 0,
        };
        let (user, rest) = url.split_at(user);
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        if front.contains('@') {
            // A part of the password would be taken for a host or a database, and shown.
            return Err(wrong(
                "the address has an @ too many: in a password @ is written %40, / %2F and % %25",
            ));
        }
        let mut left = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(none)?;
            if self.take(&unescaped(name)?, unescaped(value)?)?.is_some() {
                // The driver takes an @ anywhere for the end of the password.
                left.push(pair.replace('@', "%40"));
            }
        }
        Ok(format!("postgres://{user}{front}?{}", left.join("&")))
    }

    /// Of `name=value name = 'value'`.
    fn take_out_of_words(&mut self, address: &str) -> Result<String, OpenError> {
        let mut rest = Vec::new();
        let mut left = address;
        while !left.is_empty() {
            let (name, behind) = left.split_once('=').ok_or_else(none)?;
            let (value, behind) = value(behind.trim_start())?;
            let name = name.trim_end();
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(none());
            }
            if let Some(value) = self.take(name, value)? {
                let value = value.replace('\\', r"\\").replace('\'', r"\'");
                rest.push(format!("{name}='{value}'"));
            }
            left = behind.trim_start();
        }
        Ok(rest.join(" "))
    }
}

/// The value at the beginning of a text, quoted or not, and what is behind it.
fn value(text: &str) -> Result<(String, &str), OpenError> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut chars = text.char_indices().skip(usize::from(quoted));
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            c if !quoted && c.is_whitespace() => return Ok((value, &text[at..])),
            c => value.push(c),
        }
    }
    if quoted { Err(wrong("a ' in the address is not closed")) } else { Ok((value, "")) }
}

fn unescaped(text: &str) -> Result<String, OpenError> {
    let wrong = || wrong("a % in the address is not followed by two digits");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(address: &str) -> Given {
        Given::parse(address).unwrap()
    }

    fn refused(address: &str) -> String {
        Given::parse(address).err().unwrap().to_string()
    }

    #[test]
    fn our_own_parameters_are_taken_out_of_both_forms() {
        for text in [
            "postgres://u:se%20cret@h:5433/d?sslmode=verify-ca&application_name=x&passfile=%2Fp%20q",
            "host=h port=5433 user=u password='se cret' dbname=d sslmode=verify-ca \
             application_name=x passfile='/p q'",
            " host = h port= 5433 user =u password=se\\ cret dbname=d\n sslmode = 'verify-ca' \
             application_name=x passfile=/p\\ q ",
        ] {
            let Given { config, own } = parsed(text);
            assert_eq!(own.mode.as_deref(), Some("verify-ca"));
            assert_eq!(own.passfile.as_deref(), Some("/p q"));
            assert_eq!(config.get_application_name(), Some("x"));
            assert_eq!((config.get_dbname(), config.get_user()), (Some("d"), Some("u")));
            assert_eq!(config.get_password(), Some(&b"se cret"[..]));
            assert_eq!(config.get_ports(), [5433]);
        }
    }

    /// A mode that is overlooked is a weaker one.
    #[test]
    fn no_way_to_write_a_mode_is_overlooked() {
        for text in [
            "postgres://u:p?q@h/d?sslmode=require",
            "postgres://u@h/d?ssl%6dode=require",
            "postgres://h/d?user=a&application_name=x@y&sslmode=require",
            "postgresql://u@h?sslmode=require",
            "sslmode\t=  require host=h",
            "host=h sslmode='require'",
            "host=h password='a sslmode=disable' sslmode=require",
            "host=h password=\\'\\  sslmode=require",
        ] {
            let given = parsed(text);
            assert_eq!(given.own.mode.as_deref(), Some("require"), "{text}");
            assert_eq!(given.place().split(['/', ':']).next(), Some("h"), "{text}");
        }
        let password = |text| parsed(text).config.get_password().map(<[u8]>::to_vec);
        assert_eq!(password("postgres://u:p?q@h/d").as_deref(), Some(&b"p?q"[..]));
        assert_eq!(password(r"host=h password='it\'s \\'").as_deref(), Some(&br"it's \"[..]));
    }

    #[test]
    fn a_password_that_is_not_written_as_it_must_be_is_shown_to_nobody() {
        for text in [
            "postgres://u:s3@cret@h/d",
            "postgres://u:1/cret@h/d",
            "postgres://u:s3/cret@h/d",
            "host=h password='s3cret",
            "host=h password=s3 cret",
        ] {
            let error = refused(text);
            assert!(!error.contains("cret") && !error.contains("s3"), "{error}");
        }
        assert!(refused("postgres://u:s3@cret@h/d").contains("%40"));
        let error = refused("host=h sslcrl=s3cret");
        assert!(error.contains("sslcrl") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn an_address_is_told_from_a_path() {
        for address in [
            "postgres://h/d",
            "postgresql://h/d",
            " Postgres://h/d",
            "host=db user=app password=s3cret dbname=d",
            "password = s3cret host=db",
            "PASSWORD=s3cret",
            "service=orders",
            "mysql://ada:s3cret@db/d",
            "jdbc:postgresql://db/d?password=s3cret",
        ] {
            assert!(is_address(address), "{address}");
        }
        for path in
            ["orders.db", "./host=db", "/data/host=a/user=b", "a=b", "x host=db", "", "host"]
        {
            assert!(!is_address(path), "{path}");
        }
    }

    #[test]
    fn a_place_is_hosts_and_database() {
        for (address, place) in [
            ("postgres://u:s3cret@one:1,two/d", "one:1,two:5432/d"),
            ("host=db user=app password=s3cret dbname=d", "db/d"),
            ("host=/run/pg user=app password=s3cret", "/run/pg/app"),
            ("hostaddr=127.0.0.1 port=7 user=app dbname=d", "127.0.0.1:7/d"),
        ] {
            assert_eq!(parsed(address).place(), place);
        }
    }
}
