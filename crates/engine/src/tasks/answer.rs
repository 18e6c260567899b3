//! Answering questions.

use steadfast_core::{Action, Answer, Ask, Message, TaskId};
use steadfast_store::{Error, Refusal};

use super::{CallError, Result, Tasks};
use crate::{blob, context, finish::finish, runner::Nudge};

impl Tasks {
    /// Answers an open question. An accepted answer must fit the question's schema; one that does
    /// not is refused with the reason, and the question stays open. The first valid answer counts.
    pub async fn answer(&self, id: &TaskId, key: &str, answer: Answer) -> Result<()> {
        let (tasks, id, key) = (self.clone(), id.clone(), key.to_owned());
        finish(&self.core, async move { tasks.answer_whole(&id, &key, answer, true).await }).await
    }

    /// The same without a look at the schema: for a front whose questions are checked by the task
    /// itself, so that it can ask again and say why.
    pub async fn answer_unchecked(&self, id: &TaskId, key: &str, answer: Answer) -> Result<()> {
        let (tasks, id, key) = (self.clone(), id.clone(), key.to_owned());
        finish(&self.core, async move { tasks.answer_whole(&id, &key, answer, false).await }).await
    }

    async fn answer_whole(
        &self,
        id: &TaskId,
        key: &str,
        answer: Answer,
        check: bool,
    ) -> Result<()> {
        let (row, questions) = self.row_with_questions(id).await?;
        Self::check_status(&row, id)?;
        let not_asked = || CallError::NotAsked { id: id.clone(), key: key.to_owned() };
        let question = questions.into_iter().find(|q| q.key == key).ok_or_else(not_asked)?;
        let ask: Ask = blob::read(&question.body).map_err(CallError::Store)?;
        if ask.deadline.is_some_and(|deadline| deadline <= self.core.world.now()) {
            return Err(not_asked());
        }
        let limit = self.core.settings.max_payload;
        if answer.content.as_ref().is_some_and(|content| content.text().len() > limit) {
            return Err(CallError::TooLarge { what: "the answer", limit });
        }
        if check && answer.action == Action::Accept {
            let null = steadfast_core::Json::null();
            let content = answer.content.as_ref().unwrap_or(&null);
            context::check(&ask.schema, content).map_err(|error| CallError::BadAnswer {
                key: key.to_owned(),
                reason: error.to_string(),
            })?;
        }
        let body = blob::write(&Message::Answer { key: key.to_owned(), answer });
        let answered =
            self.core.store.answer(self.caller(), id.clone(), key.to_owned(), body).await;
        let touched = answered.map_err(|error| match error {
            Error::Refused(Refusal::NotOpen) => not_asked(),
            error => self.failed(id, error),
        })?;
        self.core.touched(&[touched], Nudge::MAIL);
        Ok(())
    }
}
