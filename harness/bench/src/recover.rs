//! Ten thousand tasks in flight, a `kill -9`, and how long until all of them run again.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::{
    EngineArgs, Result,
    report::{Bound, Report},
};

pub(crate) async fn measure(args: &EngineArgs, report: &mut Report) -> Result<()> {
    eprintln!("recover");
    let mut times = Vec::new();
    for _ in 0..if args.quick { 1 } else { 3 } {
        let dir = args.scratch()?;
        let store = dir.path().join("engine");
        let this = std::env::current_exe()?;
        let mut victim = Command::new(&this)
            .args(["child", "hang", "--count", "10000", "--store"])
            .arg(&store)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(victim.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        victim.kill()?;
        victim.wait()?;
        let output = Command::new(&this)
            .args(["child", "recover", "--count", "10000", "--store"])
            .arg(&store)
            .output()?;
        times.push(String::from_utf8(output.stdout)?.trim().parse::<f64>()?);
    }
    report.add("recover_10k_s", times, Bound::AtMost(2.0));
    Ok(())
}
