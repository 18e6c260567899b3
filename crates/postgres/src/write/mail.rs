//! Messages and answers.

use steadfast_core::TaskId;
use steadfast_store::{Caller, Error, Refusal, SendTo, Touched};

use crate::{
    error::Fault,
    lane::Cards,
    queue::Apply,
    row,
    work::{Done, Needs, Reach, Work},
};

pub(crate) struct SendMail {
    pub(crate) caller: Caller,
    pub(crate) send: SendTo,
}

impl Apply for SendMail {
    type Answer = Option<Touched>;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.insert(self.send.id.to_string());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Option<Touched>> {
        let found = work.find_open(&self.caller, &self.send.id).map(|task| task.key);
        let key = match (found, self.send.keep_until) {
            (Err(Fault::Refused(Error::Refused(Refusal::Unknown))), Some(until)) => {
                let sender = row::owner(&self.caller.principal);
                work.keep(self.send.id.as_str(), sender, until.0, &self.send.body)?;
                return Ok(None);
            }
            (found, _) => found?,
        };
        let mut reach = Reach::default();
        work.deliver(key, None, false, self.send.body.as_slice().into(), &mut reach)?;
        Ok(Some(reach.of(key)))
    }

    fn bytes(&self) -> usize {
        self.send.body.len()
    }
}

pub(crate) struct Answer {
    pub(crate) caller: Caller,
    pub(crate) id: TaskId,
    pub(crate) question: String,
    pub(crate) body: Vec<u8>,
}

impl Apply for Answer {
    type Answer = Touched;

    fn needs(&self, needs: &mut Needs, _: &Cards) {
        needs.ids.insert(self.id.to_string());
        needs.questions_of.insert(self.id.to_string());
    }

    fn apply<'b>(&'b self, work: &mut Work<'b>) -> Done<Touched> {
        let key = work.find_open(&self.caller, &self.id)?.key;
        let open = work.open_questions(key)?;
        let (_, op) = open.into_iter().find(|o| o.0 == self.question).ok_or(Refusal::NotOpen)?;
        work.close_question(key, &self.question);
        let mut reach = Reach::default();
        work.deliver(key, Some(op), false, self.body.as_slice().into(), &mut reach)?;
        Ok(reach.of(key))
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }
}
