//! Which version of a row it is.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// The number of the transaction that wrote a row as it is, which PostgreSQL has in each (`xmin`).
///
/// Numbers begin anew after four thousand million transactions. That a row is then written by one of the
/// same number, while somebody remembers what its last one wrote, is left out of account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u32);

impl<'r> FromSql<'r> for Version {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Version, Box<dyn Error + Sync + Send>> {
        Ok(Version(u32::from_be_bytes(raw.try_into()?)))
    }

    accepts!(XID);
}

impl ToSql for Version {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u32(self.0);
        Ok(IsNull::No)
    }

    accepts!(XID);
    to_sql_checked!();
}
