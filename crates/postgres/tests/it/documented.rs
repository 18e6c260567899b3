//! What `docs/postgres.md` says of the tables is so.

use std::collections::BTreeSet;

use steadfast_postgres::testing;

const TEXT: &str = include_str!("../../../../docs/postgres.md");

#[tokio::test]
async fn every_table_is_described_and_every_query_can_be_asked() {
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
    let first = rows.map(|line| line.split('|').nth(1).unwrap());
    let described: BTreeSet<String> =
        first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    assert_eq!(described, tables);
    let (_, queries) = TEXT.split_once("## Looking into it").unwrap();
    let (_, queries) = queries.split_once("```sql").unwrap();
    let (queries, _) = queries.split_once("```").unwrap();
    for query in queries.split_inclusive(';').filter(|query| !query.trim().is_empty()) {
        client.batch_execute(query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    }
}
