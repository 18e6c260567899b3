//! PostgreSQL, of which tests and measurements start servers of their own, and the pooler before it.

use crate::{Result, system};

/// Makes sure that there is one to start.
pub(crate) fn install() -> Result<()> {
    // Debian keeps the server's programs out of the path.
    let look = "command -v postgres || ls /usr/lib/postgresql/*/bin/postgres";
    system::have(&["sh", "-c", look], &["postgresql"])
}

/// The same of the pooler.
pub(crate) fn install_pooler() -> Result<()> {
    let look = "command -v pgbouncer || ls /usr/sbin/pgbouncer";
    system::have(&["sh", "-c", look], &["pgbouncer"])
}
