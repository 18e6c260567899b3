//! `steadfast export`.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use steadfast_store::moving::{self, Purpose, Record, Tally, Writer};

use crate::{
    Failure, Result,
    place::{Place, Progress, Store},
};

/// Write all that is in a store to a file.
#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    place: Place,

    /// The file to make; - for standard output. It has all that tasks and clients said: keep it as you keep
    /// the store
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Leave the store open, and its tasks to its servers, which may be running
    #[arg(long)]
    backup: bool,
}

impl Export {
    pub(crate) async fn run(self) -> Result<u8> {
        let to_stdout = self.file.as_os_str() == "-";
        let purpose = match (self.backup, to_stdout) {
            (true, _) => Purpose::Backup,
            (false, true) => Purpose::Move("standard output".into()),
            (false, false) => {
                let path = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
                Purpose::Move(path.display().to_string())
            }
        };
        let store = self.place.store()?;
        let left = left_behind(&store)?;
        let said = match to_stdout {
            true => {
                let out = BufWriter::new(std::io::stdout());
                let (_, tally) = export(&store, &purpose, out, |_| Ok(())).await?;
                in_words(&tally, "standard output", self.backup)
            }
            false => {
                let tally = to_file(&store, &purpose, &self.file).await?;
                in_words(&tally, &self.file.display().to_string(), self.backup)
            }
        };
        let said = match left {
            Some(left) => format!("{said}\n{left}"),
            None => said,
        };
        match to_stdout {
            true => eprintln!("{said}"),
            false => writeln!(std::io::stdout(), "{said}")?,
        }
        Ok(0)
    }
}

/// What of a file is not in an export. In a database other tables may be anybody's.
fn left_behind(store: &Store) -> Result<Option<String>> {
    const SHOWN: usize = 20;
    let Store::Sqlite(options) = store else { return Ok(None) };
    let tables = options.foreign_tables()?;
    let (count, named) = (tables.len(), tables[..tables.len().min(SHOWN)].join(", "));
    let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
    Ok(match count {
        0 => None,
        1 => Some(format!("1 table that is not Steadfast's stays behind: {named}")),
        _ => Some(format!("{count} tables that are not Steadfast's stay behind: {named}{more}")),
    })
}

fn in_words(tally: &Tally, file: &str, backup: bool) -> String {
    let then = match backup {
        true => "The store is as it was.",
        false => {
            "The store is closed: servers refuse it until `steadfast reopen`. Go on with `steadfast import`."
        }
    };
    format!("exported {tally} to {file}\ndigest {}\n{then}", tally.digest())
}

/// Makes the file under another name first, so that under its own it is whole.
async fn to_file(store: &Store, purpose: &Purpose, path: &Path) -> Result<Tally> {
    let refuse = |detail: &str| Failure::with(2, format!("{}: {detail}", path.display()));
    if path.exists() {
        return Err(refuse("it is there already; remove it, or give another name"));
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let file = create(&partial).map_err(|e| refuse(&format!("it can't be made: {e}")))?;
    let keep = |file: &File| {
        file.sync_all()?;
        std::fs::rename(&partial, path)?;
        sync_directory(path)
    };
    let done = export(store, purpose, BufWriter::new(file), |out| keep(out.get_ref())).await;
    if done.is_err() {
        for path in [partial.as_path(), path] {
            let _ = std::fs::remove_file(path);
        }
    }
    done.map(|(_, tally)| tally)
}

/// For its owner alone.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// That the file has its name survives a power cut, before the store is left behind for it.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        #[cfg(unix)]
        Some(parent) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent)?.sync_all()
        }
        _ => Ok(()),
    }
}

/// Writes everything, and then has the file kept: if that fails, the store is not closed either.
async fn export<W: Write + Send>(
    store: &Store,
    purpose: &Purpose,
    out: W,
    keep: impl Fn(&W) -> std::io::Result<()> + Send + Sync,
) -> Result<(W, Tally)> {
    let (kind, schema) = match store {
        Store::Sqlite(_) => ("sqlite", steadfast_sqlite::Options::SCHEMA),
        Store::Postgres(_) => ("postgres", steadfast_postgres::Options::SCHEMA),
    };
    let mut writer = Some(Writer::new(out, kind, schema)?);
    let mut finished = None;
    let mut progress = Progress::new();
    let mut sink = |record: Record| {
        let Some(open) = &mut writer else { return Ok(()) };
        open.put(&record)?;
        progress.say("exported", open.tally());
        // The last of all.
        if matches!(record, Record::Counters(_))
            && let Some(whole) = writer.take()
        {
            let (out, tally) = whole.finish()?;
            keep(&out)?;
            finished = Some((out, tally));
        }
        Ok(())
    };
    let done: moving::Result<()> = match store {
        Store::Sqlite(options) => options.export(purpose, &mut sink),
        Store::Postgres(options) => options.export(purpose, &mut sink).await,
    };
    progress.end();
    done?;
    finished.ok_or_else(|| Failure::with(2, "the store did not give out all that it has"))
}
