//! An engine with nothing to do.

use std::process::Command;

use crate::{
    EngineArgs, Result,
    report::{Bound, Report},
};

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    eprintln!("idle");
    let dir = args.scratch()?;
    let seconds = if args.quick { "2" } else { "10" };
    let output = Command::new(std::env::current_exe()?)
        .args(["child", "idle", "--count", seconds, "--store"])
        .arg(dir.path().join("engine"))
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let (wakes, written) = text.trim().split_once(' ').ok_or("the child said nothing")?;
    report.add("idle_wakeups_per_s", vec![wakes.parse()?], Bound::AtMost(20.0));
    report.add("idle_bytes_written", vec![written.parse()?], Bound::AtMost(0.0));
    Ok(())
}
