//! Others on the same server, measured by a program of its own in turn with ours.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use crate::{
    EngineArgs, Result,
    report::{Bound, Report},
};

/// Their names, and by how much we are to be faster.
const PEERS: [(&str, f64); 2] = [("dbos", 8.0), ("duroxide-pg", 50.0)];

pub(crate) struct Peers {
    program: Option<PathBuf>,
    theirs: [Vec<f64>; 2],
    ratio: [Vec<f64>; 2],
}

impl Peers {
    pub(crate) fn new(args: &EngineArgs) -> Peers {
        Peers { program: args.peers.clone(), theirs: Default::default(), ratio: Default::default() }
    }

    /// Measures them next to a rate of ours.
    pub(crate) fn measure(&mut self, address: &str, ours: f64) -> Result<()> {
        let Some(program) = &self.program else { return Ok(()) };
        for (which, (peer, _)) in PEERS.into_iter().enumerate() {
            let output =
                Command::new(program).args(["--peer", peer, "--postgres", address]).output()?;
            let figures: BTreeMap<String, f64> =
                serde_json::from_slice(&output.stdout).map_err(|error| {
                    format!("{peer}: {error}: {}", String::from_utf8_lossy(&output.stderr))
                })?;
            let rate =
                *figures.get(&format!("{peer}_tasks_per_s")).ok_or("the peer said nothing")?;
            self.theirs[which].push(rate);
            self.ratio[which].push(ours / rate);
        }
        Ok(())
    }

    pub(crate) fn report(self, report: &mut Report) {
        if self.program.is_none() {
            return;
        }
        for (((peer, bound), theirs), ratio) in PEERS.into_iter().zip(self.theirs).zip(self.ratio) {
            let name = peer.replace('-', "_");
            report.add(format!("{name}_tasks_per_s"), theirs, Bound::None);
            report.add(format!("pg_vs_{name}"), ratio, Bound::AtLeast(bound));
        }
    }
}
