//! PostgreSQL, of which tests and measurements start servers of their own.

use crate::{Result, system};

/// Makes sure that there is one to start.
pub(crate) fn install() -> Result<()> {
    // Debian keeps the server's programs out of the path.
    let look = "command -v postgres || ls /usr/lib/postgresql/*/bin/postgres";
    system::have(&["sh", "-c", look], &["postgresql"])
}
