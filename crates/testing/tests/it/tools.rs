//! A server to be tested.

use std::{sync::Arc, time::Duration};

use steadfast::{prelude::*, testing::Effects};

/// Says that it was dropped.
struct Guard(Arc<Effects>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

fn effects(ctx: &Context) -> Result<Arc<Effects>> {
    ctx.attached().ok_or_else(|| Error::new("there are no effects"))
}

/// Never ends, the first time.
#[tool]
async fn hang(ctx: Context) -> Result<String> {
    let effects = effects(&ctx)?;
    let hang = || async {
        let _guard = Guard(effects.clone());
        if effects.add("begun") == 1 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Error>(())
    };
    ctx.step("hang", hang).await?;
    Ok("done".into())
}

/// Leaves something running.
#[tool]
async fn spawn(ctx: Context) -> Result<String> {
    let guard = Guard(effects(&ctx)?);
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(guard);
    });
    Ok("spawned".into())
}

/// Takes a moment.
#[tool]
async fn work(ctx: Context) -> Result<String> {
    let effects = effects(&ctx)?;
    let work = || async {
        effects.add("begun");
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok::<_, Error>(effects.add("done"))
    };
    ctx.step("work", work).await?;
    Ok("done".into())
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    approved: bool,
}

/// Asks, and says who called.
#[tool]
async fn approve(ctx: Context) -> Result<String> {
    let asked = ctx.ask::<Approval>("May it be done?").await?;
    let owner = ctx.caller().principal.map(|owner| owner.to_string()).unwrap_or_default();
    Ok(match asked.accepted() {
        Some(Approval { approved: true }) => format!("yes to {owner}"),
        _ => "no".into(),
    })
}

/// Lasts a week.
#[tool]
async fn week(ctx: Context) -> Result<String> {
    ctx.progress(0.5, Some(1.0), Some("on it"));
    ctx.sleep(Duration::from_secs(7 * 24 * 3600)).await;
    Ok("a week later".into())
}

pub(crate) fn make(effects: &Effects) -> impl Fn() -> Server + Send + Sync + 'static {
    let effects = effects.clone();
    move || {
        let shared = effects.clone();
        // Not durable: it lives and dies with its request.
        let plain = Tool::plain("plain", move |_: NoInput| {
            let guard = Guard(Arc::new(shared.clone()));
            async move {
                guard.0.add("begun");
                std::future::pending::<()>().await;
                drop(guard);
                Ok("never".to_owned())
            }
        });
        let effects = effects.clone();
        Server::new("kit")
            .tool(hang)
            .tool(spawn)
            .tool(work)
            .tool(approve)
            .tool(week)
            .tool(plain)
            .engine(|engine| engine.attach(effects))
    }
}
