//! Work that is for other processes.

use steadfast_engine::{Context, ListTasks, Result, Settings, Status};

use crate::support::{Ledger, Place, ada, counted, settle, tool};

async fn work(ledger: Ledger, ctx: Context, name: String) -> Result<u32> {
    counted(&ctx, &ledger, &name).await
}

fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

#[tokio::test(start_paused = true)]
async fn a_process_with_no_places_starts_tasks_for_others_and_runs_none() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let none = settings(|settings| (settings.max_running, settings.max_activities) = (0, 0));
    let front = place.start(|builder| builder.settings(none).tool(tool("work", &ledger, work)));
    let task = front.engine.tasks(ada()).start("work", "one").await.unwrap();
    settle().await;
    let seen = front.engine.tasks(ada()).get(&task.id).await.unwrap();
    assert_eq!((seen.status, ledger.count("one")), (Status::Queued, 0));
    assert!(!seen.served_here, "it has the code, and does not run it");
    let worker = place.start(|builder| builder.tool(tool("work", &ledger, work)));
    assert!(worker.engine.tasks(ada()).get(&task.id).await.unwrap().served_here);
    assert_eq!(front.end(&task.id).await.status, Status::Completed);
    assert_eq!(ledger.count("one"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_takes_up_only_what_it_is_to() {
    let (place, ledger) = (Place::new(), Ledger::default());
    let both = |builder: steadfast_engine::Builder| {
        builder.tool(tool("heavy", &ledger, work)).tool(tool("light", &ledger, work))
    };
    let only = settings(|settings| settings.only = Some(["light".to_owned()].into()));
    let life = place.start(|builder| both(builder.settings(only)));
    let tasks = life.engine.tasks(ada());
    let heavy = tasks.start("heavy", "one").await.unwrap().id;
    let light = tasks.start("light", "two").await.unwrap().id;
    assert_eq!(life.end(&light).await.status, Status::Completed);
    settle().await;
    let seen = tasks.get(&heavy).await.unwrap();
    assert_eq!((seen.status, ledger.count("one")), (Status::Queued, 0));
    let served = async |task| tasks.get(task).await.unwrap().served_here;
    assert!(!seen.served_here && served(&light).await);
    let listed = tasks.list(ListTasks::default()).await.unwrap().tasks;
    let unserved = listed.iter().filter(|task| !task.served_here).map(|task| &task.id);
    assert_eq!(unserved.collect::<Vec<_>>(), [&heavy]);
    let _other = place.start(both);
    let ended = life.end(&heavy).await;
    assert_eq!((ended.status, ended.served_here), (Status::Completed, false), "it ran elsewhere");
}
