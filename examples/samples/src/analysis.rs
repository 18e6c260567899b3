//! An analysis in several steps, of which a person approves the costly one.

use steadfast::prelude::*;

use crate::slowly;

#[derive(Deserialize, JsonSchema)]
struct Decision {
    /// Whether to run the full analysis
    proceed: bool,
    /// How thorough it should be
    #[serde(default)]
    depth: Depth,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Depth {
    /// A first look
    Quick,
    /// Everything there is
    #[default]
    Full,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    /// What was looked at
    subject: String,
    /// What was found
    findings: Vec<String>,
    /// Whether the costly part was done
    complete: bool,
}

/// Analyse a subject. A preview comes first; the full analysis needs approval.
#[tool(title = "Analysis with approval", read_only)]
pub(crate) async fn analysis_with_approval(
    ctx: Context,
    /// What to analyse
    subject: String,
) -> Result<Structured<Report>> {
    ctx.status("collecting data");
    ctx.step("collect", || slowly("collecting data")).await?;
    ctx.step("preview", || slowly("making a preview")).await?;
    let mut findings = vec![format!("{subject} looks interesting")];
    let question = format!("The preview of {subject} is done. Run the full analysis?");
    let decision = ctx.ask::<Decision>(question).key("decision").await?.accepted();
    let Some(Decision { proceed: true, depth }) = decision else {
        return Ok(Structured(Report { subject, findings, complete: false }));
    };
    let parts = match depth {
        Depth::Quick => 2,
        Depth::Full => 5,
    };
    for part in 1..=parts {
        ctx.progress(f64::from(part - 1), Some(f64::from(parts)), Some("analysing"));
        let what = format!("analysing part {part} of {parts}");
        ctx.step("analyse", || slowly(&what)).await?;
        findings.push(format!("part {part} of {subject} is as expected"));
    }
    Ok(Structured(Report { subject, findings, complete: true }))
}
