//! To copy: an approval that may take a week, tested in virtual time. The week takes milliseconds.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use steadfast::{
    prelude::*,
    testing::{Effects, TestServer, text, within},
};
use tokio::time::Instant;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

/// What is tested: asks, reminds every day, and gives up after a week.
#[tool]
async fn approve(ctx: Context, item: String) -> Result<String> {
    let mails: Arc<Effects> = ctx.attached().ok_or_else(|| Error::new("there is no mail"))?;
    for day in 1..=7 {
        let asked = ctx.ask::<Approval>(format!("Approve {item}?")).deadline(DAY).await;
        match asked {
            Ok(Reply::Accepted(Approval { approved: true })) => return Ok("approved".into()),
            Ok(_) => return Ok("rejected".into()),
            Err(error) if error.is_timeout() && day < 7 => {
                ctx.step("remind", || async { Ok::<_, Error>(mails.add("reminder")) }).await?;
            }
            Err(error) if error.is_timeout() => {}
            Err(error) => return Err(error),
        }
    }
    Ok("expired".into())
}

fn server(mails: &Effects) -> TestServer {
    let mails = mails.clone();
    TestServer::in_virtual_time(move || {
        let mails = mails.clone();
        Server::new("approvals").tool(approve).engine(|engine| engine.attach(mails))
    })
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_for_a_week_and_it_expires() {
    let mails = Effects::new();
    let mut server = server(&mails);
    server.up().await;
    let begun = Instant::now();
    let task = server.start("approve", &json!({ "item": "lamp" })).await;

    assert_eq!(text(&server.wait(&task).await), "expired");

    let took = begun.elapsed();
    assert!(7 * DAY <= took && took < 7 * DAY + DAY / 24, "{took:?}");
    mails.assert_exactly([("reminder", 6)]);
}

#[tokio::test(start_paused = true)]
async fn reminded_twice_and_killed_in_between_it_is_approved_on_the_third_day() {
    let mails = Effects::new();
    let mut server = server(&mails);
    server.up().await;
    let begun = Instant::now();
    let task = server.start("approve", &json!({ "item": "lamp" })).await;
    server.asked(&task).await;

    server.kill().await;
    // While it is down the day passes all the same.
    tokio::time::advance(DAY + DAY / 2).await;
    server.up().await;
    within(DAY, "the first reminder", mails.wait_for("reminder", 1)).await;
    within(2 * DAY, "the second reminder", mails.wait_for("reminder", 2)).await;

    let question = server.asked(&task).await;
    assert_eq!(question.message, "Approve lamp?");
    server.answer(&task, &question, json!({ "approved": true })).await;
    assert_eq!(text(&server.wait(&task).await), "approved");
    assert!(begun.elapsed() < 4 * DAY);
    mails.assert_exactly([("reminder", 2)]);
}
