//! `steadfast task`.

use std::{io::Write, sync::Arc};

use clap::{Args, Subcommand};
use steadfast_client::{Answer, TaskHandle};

use crate::{Result, ask::Answering, call::Limits, screen::Screen, see, target::Target};

/// Look at a task, wait for it, answer it or cancel it.
#[derive(Args)]
pub(crate) struct Task {
    #[command(flatten)]
    target: Target,

    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print how it stands.
    Get(Named),
    /// Wait for its result, and answer its questions meanwhile.
    Result {
        #[command(flatten)]
        task: Named,
        #[command(flatten)]
        answering: Answering,
        #[command(flatten)]
        limits: Limits,
    },
    /// Answer what it asks now, and do not wait; 2026-07-28 only.
    Answer {
        #[command(flatten)]
        task: Named,
        /// Say no to it
        #[arg(long)]
        decline: bool,
        #[command(flatten)]
        answering: Answering,
    },
    /// Cancel it.
    Cancel(Named),
}

#[derive(Args)]
struct Named {
    /// The task's id
    id: String,
}

impl Task {
    pub(crate) async fn run(self) -> Result<u8> {
        let client = self.target.connect().await?;
        let screen = Screen::new(false);
        match self.what {
            What::Get(Named { id }) => {
                let state = client.task(&id).get().await?;
                writeln!(std::io::stdout(), "{}", see::pretty(&state.raw))?;
                Ok(0)
            }
            What::Cancel(Named { id }) => {
                client.task(&id).cancel().await?;
                Ok(0)
            }
            What::Answer { task: Named { id }, decline, answering } => {
                answer(&client.task(&id), decline, answering, &screen).await
            }
            What::Result { task: Named { id }, answering, limits } => {
                let screen = Screen::new(limits.quiet);
                let (status, asked) = (screen.clone(), screen.clone());
                let answering = Arc::new(answering);
                let wait = client
                    .task(&id)
                    .wait()
                    .on_status(move |seen| status.status(&seen))
                    .on_question(move |question| answering.clone().answer(question, asked.clone()));
                let words = self.target.words();
                let back = || {
                    let command = format!("steadfast task {words} result {id}");
                    Some(format!("it can be taken up with:\n  {command}"))
                };
                see::through(wait.into_future(), limits.timeout, &screen, back).await
            }
        }
    }
}

async fn answer(
    task: &TaskHandle,
    decline: bool,
    answering: Answering,
    screen: &Screen,
) -> Result<u8> {
    let state = task.get().await?;
    if state.questions.is_empty() {
        return Err("the task asks nothing now".into());
    }
    let answering = Arc::new(answering);
    for question in state.questions {
        let key = question.key.clone().unwrap_or_default();
        let answer = match decline {
            true => Answer::Decline,
            false => answering.clone().answer(question, screen.clone()).await,
        };
        task.answer(&key, answer).await?;
    }
    Ok(0)
}
