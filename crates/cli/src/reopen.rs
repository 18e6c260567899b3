//! `steadfast reopen`.

use clap::Args;

use crate::{
    Result,
    place::{Place, Store},
};

/// Let servers open a store again that was exported to be moved.
///
/// Only if its tasks don't go on elsewhere: they would do everything twice.
#[derive(Args)]
pub(crate) struct Reopen {
    #[command(flatten)]
    place: Place,
}

impl Reopen {
    pub(crate) async fn run(self) -> Result<u8> {
        let was_closed = match self.place.store()? {
            Store::Sqlite(options) => options.reopen()?,
            Store::Postgres(options) => options.reopen().await?,
        };
        match was_closed {
            true => eprintln!("servers can open the store again"),
            false => eprintln!("the store was not closed"),
        }
        Ok(0)
    }
}
