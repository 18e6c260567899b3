//! Every statement that runs on tables that can be large, for a look at its plan.

use steadfast_core::{Principal, Status, Timestamp};
use steadfast_store::{Filter, Order, TaskKey};

use crate::{read, solo, work};

/// The statements, each with a name.
#[must_use]
pub fn statements() -> Vec<(String, String)> {
    let fixed = read::STATEMENTS.iter().chain(solo::STATEMENTS).chain(work::STATEMENTS);
    let fixed = fixed.map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned()));
    let own = [("core SIT_DOWN".to_owned(), crate::core::SIT_DOWN.to_owned())];
    fixed.chain(own).chain(lists()).collect()
}

/// Listings by every combination that has a way of its own.
fn lists() -> Vec<(String, String)> {
    let all = Filter { now: Timestamp(0), ..Filter::default() };
    let owner = || Principal::new("ann").ok();
    let tag = || Some(("t".into(), "1".into()));
    let statuses = || vec![Status::Running, Status::Failed];
    let filters = [
        ("everything", all.clone()),
        ("owner", Filter { owner: owner(), ..all.clone() }),
        ("owner and status", Filter { owner: owner(), statuses: statuses(), ..all.clone() }),
        ("tool", Filter { tool: Some("t".into()), ..all.clone() }),
        ("status", Filter { statuses: statuses(), ..all.clone() }),
        ("parent", Filter { parent: Some(TaskKey(1)), ..all.clone() }),
        ("parent and tag", Filter { parent: Some(TaskKey(1)), tag: tag(), ..all.clone() }),
        ("tag", Filter { tag: tag(), ..all.clone() }),
        ("tag and owner", Filter { tag: tag(), owner: owner(), statuses: statuses(), ..all }),
    ];
    let mut found = Vec::new();
    for (name, filter) in filters {
        for order in [Order::OldestFirst, Order::NewestFirst] {
            for after in [None, Some(TaskKey(5))] {
                let sql = read::Query::new(&filter, order, after, 50).sql;
                found.push((format!("list by {name}, {order:?}, {after:?}"), sql));
            }
        }
    }
    found
}
