//! Questions that came on a stream, while they are thought about.

use serde_json::Value;
use tokio::task::{AbortHandle, JoinSet};

use crate::{Answer, Question, question::Ask};

/// The questions that nobody has answered yet. The stream is read on meanwhile: it may break, and be
/// taken up again, while a person thinks.
#[derive(Default)]
pub(crate) struct Asking {
    open: Vec<Open>,
    thinking: JoinSet<(u64, Answer)>,
    count: u64,
}

struct Open {
    number: u64,
    /// The id that the answer goes to.
    id: Value,
    params: Value,
    /// The connection that it came on.
    connection: u64,
    thinking: AbortHandle,
}

impl Asking {
    /// Asks, unless it is what was asked before the connection broke: then the answer goes to the new
    /// id.
    pub(crate) fn ask(&mut self, id: Value, question: Question, connection: u64, ask: &Ask) {
        let mut open = self.open.iter_mut();
        let same = open.find(|open| open.connection < connection && open.params == question.params);
        if let Some(open) = same {
            (open.id, open.connection) = (id, connection);
            return;
        }
        self.count += 1;
        let (number, params) = (self.count, question.params.clone());
        let answering = ask.ask(question);
        let thinking = self.thinking.spawn(async move { (number, answering.await) });
        self.open.push(Open { number, id, params, connection, thinking });
    }

    /// The server no longer wants an answer.
    pub(crate) fn withdraw(&mut self, id: &Value) {
        if let Some(at) = self.open.iter().position(|open| open.id == *id) {
            self.open.swap_remove(at).thinking.abort();
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.thinking.is_empty()
    }

    /// The next answer, and the id it goes to. Nothing if it was withdrawn.
    pub(crate) async fn answered(&mut self) -> Option<(Value, Answer)> {
        match self.thinking.join_next().await? {
            Ok((number, answer)) => {
                let at = self.open.iter().position(|open| open.number == number)?;
                Some((self.open.swap_remove(at).id, answer))
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use serde_json::json;

    use super::*;

    fn question(text: &str) -> Question {
        Question::read(None, "elicitation/create", &json!({ "message": text })).unwrap()
    }

    #[tokio::test]
    async fn what_is_asked_again_on_another_connection_is_not_put_to_the_user_twice() {
        let times = Arc::new(AtomicUsize::new(0));
        let counted = times.clone();
        let ask = Ask::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Answer::Decline }
        });
        let mut asking = Asking::default();
        asking.ask(json!("a"), question("Why?"), 1, &ask);
        asking.ask(json!("b"), question("Why?"), 2, &ask);
        assert_eq!(asking.answered().await, Some((json!("b"), Answer::Decline)));
        assert_eq!(times.load(Ordering::Relaxed), 1);
        // On one connection two that are alike are two.
        asking.ask(json!("c"), question("Why?"), 2, &ask);
        asking.ask(json!("d"), question("Why?"), 2, &ask);
        let mut ids = [asking.answered().await, asking.answered().await].map(|one| one.unwrap().0);
        ids.sort_by_key(Value::to_string);
        assert_eq!(ids, [json!("c"), json!("d")]);
        assert!(asking.is_idle());
    }

    #[tokio::test]
    async fn what_is_withdrawn_is_not_answered() {
        let ask = Ask::new(|_| std::future::pending());
        let mut asking = Asking::default();
        asking.ask(json!(1), question("Why?"), 1, &ask);
        asking.withdraw(&json!(1));
        assert_eq!(asking.answered().await, None);
        assert!(asking.is_idle());
    }
}
