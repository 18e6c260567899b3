//! A commit that changes nothing, to see whether there can be others.

use crate::{
    lane::Cards,
    queue::Apply,
    work::{Done, Needs, Work},
};

pub(crate) struct Nothing;

impl Apply for Nothing {
    type Answer = ();

    fn needs(&self, _: &mut Needs, _: &Cards) {}

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<()> {
        // Its batch is counted, which is a write.
        work.changed();
        Ok(())
    }

    fn keeps(&self) -> bool {
        false
    }
}
