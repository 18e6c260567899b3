//! Looking at tasks: get, list, history, counts, purge, and whose they are.

use std::time::Duration;

use steadfast_engine::{
    Builder, CallError, Context, Error, Event, ListTasks, Order, Result, Status, TaskId, Tasks,
    Tool,
};

use crate::support::{HOUR, Place, ada, bob, settle};

async fn waits(ctx: Context, what: String) -> Result<String> {
    match what.as_str() {
        "fail" => Err(Error::new("no")),
        "wait" => ctx.event("go").await,
        _ => Ok(what),
    }
}

fn tools(builder: Builder) -> Builder {
    builder.tool(Tool::new("t", waits)).tool(Tool::new("u", waits))
}

async fn ids(tasks: &Tasks, list: ListTasks) -> Vec<TaskId> {
    let list = tasks.list(list).await.unwrap();
    assert_eq!(list.next, None);
    list.tasks.into_iter().map(|task| task.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_is_filtered_by_status_tool_tag_owner_and_time() {
    let place = Place::new();
    let life = place.start(tools);
    let tasks = life.tasks();
    let done = tasks.start("t", "done").tag("team", "blue").await.unwrap().id;
    let failed = tasks.start("u", "fail").tag("team", "red").await.unwrap().id;
    tokio::time::sleep(HOUR).await;
    let waits = tasks.start("u", "wait").tag("team", "blue").await.unwrap().id;
    let bobs = life.engine.tasks(bob()).start("t", "done").await.unwrap().id;
    settle().await;
    let created = life.get(&waits).await.created;
    let all = ListTasks::default;

    assert_eq!(ids(&tasks, all()).await, [waits.clone(), failed.clone(), done.clone()]);
    let oldest = ListTasks { order: Order::OldestFirst, ..all() };
    assert_eq!(ids(&tasks, oldest).await, [done.clone(), failed.clone(), waits.clone()]);
    let statuses = vec![Status::Failed, Status::Completed];
    let ended = ListTasks { statuses, ..all() };
    assert_eq!(ids(&tasks, ended).await, [failed.clone(), done.clone()]);
    let tool = ListTasks { tool: Some("u".into()), ..all() };
    assert_eq!(ids(&tasks, tool).await, [waits.clone(), failed.clone()]);
    let tag = ListTasks { tag: Some(("team".into(), "blue".into())), ..all() };
    assert_eq!(ids(&tasks, tag).await, [waits.clone(), done.clone()]);
    let young = ListTasks { created_from: Some(created), ..all() };
    assert_eq!(ids(&tasks, young).await, std::slice::from_ref(&waits));
    let old = ListTasks { created_before: Some(created), ..all() };
    assert_eq!(ids(&tasks, old).await, [failed.clone(), done.clone()]);
    let operator = life.engine.operator();
    assert_eq!(ids(&operator, all()).await, [bobs.clone(), waits, failed, done]);
    let owner = ListTasks { owner: Some(bob()), ..all() };
    assert_eq!(ids(&operator, owner.clone()).await, [bobs]);
    assert_eq!(ids(&tasks, owner).await.len(), 3, "a principal sees its own, whatever it asks for");
}

#[tokio::test(start_paused = true)]
async fn pages_are_stable_while_tasks_come_and_go() {
    let place = Place::new();
    let life = place.start(tools);
    let mut expected = Vec::new();
    for _ in 0..25 {
        expected.push(life.begin("t", "done").await);
    }
    settle().await;
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let page = ListTasks { limit: 4, cursor: cursor.take(), ..ListTasks::default() };
        let page = life.tasks().list(page).await.unwrap();
        seen.extend(page.tasks.iter().map(|task| task.id.clone()));
        life.begin("t", "done").await;
        settle().await;
        // What was on a page may go; what is on the next stays there.
        life.tasks().purge(&page.tasks[0].id).await.unwrap();
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_none_is_an_error() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("t", "wait").await;
    for bad in ["", "t1", "h1.0000", "nonsense"] {
        let list = ListTasks { cursor: Some(bad.into()), ..ListTasks::default() };
        assert!(matches!(life.tasks().list(list).await, Err(CallError::BadCursor(_))), "{bad}");
        let page = life.tasks().history(&id, Order::NewestFirst, Some(bad), 0).await;
        assert!(matches!(page, Err(CallError::BadCursor(_))), "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_is_read_page_by_page_in_both_orders() {
    let place = Place::new();
    let life = place.start(|builder| {
        builder.tool(Tool::new("t", |ctx: Context, (): ()| async move {
            for _ in 0..10 {
                ctx.step("s", || async { Ok::<_, Error>(()) }).await?;
            }
            Ok(())
        }))
    });
    let id = life.run("t", ()).await.id;
    let read = async |order: Order| {
        let mut numbers = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = life.tasks().history(&id, order, cursor.as_deref(), 5).await.unwrap();
            assert!(page.entries.len() <= 5);
            numbers.extend(page.entries.iter().map(|entry| entry.seq));
            cursor = page.next;
            if cursor.is_none() {
                return numbers;
            }
        }
    };
    let oldest = read(Order::OldestFirst).await;
    assert_eq!(oldest, (0..12).collect::<Vec<u64>>());
    let newest = read(Order::NewestFirst).await;
    assert_eq!(newest, (0..12).rev().collect::<Vec<u64>>());
}

#[tokio::test(start_paused = true)]
async fn counts_are_per_status_and_principal() {
    let place = Place::new();
    let life = place.start(tools);
    for what in ["done", "done", "fail", "wait"] {
        life.begin("t", what).await;
    }
    life.engine.tasks(bob()).start("t", "done").await.unwrap();
    settle().await;
    let counts: Vec<_> = life.tasks().counts().await.unwrap().into_iter().collect();
    assert_eq!(counts, [(Status::Waiting, 1), (Status::Completed, 2), (Status::Failed, 1)]);
    assert_eq!(life.engine.operator().counts().await.unwrap()[&Status::Completed], 3);
}

#[tokio::test(start_paused = true)]
async fn purge_removes_what_has_ended_and_nothing_else() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("t", "wait").await;
    let early = life.tasks().purge(&id).await;
    assert!(matches!(early, Err(CallError::NotTerminal { .. })), "{early:?}");
    life.tasks().cancel(&id, None).await.unwrap();
    settle().await;
    life.tasks().purge(&id).await.unwrap();
    let gone = life.tasks().get(&id).await;
    assert!(matches!(gone, Err(CallError::Unknown(_))), "{gone:?}");
    assert!(life.tasks().counts().await.unwrap().is_empty());
    life.tasks().start("t", "done").id(id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_principals_task_is_an_unknown_one_in_every_call() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("t", "wait").await;
    let never = TaskId::new("never-was").unwrap();
    let bobs = life.engine.tasks(bob());
    for id in [&id, &never] {
        let answer = crate::support::accept(1);
        let rerun = bobs.rerun(id, steadfast_engine::RerunFrom::Start).await.map(drop);
        let calls = [
            ("get", bobs.get(id).await.map(drop)),
            ("wait", bobs.wait(id).await.map(drop)),
            ("history", bobs.history(id, Order::OldestFirst, None, 0).await.map(drop)),
            ("signal", bobs.signal(id, Event::new("go", &())).await),
            ("answer", bobs.answer(id, "q", answer).await),
            ("cancel", bobs.cancel(id, None).await),
            ("suspend", bobs.suspend(id, None).await),
            ("resume", bobs.resume(id).await),
            ("purge", bobs.purge(id).await),
            ("rerun", rerun),
            ("children", {
                let list = ListTasks { parent: Some(id.clone()), ..ListTasks::default() };
                bobs.list(list).await.map(drop)
            }),
        ];
        for (name, refused) in calls {
            assert!(matches!(refused, Err(CallError::Unknown(_))), "{name}: {refused:?}");
        }
    }
    settle().await;
    assert_eq!(life.get(&id).await.status, Status::Waiting);
}

#[tokio::test(start_paused = true)]
async fn an_operator_sees_and_steers_everybodys_tasks() {
    let place = Place::new();
    let life = place.start(tools);
    let operator = life.engine.operator();
    let id = life.begin("t", "wait").await;
    assert_eq!(operator.get(&id).await.unwrap().owner, Some(ada()));
    operator.suspend(&id, None).await.unwrap();
    operator.resume(&id).await.unwrap();
    operator.signal(&id, Event::new("go", "gone")).await.unwrap();
    assert_eq!(operator.wait(&id).await.unwrap().status, Status::Completed);
    let own = operator.start("t", "done").await.unwrap().id;
    assert_eq!(operator.get(&own).await.unwrap().owner, None);
    let ada = life.tasks().get(&own).await;
    assert!(matches!(ada, Err(CallError::Unknown(_))), "nobody's task is not ada's: {ada:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_a_change_or_with_the_end() {
    let place = Place::new();
    let life = place.start(tools);
    let id = life.begin("t", "wait").await;
    let seen = life.until(&id, Status::Waiting).await;
    let tasks = life.tasks();
    let change = tasks.wait_for_change(&id, &seen);
    let quiet = tokio::time::timeout(Duration::from_secs(60), change).await;
    assert!(quiet.is_err(), "nothing changed: {quiet:?}");
    tasks.signal(&id, Event::new("go", "gone")).await.unwrap();
    let changed = crate::support::within(tasks.wait_for_change(&id, &seen)).await.unwrap();
    assert_ne!(changed, seen);
    let ended = life.end(&id).await;
    assert_eq!(ended.output.unwrap().text(), "\"gone\"");
}
