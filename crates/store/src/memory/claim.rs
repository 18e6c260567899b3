//! The ready pile, and taking tasks from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use steadfast_core::Principal;

use super::content::{Content, Place};
use crate::{ClaimTasks, Claimed, Desk, TaskKey, TaskRow};

/// A tool and a version of it, or none yet. There are few, however many tasks there are.
type Class = (String, Option<u32>);

/// Whose, and of each the tasks in the order in which they became ready.
type Owners = BTreeMap<Option<Principal>, BTreeMap<u64, TaskKey>>;

/// Tasks that wait for somebody to take them.
#[derive(Debug, Default)]
pub(super) struct Pile {
    classes: BTreeMap<Class, Owners>,
    /// Who was served last, so that the next claim begins with the next owner.
    served: Option<Option<Principal>>,
    last: u64,
}

impl Pile {
    /// A number behind all others.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn put_in(&mut self, row: &TaskRow, number: u64) {
        let owners = self.classes.entry((row.tool.clone(), row.version)).or_default();
        owners.entry(row.owner.clone()).or_default().insert(number, row.key);
    }

    pub(super) fn take_out(&mut self, row: &TaskRow, number: u64) {
        let class = (row.tool.clone(), row.version);
        let Some(owners) = self.classes.get_mut(&class) else { return };
        let Some(tasks) = owners.get_mut(&row.owner) else { return };
        tasks.remove(&number);
        if tasks.is_empty() {
            owners.remove(&row.owner);
        }
        if owners.is_empty() {
            self.classes.remove(&class);
        }
    }

    /// The task whose turn it is, among those that the caller can run.
    fn pick(&mut self, tools: &[(String, u32, u32)]) -> Option<TaskKey> {
        let classes: BTreeSet<&Class> = tools
            .iter()
            .filter(|(_, low, high)| low <= high)
            .flat_map(|(tool, low, high)| {
                let class = |version| (tool.clone(), version);
                let served = self.classes.range(class(Some(*low))..=class(Some(*high)));
                served.chain(self.classes.get_key_value(&class(None)))
            })
            .map(|(class, _)| class)
            .collect();
        let piles: Vec<&Owners> =
            classes.iter().filter_map(|class| self.classes.get(class)).collect();
        let behind = match &self.served {
            Some(owner) => Bound::Excluded(owner),
            None => Bound::Unbounded,
        };
        let next = piles.iter().filter_map(|p| Some(p.range((behind, Bound::Unbounded)).next()?.0));
        let first = || piles.iter().filter_map(|p| Some(p.first_key_value()?.0)).min();
        let owner = next.min().or_else(first)?.clone();
        let (_, key) = piles.iter().filter_map(|p| p.get(&owner)?.first_key_value()).min()?;
        let key = *key;
        self.served = Some(owner);
        Some(key)
    }
}

impl Content {
    pub(super) fn claim(&mut self, claim: &ClaimTasks, desk: Desk) -> Vec<Claimed> {
        while let Some(&(_, key)) = self.wakes.first().filter(|(wake, _)| *wake <= claim.now) {
            self.put_ready(key);
        }
        let mut claimed = Vec::new();
        while claimed.len() < claim.limit {
            let Some(key) = self.pile.pick(&claim.tools) else { break };
            self.put(key, Place::Desk(desk));
            self.edit(key, |row| {
                row.epoch += 1;
                row.version = row.version.or_else(|| claim.newest(&row.tool));
            });
            let Some(task) = self.tasks.get(&key) else { break };
            claimed.push(Claimed {
                row: task.row.clone(),
                history: task.history.clone(),
                inbox: task.inbox.values().cloned().collect(),
            });
        }
        claimed
    }
}
