//! Sessions, and notices to all of them.

use steadfast_core::Timestamp;
use steadfast_store::SessionRow;

use crate::{
    lane::Cards,
    queue::Apply,
    work::{Done, Needs, Work},
};

pub(crate) struct BeginSession {
    pub(crate) session: SessionRow,
    pub(crate) most: usize,
}

impl Apply for BeginSession {
    type Answer = ();

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.sessions.insert(self.session.id.clone());
        needs.sessions_put += 1;
        needs.new_sessions += 1;
        needs.most_sessions = Some(needs.most_sessions.map_or(self.most, |m| m.min(self.most)));
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<()> {
        work.has_session(&self.session.id)?;
        work.put_session(&self.session);
        work.limit_sessions(self.most);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.session.body.len()
    }
}

pub(crate) struct EndSession(pub(crate) String);

impl Apply for EndSession {
    type Answer = bool;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.sessions.insert(self.0.clone());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<bool> {
        let known = work.has_session(&self.0)?;
        if known {
            work.remove_session(&self.0);
        }
        Ok(known)
    }
}

pub(crate) struct Post {
    pub(crate) body: Vec<u8>,
    pub(crate) until: Timestamp,
    pub(crate) most: usize,
}

impl Apply for Post {
    type Answer = u64;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.notices = true;
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<u64> {
        let n = work.post(&self.body, self.until, self.most)?;
        Ok(u64::try_from(n).unwrap_or(0))
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }
}
