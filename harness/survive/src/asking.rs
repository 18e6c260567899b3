//! What asks its client, in every way there is, and says what its author sees of the answer.

use std::time::Duration;

use steadfast::prelude::*;

use crate::{Approval, effect, slow};

/// What the author sees of an error.
fn seen(error: &Error) -> String {
    format!("{}: {error}", error.code_name().unwrap_or("no code"))
}

/// Asks the client's model between two steps.
#[tool]
pub(crate) async fn sample(ctx: Context) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    let said = ctx.sample(Sample::new("How much is two and two?")).await;
    ctx.step("after", || effect("after")).await?;
    Ok(said.map_or_else(|error| seen(&error), |reply| reply.text()))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Remark {
    /// Anything else
    #[serde(default)]
    note: Option<String>,
}

/// Asks for what may be left out.
#[tool]
pub(crate) async fn remark(ctx: Context) -> Result<String> {
    let answer = ctx.ask::<Remark>("Anything else?").await;
    ctx.step("after", || effect("after")).await?;
    Ok(match answer {
        Ok(Reply::Accepted(Remark { note })) => {
            format!("accepted: {}", note.as_deref().unwrap_or("nothing"))
        }
        Ok(Reply::Declined) => "declined".into(),
        Ok(Reply::Cancelled) => "dismissed".into(),
        Err(error) => seen(&error),
    })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Guest {
    /// Who comes
    name: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Party {
    /// How many come
    count: u32,
}

/// Asks the same twice, and then in the same words for something else.
#[tool]
pub(crate) async fn invite(ctx: Context) -> Result<String> {
    let first = ctx.ask::<Guest>("Who comes?").await?.accepted().map(|guest| guest.name);
    let second = ctx.ask::<Guest>("Who comes?").await?.accepted().map(|guest| guest.name);
    let more = ctx.ask::<Party>("Who comes?").await?.accepted().map(|party| party.count);
    ctx.step("after", || effect("after")).await?;
    Ok(format!("{first:?} {second:?} {more:?}"))
}

/// Asks, and does not wait for ever.
#[tool]
pub(crate) async fn hurry(ctx: Context, seconds: u64) -> Result<String> {
    let answer = ctx.ask::<Approval>("Quick: yes?").deadline(Duration::from_secs(seconds)).await;
    ctx.step("after", || effect("after")).await?;
    match answer {
        Ok(_) => Ok("answered".into()),
        Err(error) if error.is_timeout() => Ok("too late".into()),
        Err(error) => Err(error),
    }
}

/// A prompt that asks what it is to be about.
#[prompt]
pub(crate) async fn draft(ctx: Context) -> Result<Vec<PromptMessage>> {
    ctx.step("before", || effect("before")).await?;
    let guest = ctx.ask::<Guest>("About whom?").await?.accepted();
    ctx.step("after", || effect("after")).await?;
    let name = guest.map_or("nobody".into(), |guest| guest.name);
    Ok(vec![PromptMessage::user(format!("Write about {name}."))])
}

/// Says which directories the client works in, before and after they changed.
#[tool]
pub(crate) async fn roots(ctx: Context) -> Result<String> {
    let mut watch = ctx.watch_roots().await?;
    let before = ctx.roots().await?.len();
    ctx.step("before", || effect("before")).await?;
    ctx.log("info", "waiting");
    watch.changed().await?;
    ctx.step("after", || effect("after")).await?;
    Ok(format!("{before}, then {}", ctx.roots().await?.len()))
}

/// Waits until the door is open wide enough, and then for a gate.
#[tool]
pub(crate) async fn enter(ctx: Context, width: u32) -> Result<String> {
    ctx.step("before", || effect("before")).await?;
    ctx.log("info", "waiting");
    let wide = |open: Option<&u32>| open.is_some_and(|open| *open >= width);
    let open = ctx.state(Scope::Owner).wait_until::<u32, _>("door", wide).await?;
    ctx.step("second", || slow("second")).await?;
    ctx.step("after", || effect("after")).await?;
    Ok(format!("through {}", open.unwrap_or_default()))
}

/// Opens the door so wide.
#[tool]
pub(crate) async fn push(ctx: Context, width: u32) -> Result<()> {
    ctx.state(Scope::Owner).set("door", &width).await
}
