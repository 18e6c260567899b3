//! A purchase order that needs approval when it is large.

use steadfast::prelude::*;

use crate::slowly;

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Order {
    /// What to buy
    item: String,
    /// What it costs in all, in dollars
    amount: f64,
    /// How many
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether the order may go out
    approved: bool,
    /// Anything the buyer should know
    #[serde(default)]
    comment: Option<String>,
}

/// Submit a purchase order. Orders over $1,000 need approval.
#[tool(title = "Purchase order", destructive, open_world)]
pub(crate) async fn purchase_order(ctx: Context, order: Order) -> Result<String> {
    ctx.step("validate", || slowly("validating the order")).await?;
    ctx.step("reserve", || slowly("reserving the goods")).undo("release", &order.item).await?;
    if order.amount > 1000.0 {
        let question = format!("Approve {} x {} for ${}?", order.count, order.item, order.amount);
        let reply = ctx.ask::<Approval>(question).key("approval").await?.accepted();
        if !reply.as_ref().is_some_and(|answer| answer.approved) {
            let comment = reply.and_then(|answer| answer.comment).unwrap_or_default();
            // An error, so that what was reserved is released.
            return Err(Error::new(format!("The order was rejected. {comment}")));
        }
    }
    // Never twice: if the process dies in the middle of it, we must look instead of charging again.
    match ctx.step("charge", || slowly("charging the card")).at_most_once().await {
        Err(error) if error.is_unfinished() => {
            ctx.step("report", || slowly("reporting that the card may or may not be charged"))
                .await?;
        }
        charged => charged?,
    }
    for n in 1..=order.count {
        ctx.progress(f64::from(n - 1), Some(f64::from(order.count)), Some("packing"));
        let what = format!("packing item {n}");
        ctx.step("pack", || slowly(&what)).retry(Retry::exponential().attempts(5)).await?;
    }
    Ok(format!("{} x {} on their way.", order.count, order.item))
}

/// Takes a reservation back.
pub(crate) async fn release(_: ActivityContext, item: String) -> Result<()> {
    slowly(&format!("releasing {item}")).await
}
