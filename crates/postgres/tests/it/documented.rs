//! What `docs/postgres.md` says of the tables is so.

use std::collections::BTreeSet;

use steadfast_postgres::testing;

const TEXT: &str = include_str!("../../../../docs/postgres.md");

/// What stands in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[tokio::test]
async fn tables_are_described_columns_are_there_and_queries_can_be_asked() {
    let server = testing::shared().unwrap();
    let options = server.options().schema("steadfast");
    let store = options.clone().open().await.unwrap();
    crate::common::held(&store, "a").await;
    let (client, wire) = tokio_postgres::connect(
        &server.url().replace("?sslmode=disable", ""),
        tokio_postgres::NoTls,
    )
    .await
    .unwrap();
    tokio::spawn(wire);
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'steadfast'";
    let tables = client.query(sql, &[]).await.unwrap();
    let tables: BTreeSet<String> = tables.iter().map(|row| row.get(0)).collect();
    let (_, table) = TEXT.split_once("| table | what is in it |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split('|').collect()).collect();
    let described: BTreeSet<String> =
        rows.iter().flat_map(|row| names(row[1])).map(str::to_owned).collect();
    assert_eq!(described, tables);
    let sql = "SELECT table_name::text, column_name::text FROM information_schema.columns
               WHERE table_schema = 'steadfast'";
    let columns = client.query(sql, &[]).await.unwrap();
    let columns: BTreeSet<(String, String)> =
        columns.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_there = |table: &str, column: &str| columns.contains(&(table.into(), column.into()));
    let mut named = 0;
    for row in &rows {
        // That of a task, wherever it is.
        let own = row[2].replace("(a `key`)", "");
        assert!(own == row[2] || is_there("task", "key"));
        for column in names(&own).filter(|name| name.chars().all(|c| c.is_ascii_lowercase())) {
            let there = names(row[1]).any(|table| is_there(table, column));
            assert!(there, "{column} is no column of {}", row[1]);
            named += 1;
        }
    }
    assert!(named > 25, "{named}");
    for (table, column) in [("schema_version", "version"), ("schema_version", "oldest")] {
        assert!(is_there(table, column), "{table} has no {column}");
    }
    let (_, queries) = TEXT.split_once("## Looking into it").unwrap();
    let (_, queries) = queries.split_once("```sql").unwrap();
    let (queries, _) = queries.split_once("```").unwrap();
    for query in queries.split_inclusive(';').filter(|query| !query.trim().is_empty()) {
        client.batch_execute(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    }
}
