//! The life of an activity that somebody has taken.

use steadfast_core::Timestamp;
use steadfast_store::{ActivityEnd, ActivityLease, Retried, Touched};

use crate::{
    lane::Cards,
    queue::Apply,
    work::{At, Done, Needs, Reach, Work},
};

pub(crate) struct EndActivity(pub(crate) ActivityEnd);

impl Apply for EndActivity {
    type Answer = Touched;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.activities.insert(self.0.lease.key);
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Touched> {
        let activity = work.leased(self.0.lease)?;
        let (key, task, op) = (activity.key, activity.task, activity.op);
        work.remove_activity(key, &mut Reach::default());
        let mut reach = Reach::default();
        work.deliver(task, Some(op), false, self.0.body.as_slice().into(), &mut reach)?;
        Ok(reach.of(task))
    }

    fn bytes(&self) -> usize {
        self.0.body.len()
    }

    fn insists(&self) -> bool {
        true
    }
}

pub(crate) struct RetryActivity(pub(crate) Retried);

impl Apply for RetryActivity {
    type Answer = Touched;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.activities.insert(self.0.lease.key);
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Touched> {
        let activity = work.leased(self.0.lease)?;
        activity.epoch += 1;
        activity.attempt = activity.attempt.saturating_add(1).min(u32::MAX.into());
        let (key, task, op) = (activity.key, activity.task, activity.op);
        work.put_activity(key, At::Due(self.0.due.0));
        let mut reach = Reach::default();
        work.deliver(task, Some(op), false, self.0.body.as_slice().into(), &mut reach)?;
        Ok(reach.of(task))
    }

    fn bytes(&self) -> usize {
        self.0.body.len()
    }

    fn insists(&self) -> bool {
        true
    }
}

pub(crate) struct BeatActivity {
    pub(crate) lease: ActivityLease,
    pub(crate) until: Option<Timestamp>,
    pub(crate) release: bool,
}

impl Apply for BeatActivity {
    type Answer = ();

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.activities.insert(self.lease.key);
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<()> {
        let activity = work.leased(self.lease)?;
        let (key, until) = (activity.key, self.until.map(|until| until.0));
        let at = match activity.at {
            At::Busy(desk, _) => At::Busy(desk.filter(|_| !self.release), until),
            // Nobody runs it, so there is nothing to keep alive. Somebody outside may take it over.
            _ if self.release => At::Busy(None, until),
            at => at,
        };
        work.put_activity(key, at);
        Ok(())
    }
}
