//! Activities that somebody outside ends, by their token.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_engine::{ActivityContext, Builder, CallError, Context, Error, Result, Status};

use crate::support::{Life, Place, output, tool, when};

type Token = Arc<Mutex<Vec<String>>>;

async fn calls(_: (), ctx: Context, every: Option<u64>) -> Result<String> {
    let call = ctx.activity("outside", &());
    match every {
        None => call.await,
        Some(seconds) => call.heartbeat(Duration::from_secs(seconds)).await,
    }
}

/// An activity that hands its token out and leaves the rest to whoever has it.
fn tools(tokens: &Token) -> impl Fn(Builder) -> Builder {
    let tokens = tokens.clone();
    move |builder| {
        let tokens = tokens.clone();
        builder.tool(tool("t", &(), calls)).activity(
            "outside",
            move |a: ActivityContext, (): ()| {
                tokens.lock().unwrap().push(a.token().to_owned());
                a.complete_later();
                async { Ok(()) }
            },
        )
    }
}

async fn token(tokens: &Token) -> String {
    when(|| !tokens.lock().unwrap().is_empty()).await;
    tokens.lock().unwrap()[0].clone()
}

fn no_such(result: std::result::Result<(), CallError>) {
    assert!(matches!(result, Err(CallError::NoSuchActivity)), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_completed_from_outside_once() {
    let place = Place::new();
    let tokens = Token::default();
    let life = place.start(tools(&tokens));
    let id = life.begin("t", None::<u64>).await;
    let token = token(&tokens).await;
    life.parked(&id).await;
    life.tasks().complete_activity(&token, "done").await.unwrap();
    no_such(life.tasks().complete_activity(&token, "twice").await);
    assert_eq!(output::<String>(&life.end(&id).await), "done");
    no_such(life.tasks().heartbeat_activity(&token).await);
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_completed_from_outside_after_its_worker_died() {
    let place = Place::new();
    let tokens = Token::default();
    let first = place.start(tools(&tokens));
    let id = first.begin("t", None::<u64>).await;
    let token = token(&tokens).await;
    first.parked(&id).await;
    first.kill().await;
    let second = place.start(tools(&tokens));
    crate::support::settle().await;
    second.tasks().complete_activity(&token, "done").await.unwrap();
    assert_eq!(output::<String>(&second.end(&id).await), "done");
    assert_eq!(tokens.lock().unwrap().len(), 1, "it is not run again: somebody outside has it");
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_failed_from_outside_with_an_error_of_the_callers() {
    let place = Place::new();
    let tokens = Token::default();
    let life = place.start(tools(&tokens));
    let id = life.begin("t", None::<u64>).await;
    let token = token(&tokens).await;
    life.tasks().fail_activity(&token, Error::new("refused by hand").code("hand")).await.unwrap();
    let info = life.end(&id).await;
    assert_eq!(info.status, Status::Failed);
    assert_eq!(info.failure.unwrap().code.as_deref(), Some("hand"));
}

async fn kept_alive(life: &Life, token: &str) {
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(8)).await;
        life.tasks().heartbeat_activity(token).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_from_outside_keeps_an_activity_and_silence_gives_it_to_a_worker_again() {
    let place = Place::new();
    let tokens = Token::default();
    let life = place.start(tools(&tokens));
    let id = life.begin("t", Some(10u64)).await;
    let token = token(&tokens).await;
    kept_alive(&life, &token).await;
    assert_eq!(tokens.lock().unwrap().len(), 1);
    when(|| tokens.lock().unwrap().len() > 1).await;
    // The token stays good: it names the activity, not the attempt.
    life.tasks().complete_activity(&token, "late").await.unwrap();
    assert_eq!(output::<String>(&life.end(&id).await), "late");
}

#[tokio::test(start_paused = true)]
async fn completing_from_outside_tells_the_worker_that_is_still_at_it() {
    let place = Place::new();
    let tokens = Token::default();
    let told = crate::support::Ledger::default();
    let (handed, noted) = (tokens.clone(), told.clone());
    let life = place.start(|builder| {
        builder.tool(tool("t", &(), calls)).activity(
            "outside",
            move |a: ActivityContext, (): ()| {
                handed.lock().unwrap().push(a.token().to_owned());
                let told = noted.clone();
                async move {
                    a.cancelled().cancelled().await;
                    told.add("told");
                    Ok("from inside")
                }
            },
        )
    });
    let id = life.begin("t", None::<u64>).await;
    let token = token(&tokens).await;
    life.tasks().complete_activity(&token, "from outside").await.unwrap();
    assert_eq!(output::<String>(&life.end(&id).await), "from outside");
    told.has("told").await;
}
