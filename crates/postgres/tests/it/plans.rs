//! No statement looks at all rows of a table that can be large.

use steadfast_core::{Principal, Status, Timestamp};
use steadfast_postgres::{testing, testing::statements};
use steadfast_store::{Filter, Order, TaskKey};

/// A thousand times more parked tasks than there are of anything else.
const FILL: &str = "
    INSERT INTO task SELECT k, k, k, NULL, CASE WHEN k % 3 = 0 THEN k END,
        CASE WHEN k % 5 = 0 THEN k END, CASE WHEN k % 7 = 0 THEN k / 7 END, 1,
        CASE WHEN k % 100 = 0 THEN 1 WHEN k % 101 = 0 THEN 0 END, NULL, k, 1, 0, 0, 1,
        (k % 10)::smallint, 0::smallint, false, 'id' || k, 'tool' || k % 5, 'owner' || k % 50,
        CASE WHEN k % 4 = 0 THEN 'd' || k END, NULL, 'about', 'view', NULL
    FROM generate_series(1, 30000) k;
    INSERT INTO freed SELECT 'owner' || k % 50, 'f' || k, k, k FROM generate_series(1, 20000) k;
    INSERT INTO event SELECT k / 3, k % 3, 'body' FROM generate_series(0, 60000) k;
    INSERT INTO inbox SELECT k, 1, NULL, false, 'body' FROM generate_series(1, 20000) k;
    INSERT INTO question SELECT k, 1, 1, 'q', 'body' FROM generate_series(1, 20000) k;
    INSERT INTO activity SELECT k, k, 1, 0, k, CASE WHEN k % 5 = 0 THEN k END, 1, 1, 'n' || k % 9,
        't' || k, 'body' FROM generate_series(1, 20000) k;
    INSERT INTO state SELECT 's' || k % 100, 'k' || k, 1, 'v' FROM generate_series(1, 20000) k;
    INSERT INTO watch SELECT 's' || k % 100, 'k' || k, k FROM generate_series(1, 20000) k;
    INSERT INTO tag SELECT 'n' || k % 10, 'v', k FROM generate_series(1, 20000) k;
    INSERT INTO session SELECT 's' || k, k, 'body' FROM generate_series(1, 20000) k;
    INSERT INTO kept SELECT k, k, 'i' || k, '', 'body' FROM generate_series(1, 20000) k;
    INSERT INTO notice SELECT k, k, 'body' FROM generate_series(1, 20000) k;";

/// All alike: where one fits all do, and the planner may think that it need not look for one.
const FILL_ALIKE: &str = "
    INSERT INTO task SELECT k, k, k, NULL, NULL, NULL, 1, 1, NULL, NULL, k, 1, 0, 0, 1, 3::smallint,
        0::smallint, false, 'id' || k, 'tool', 'ann', NULL, NULL, 'about', 'view', NULL
    FROM generate_series(1, 30000) k;
    INSERT INTO tag SELECT 'name', 'value', k FROM generate_series(1, 30000) k;";

/// Statistics of the tables of this store alone: others are being filled, and must not be taken for empty.
const ANALYZE: &str = "
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
            EXECUTE format('ANALYZE %I', name);
        END LOOP;
    END $$";

/// Those that count everything, or read on in the order of the key until a page is full.
const WHOLE: [&str; 5] =
    ["list COUNT_ALL", "load FIRST_OVER", "point POSTED", "load NOTICE", "list by everything"];

#[tokio::test]
async fn no_statement_scans_a_large_table() {
    check(FILL, "").await;
}

#[tokio::test]
async fn no_listing_does_where_all_tasks_are_alike() {
    check(FILL_ALIKE, "list").await;
}

/// The plan alone does not show it: an index that is entered well can still be read to its other end.
#[tokio::test]
async fn a_page_of_a_listing_costs_what_it_shows() {
    let options = testing::shared().unwrap().options();
    options.clone().migrate().await.unwrap();
    testing::sql(&options, FILL_ALIKE).await.unwrap();
    let all = Filter { now: Timestamp(0), ..Filter::default() };
    let owner = || Principal::new("ann").ok();
    let tag = |value: &str| Some(("name".into(), value.into()));
    let tool = |tool: &str| Some(tool.to_owned());
    let filters = [
        all.clone(),
        Filter { owner: owner(), ..all.clone() },
        Filter { owner: owner(), statuses: vec![Status::Completed], ..all.clone() },
        Filter { owner: owner(), statuses: vec![Status::Queued], ..all.clone() },
        Filter { tool: tool("tool"), ..all.clone() },
        Filter { tool: tool("none"), ..all.clone() },
        Filter { statuses: vec![Status::Queued, Status::Cancelled], ..all.clone() },
        Filter { parent: Some(TaskKey(1)), ..all.clone() },
        Filter { parent: Some(TaskKey(2)), ..all.clone() },
        Filter { tag: tag("value"), ..all.clone() },
        Filter { tag: tag("a"), ..all.clone() },
        Filter { tag: tag("z"), ..all },
    ];
    let mut wrong = Vec::new();
    for (when, analyze) in [("", ""), ("analyzed", ANALYZE)] {
        testing::sql(&options, analyze).await.unwrap();
        for filter in &filters {
            for order in [Order::OldestFirst, Order::NewestFirst] {
                let pages = testing::pages(&options, filter, order).await.unwrap();
                // Fifty rows, each by way of two indexes at most; there are thousands of pages.
                if !(1..=400).contains(&pages) {
                    wrong.push(format!("{pages} pages {when}: {order:?} {filter:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn check(fill: &str, which: &str) {
    let options = testing::shared().unwrap().options();
    options.clone().migrate().await.unwrap();
    testing::sql(&options, fill).await.unwrap();
    // With statistics and without.
    let mut wrong = Vec::new();
    for (when, analyze) in [("", ""), ("analyzed", ANALYZE)] {
        testing::sql(&options, analyze).await.unwrap();
        for (name, sql) in statements().into_iter().filter(|(name, _)| name.starts_with(which)) {
            let plan = testing::plan(&options, &sql).await.unwrap();
            if let Some(line) = scans(&plan).filter(|_| !WHOLE.iter().any(|w| name.starts_with(w)))
            {
                wrong.push(format!("{name} {when}: {line}\n{plan}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The first line that reads a whole table, or a whole index.
fn scans(plan: &str) -> Option<&str> {
    // What lies on desks is as much as processes run.
    let small = [" on desk", " on writer", " on counter", "task_desk", "activity_desk"];
    let lines: Vec<&str> = plan.lines().collect();
    let whole = |at: &usize| {
        let line = lines[*at];
        if small.iter().any(|table| line.contains(table)) {
            return false;
        }
        let first_only = *at > 0 && lines[at - 1].contains("Limit ") && !line.contains("pkey");
        let by_index = line.contains("Index Scan") || line.contains("Index Only Scan");
        let next = lines.get(at + 1).is_some_and(|next| next.contains("Index Cond"));
        line.contains("Seq Scan on") || (by_index && !next && !first_only)
    };
    (0..lines.len()).find(whole).map(|at| lines[at].trim())
}
