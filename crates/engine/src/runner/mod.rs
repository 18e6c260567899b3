//! Running one task: its future, its machine, and the commits between them.

mod cleanup;
mod effects;
mod joint;
mod nudge;
mod park;
mod rehearsal;
mod root;
mod told;
mod turn;

use std::sync::Arc;

pub(crate) use nudge::Nudge;
pub(crate) use park::{put_back, return_to_store};
use rehearsal::Rehearsal;
use root::Root;
use steadfast_core::{Machine, PollKind, Record, Status, Timestamp, Turn, Urgency, View, decode};
use steadfast_store::{Claimed, InboxRow, Lease, TaskRow, Turned};
use tokio_util::sync::CancellationToken;

use crate::{
    Context,
    blob::{self, About},
    context::{Shared, Verdict, Wakers},
    dispatch::sleep_until,
    engine::Core,
    registry::BoxFuture,
};

/// A task in memory.
pub(crate) struct Runner {
    core: Arc<Core>,
    shared: Arc<Shared>,
    root: Root,
    lease: Lease,
    /// The task as it was when it came into memory.
    row: TaskRow,
    about: About,
    nudge: Arc<Nudge>,
    /// Messages that came with the claim, to be applied once the history is used up.
    mail: Vec<InboxRow>,
    /// The last message that was applied, and the last that a durable turn consumed.
    applied: i64,
    consumed: i64,
    /// What the store shows of the task.
    shown: (Status, View),
    /// Deaths were counted: the first turn of ours clears them.
    died: bool,
    commit: Option<BoxFuture<Flight>>,
    /// The commit under way may be refused in part: nothing may go on until it is back.
    hold: bool,
    /// Hold back: suspended, or the process is going down.
    frozen: Option<Frozen>,
    /// Why it was suspended, to be shown on.
    reason: Option<String>,
    /// The code has returned; what is left is its last commit.
    returned: bool,
    /// When notes that wait for company must go out.
    notes_due: Option<Timestamp>,
    /// When the last went out by themselves.
    notes_sent: Option<Timestamp>,
    /// With effect validation: the function, to be run again.
    rehearsal: Option<Box<Rehearsal>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Frozen {
    Suspended,
    GoingDown,
}

/// A commit that came back.
struct Flight {
    turn: Turn,
    consumed: i64,
    shown: (Status, View),
    ended: Option<Ended>,
    /// What became of the work that was committed with it.
    verdict: Option<Verdict>,
    result: Result<Turned, steadfast_store::Error>,
}

/// How a task ended, as its last turn says.
struct Ended {
    at: Timestamp,
    expires: Option<Timestamp>,
    end: Vec<u8>,
}

/// What is left to do with a task after its runner.
enum Then {
    /// Nothing: it is parked, over, or somebody else's.
    Nothing,
    /// It failed and has something to undo.
    CleanUp,
    /// Its code begins anew with this history.
    Again(Vec<Record>),
    /// We don't know what the store holds: look.
    Reload,
}

/// Runs a task that was started just now, with the history it was started with.
pub(crate) fn spawn_new(
    core: &Arc<Core>,
    row: TaskRow,
    lease: Lease,
    history: Vec<Record>,
    missed: u64,
) {
    let nudge = Arc::new(Nudge::new(lease.epoch, &row));
    with_nudge(core, nudge, lease, missed, move |core, nudge| async move {
        live(&core, row, lease, history, Vec::new(), &nudge).await;
    });
}

/// Runs a task that was claimed from the ready pile.
pub(crate) fn spawn_claimed(core: &Arc<Core>, claimed: Claimed, missed: u64) {
    let lease = claimed.lease();
    let Claimed { row, history, inbox } = claimed;
    let records: Result<Vec<Record>, _> =
        history.iter().enumerate().map(|(seq, line)| decode(seq as u64, line)).collect();
    let ended = row.status.is_terminal();
    let nudge = Arc::new(Nudge::new(lease.epoch, &row));
    with_nudge(core, nudge, lease, missed, move |core, nudge| async move {
        match records {
            _ if ended => {
                // It has ended long ago: nobody need wait for what is left to do.
                nudge.leave(None);
                Box::pin(cleanup::clean_up(&core, lease)).await;
            }
            Ok(records) => {
                if row.bound.is_some() && Box::pin(park::is_abandoned(&core, &row)).await {
                    return;
                }
                live(&core, row, lease, records, inbox, &nudge).await;
            }
            Err(error) => {
                Box::pin(park::set_aside(&core, &row, lease, error.to_string())).await;
            }
        }
    });
}

/// Lets `life` run in the engine, known by its nudge as long as it does.
fn with_nudge<F, Fut>(core: &Arc<Core>, nudge: Arc<Nudge>, lease: Lease, missed: u64, life: F)
where
    F: FnOnce(Arc<Core>, Arc<Nudge>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    // Who holds what, and since when: of all processes together each task and epoch is said once.
    tracing::debug!(
        target: "steadfast::lease", task = %nudge.id, epoch = lease.epoch,
        desk = core.store.desk().0, "task taken up"
    );
    core.enlist(lease.key, &nudge, missed);
    let core = core.clone();
    // Boxed, because a spawned future is moved whole several times, and this one is large.
    core.tasks.clone().spawn(Box::pin(async move {
        tokio::select! {
            biased;
            () = life(core.clone(), nudge.clone()) => {}
            // The rest is handed back by closing the store, or taken over from the dead.
            () = nudge.stopped() => {}
        }
        core.delist(lease.key, &nudge);
        nudge.leave(None);
        if nudge.is_in_doubt() {
            // Only now: as long as we are known the task is not taken for an orphan.
            core.doubt.notify_one();
        }
        core.give_places(1);
    }));
}

/// All the runs of a task until it leaves memory.
///
/// What seldom happens is boxed, here and below: a future is as large as the largest that it may
/// await, and each task has one.
async fn live(
    core: &Arc<Core>,
    row: TaskRow,
    lease: Lease,
    history: Vec<Record>,
    mail: Vec<InboxRow>,
    nudge: &Arc<Nudge>,
) {
    let (mut row, mut history, mut mail) = (row, history, mail);
    loop {
        let Some(mut runner) = Runner::new(core, &row, lease, history, mail, nudge.clone()) else {
            return Box::pin(park::hand_back(core, lease)).await;
        };
        let then = runner.drive().await;
        runner.leave();
        match then {
            Then::Nothing => return,
            Then::CleanUp => return Box::pin(cleanup::clean_up(core, lease)).await,
            Then::Again(anew) => {
                (row.status, row.view) = (runner.shown.0, blob::write(&runner.shown.1));
                (history, mail) = (anew, Vec::new());
            }
            Then::Reload => match Box::pin(park::reload(core, lease)).await {
                Some(loaded) => (row, history, mail) = loaded,
                // Ended, perhaps with something left to do, or no longer ours.
                None => return nudge.set_doubt(),
            },
        }
        // What the last runner was told, and what came while its last commit was under way, is for
        // the next one.
        nudge.set(Nudge::LOOK);
        if core.draining.is_cancelled() {
            nudge.set(Nudge::DRAIN);
        }
    }
}

impl Runner {
    fn new(
        core: &Arc<Core>,
        row: &TaskRow,
        lease: Lease,
        history: Vec<Record>,
        mail: Vec<InboxRow>,
        nudge: Arc<Nudge>,
    ) -> Option<Runner> {
        let registry = core.registry();
        let tool = registry.tools.get(&row.tool)?;
        let view = blob::read_view(&row.view);
        let validates = core.settings.validate_effects;
        let rehearsal = validates.then(|| Box::new(Rehearsal::new(tool, &history)));
        let about: About = blob::read(&row.about).unwrap_or_default();
        let machine = Machine::new(history, view.clone(), core.settings.task)
            .identified_by(&row.id)
            .passing_progress(about.passing_progress);
        let input = machine.input().cloned();
        let shared = Arc::new(Shared {
            machine: machine.into(),
            wakers: Wakers::default(),
            core: core.clone(),
            key: row.key,
            epoch: lease.epoch,
            id: row.id.clone(),
            tool: row.tool.clone(),
            owner: row.owner.clone(),
            trace: about.trace.clone(),
            call: about.call.clone(),
            session: about.session.clone(),
            origin: about.origin.clone().unwrap_or_else(|| row.id.clone()),
            cancel: CancellationToken::new(),
            asked: validates.then(Default::default),
            muted: Default::default(),
            joints: Default::default(),
        });
        let context = Context { shared: shared.clone() };
        let input = input.unwrap_or_else(steadfast_core::Json::null);
        let run = tool.run.clone();
        let root = Root::new(Box::pin(async move { run(context, input).await }));
        Some(Runner {
            core: core.clone(),
            shared,
            root,
            lease,
            about,
            row: row.clone(),
            nudge,
            mail,
            applied: 0,
            consumed: 0,
            shown: (row.status, view),
            died: row.deaths > 0,
            commit: None,
            hold: false,
            frozen: None,
            reason: None,
            returned: false,
            notes_due: None,
            notes_sent: None,
            rehearsal,
        })
    }

