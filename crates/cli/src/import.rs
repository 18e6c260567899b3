//! `steadfast import`.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use clap::Args;
use steadfast_store::moving::Reader;

use crate::{
    Failure, Result,
    place::{Place, Progress, Store},
};

/// Read a file of `steadfast export` into an empty store: all of it, or nothing.
#[derive(Args)]
pub(crate) struct Import {
    #[command(flatten)]
    place: Place,

    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Import {
    pub(crate) async fn run(self) -> Result<u8> {
        let input: Box<dyn BufRead + Send> = match self.file.as_os_str() == "-" {
            true => Box::new(BufReader::new(std::io::stdin())),
            false => {
                let file = File::open(&self.file);
                let name = self.file.display();
                let file = file.map_err(|e| Failure::with(2, format!("can't read {name}: {e}")))?;
                Box::new(BufReader::with_capacity(1 << 20, file))
            }
        };
        let store = self.place.store()?;
        let progress = Arc::new(Mutex::new(Progress::new()));
        let shown = Arc::clone(&progress);
        let mut reader = Reader::new(input)?.on_progress(move |read, back| {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            match back {
                None => shown.say("imported", read),
                Some(back) => shown.say("read back", back),
            }
        });
        let done = match &store {
            Store::Sqlite(options) => options.import(&mut reader),
            Store::Postgres(options) => options.import(&mut reader).await,
        };
        progress.lock().unwrap_or_else(PoisonError::into_inner).end();
        let tally = done?;
        writeln!(
            std::io::stdout(),
            "imported {tally}\ndigest {}\nAll of it was read back from the store and is what the file has, by \
             count and digest.",
            tally.digest()
        )?;
        Ok(0)
    }
}
