//! What the database is asked, by its own count.

use tokio_postgres::{Client, NoTls};

use crate::{Result, disk, report::Report};

/// Makes sure that what this server has committed is on a disk.
pub(crate) async fn flushes(address: &str, report: &mut Report) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    let show = async |name: &str| -> Result<String> {
        Ok(client.query_one(&format!("SHOW {name}"), &[]).await?.try_get(0)?)
    };
    for name in ["fsync", "synchronous_commit", "full_page_writes"] {
        let value = show(name).await?;
        if value != "on" {
            return Err(
                format!("PostgreSQL has {name} = {value}: figures would say nothing").into()
            );
        }
    }
    let data = show("data_directory").await?;
    let disk = disk::check(data.as_ref())?;
    let version = show("server_version").await?;
    report.note(format!(
        "PostgreSQL {version}: fsync, synchronous_commit and full_page_writes are on; {data}, on {disk}"
    ));
    Ok(())
}

pub(crate) struct Statements(Client);

impl Statements {
    pub(crate) async fn open(address: &str) -> Result<Statements> {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await?;
        Ok(Statements(client))
    }

    /// Statements so far.
    pub(crate) async fn count(&self) -> Result<f64> {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements";
        Ok(self.0.query_one(sql, &[]).await?.try_get::<_, i64>(0)? as f64)
    }

    /// Lets the database do what it does by itself after a while.
    pub(crate) async fn tidy(&self) -> Result<()> {
        // Not in one go, which would be a transaction.
        for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
            self.0.batch_execute(statement).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use steadfast_postgres::testing::Setup;

    use super::*;

    #[tokio::test]
    async fn a_server_that_does_not_flush_is_not_measured() {
        let dir = tempfile::tempdir().unwrap();
        // Whoever runs the server must get there.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let setup = || Setup::default().below(dir.path());
        for (setup, says) in [
            (setup(), "fsync = off"),
            (setup().fsync(true).set("synchronous_commit", "off"), "synchronous_commit = off"),
        ] {
            let server = setup.start().unwrap();
            let refused = flushes(&server.url(), &mut Report::default()).await.unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
        }
        let server = setup().fsync(true).start().unwrap();
        let mut report = Report::default();
        // Some machines have their temporary files in memory.
        let said = match flushes(&server.url(), &mut report).await {
            Ok(()) => report.notes().concat(),
            Err(error) => error.to_string(),
        };
        let below = dir.path().display().to_string();
        assert!(said.contains(&below) && !said.contains(" = "), "{said}");
    }
}