    /// The future is dropped; that means nothing for the operations it still holds.
    fn leave(&mut self) {
        self.shared.machine().close();
        self.root.drop_future();
    }

    async fn drive(&mut self) -> Then {
        if self.nudge.is_told()
            && let Some(then) = Box::pin(self.told_before()).await
        {
            return then;
        }
        self.poll(PollKind::Delivery);
        loop {
            if !self.hold {
                self.advance();
                self.rehearse();
            }
            if self.shared.machine().halted().is_some()
                && let Some(then) = Box::pin(self.stop()).await
            {
                return then;
            }
            self.begin_commit();
            self.tell_progress();
            // Neither steps nor commits need wait for anything; others must get their turn.
            tokio::task::consume_budget().await;
            if let Some(then) = self.wait().await {
                return then;
            }
        }
    }

    /// Delivers what there is to deliver, one poll for each.
    fn advance(&mut self) {
        // Held back, the code learns of nothing more, so that nothing new starts.
        while !self.returned && self.frozen.is_none() {
            let mut machine = self.shared.machine();
            let delivered = machine.deliver();
            if let Some(op) = delivered {
                drop(machine);
                if let Some(op) = op {
                    self.shared.wakers.wake(op);
                }
                self.poll(PollKind::Delivery);
                continue;
            }
            if !machine.go_live() {
                return;
            }
            drop(machine);
            for row in std::mem::take(&mut self.mail) {
                self.apply(&row);
            }
            self.poll(PollKind::Wake);
        }
    }

    fn apply(&mut self, row: &InboxRow) {
        if row.seq <= self.applied {
            return;
        }
        self.applied = row.seq;
        self.nudge.set_mail(row.seq);
        match blob::read_message(row) {
            Ok(message) => self.shared.machine().apply(message, self.core.world.now()),
            Err(error) => {
                tracing::error!(task = %self.shared.id, %error, "a message can't be read; left out");
            }
        }
    }

    fn poll(&mut self, kind: PollKind) {
        if self.returned {
            return;
        }
        let now = self.core.world.now();
        self.shared.machine().begin_poll(kind, now);
        match self.root.poll() {
            Ok(None) => self.shared.machine().check_idle(),
            Ok(Some(outcome)) => {
                self.returned = true;
                let unlike = self.rehearse_end(kind, &outcome);
                let (now, mut machine) = (self.core.world.now(), self.shared.machine());
                match unlike {
                    None => machine.finish(outcome, now),
                    Some(failure) => machine.fail(failure, now),
                }
            }
            Err(failure) => {
                tracing::error!(
                    task = %self.shared.id, tool = self.shared.tool,
                    detail = failure.detail, "the tool panicked"
                );
                self.returned = true;
                self.shared.machine().fail(failure, self.core.world.now());
            }
        }
    }

    /// Lets steps start whose leave has come.
    fn start_steps(&mut self) {
        let runnable = self.shared.machine().runnable();
        for op in &runnable {
            self.shared.wakers.wake(*op);
        }
        if !runnable.is_empty() {
            self.poll(PollKind::Wake);
        }
    }

    /// Waits for the next thing to happen, and deals with it.
    async fn wait(&mut self) -> Option<Then> {
        let flying = self.commit.is_some();
        if self.returned && !flying && self.shared.machine().urgency() == Urgency::Idle {
            // Can't be: the end is always committed. Rather look than hang.
            return Some(Then::Reload);
        }
        let park = self.parks_at();
        let (due, parking) = {
            let mut machine = self.shared.machine();
            let due = if self.hold { None } else { machine.next_deadline() };
            let due = [due, self.notes_due].into_iter().flatten().min();
            match park {
                Some(park) if due.is_none_or(|due| park < due) => (Some(park), true),
                _ => (due, false),
            }
        };
        let nudge = self.nudge.clone();
        let root = self.root.waker();
        let core = self.core.clone();
        tokio::select! {
            biased;
            // First, because the rest may never end: commits that are back at once, with steps
            // between them that don't wait for anything.
            why = nudge.wait() => Box::pin(self.nudged(why)).await,
            flight = fly(&mut self.commit) => {
                self.commit = None;
                self.landed(flight).await
            }
            () = root.woken(), if !self.returned && !self.hold => {
                self.poll(PollKind::Wake);
                None
            }
            () = sleep_until(&core, due), if due.is_some() => {
                if parking {
                    return Box::pin(self.park()).await;
                }
                let now = core.world.now();
                if !self.hold && !self.returned {
                    self.shared.machine().tick(now);
                    self.start_steps();
                }
                if self.notes_due.is_some_and(|due| due <= now) {
                    self.send_notes(now);
                }
                None
            }
        }
    }
}

async fn fly(commit: &mut Option<BoxFuture<Flight>>) -> Flight {
    match commit {
        Some(commit) => commit.await,
        None => std::future::pending().await,
    }
}
