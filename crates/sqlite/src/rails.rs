//! What keeps an author's SQL in its place while it runs on the writer's connection.
//!
//! SQLite asks two callbacks: one when a statement is prepared, whether it may be; one while a statement
//! runs, whether it may go on. Both are there from the beginning and let everything pass but between
//! [`Rails::enter`] and [`Rails::leave`]: to set them each time would make SQLite prepare all statements
//! of ours anew. Statements that are prepared already are asked for nothing, so that ours cost the same.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};
use steadfast_store::{Error, Result};

use crate::schema::{is_ours, is_reserved};

/// The clock is looked at whenever a statement has done this many operations. One of ours does a few
/// dozen.
const OPERATIONS: i32 = 4_000;

/// Pragmas that only tell something of the author's tables.
const TELLING: [&str; 8] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "foreign_key_check",
];

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call of the store's from inside a transaction's closure would wait for the writer, which waits for
/// the closure.
pub(crate) fn not_inside() -> Result<()> {
    match INSIDE.get() {
        false => Ok(()),
        true => Err(Error::Unavailable(
            "the closure of a transaction may only use the handle it is given: the store waits for it"
                .into(),
        )),
    }
}

#[derive(Default)]
pub(crate) struct Rails {
    on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the time of the code that runs is over, and how much it has.
    until: Option<(Instant, Duration)>,
    /// It went on for longer, and was stopped.
    late: bool,
    /// The statement drops or alters a table of the author's.
    reshapes: bool,
    /// Why a statement was refused.
    refused: Option<String>,
    /// The file failed, and not the statement.
    trouble: Option<(rusqlite::ffi::Error, Option<String>)>,
}

/// What happened while the code ran.
pub(crate) struct Ran {
    /// It was stopped after this time.
    pub(crate) late: Option<Duration>,
    /// The file failed.
    pub(crate) trouble: Option<rusqlite::Error>,
}

impl Rails {
    /// Lays them on a connection.
    pub(crate) fn lay(conn: &mut Connection) -> rusqlite::Result<Arc<Rails>> {
        let rails = Arc::new(Rails::default());
        let asked = Arc::clone(&rails);
        conn.authorizer(Some(move |context: AuthContext<'_>| asked.authorize(&context)))?;
        let watched = Arc::clone(&rails);
        conn.progress_handler(OPERATIONS, Some(move || watched.is_late()))?;
        Ok(rails)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on code of an author's runs.
    pub(crate) fn enter(&self, limit: Duration) {
        let until = Instant::now().checked_add(limit).map(|until| (until, limit));
        *self.lock() = State { until, ..State::default() };
        INSIDE.set(true);
        self.on.store(true, Ordering::Relaxed);
    }

    /// And from here on ours.
    pub(crate) fn leave(&self) -> Ran {
        self.on.store(false, Ordering::Relaxed);
        INSIDE.set(false);
        let state = std::mem::take(&mut *self.lock());
        let limit = state.until.map(|(_, limit)| limit);
        Ran {
            late: limit.filter(|_| state.late),
            trouble: state.trouble.map(|(code, text)| rusqlite::Error::SqliteFailure(code, text)),
        }
    }

    /// Whether the code that runs must stop. Once it must, it stays so.
    pub(crate) fn is_late(&self) -> bool {
        if !self.on.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.lock();
        state.late |= state.until.is_some_and(|(until, _)| Instant::now() >= until);
        state.late
    }

    /// The file failed, and not a statement of the author's.
    pub(crate) fn note_trouble(&self, code: rusqlite::ffi::Error, text: Option<String>) {
        self.lock().trouble.get_or_insert((code, text));
    }

    /// A statement is about to be prepared.
    pub(crate) fn next_statement(&self) {
        self.lock().reshapes = false;
    }

    /// Why the statement that was just prepared may not be.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.lock().refused.take()
    }

    fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if !self.on.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        let mut state = self.lock();
        match refuse(&context.action, state.reshapes) {
            None => {
                state.reshapes |= matches!(
                    context.action,
                    AuthAction::DropTable { .. } | AuthAction::AlterTable { .. }
                );
                Authorization::Allow
            }
            Some(why) => {
                state.refused.get_or_insert(why);
                Authorization::Deny
            }
        }
    }
}

/// Why code of an author's may not do this, if it may not.
///
/// SQLite keeps the counters of AUTOINCREMENT in one table for all, also for ours. It does not ask when it
/// counts, but it does when it forgets or renames the counter of a table that is dropped or renamed.
fn refuse(action: &AuthAction<'_>, reshapes: bool) -> Option<String> {
    let made = match action {
        AuthAction::CreateTable { table_name } | AuthAction::CreateVtable { table_name, .. } => {
            Some(table_name)
        }
        AuthAction::CreateView { view_name } => Some(view_name),
        // They share their names with tables.
        AuthAction::CreateIndex { index_name, .. } => Some(index_name),
        _ => None,
    };
    if let Some(name) = made.filter(|name| is_reserved(name)) {
        return Some(format!("the name {name} is reserved for the store: use another"));
    }
    let on = match action {
        AuthAction::Insert { table_name: "sqlite_sequence" }
        | AuthAction::Update { table_name: "sqlite_sequence", .. }
        | AuthAction::Delete { table_name: "sqlite_sequence" }
            if !reshapes =>
        {
            return Some(
                "sqlite_sequence has counters of the store as well: it can only be read".into(),
            );
        }
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
            return Some(
                "BEGIN, COMMIT, ROLLBACK and savepoints are the store's: return an error to roll back"
                    .into(),
            );
        }
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
            return Some("other files can't be attached: one transaction is in one file".into());
        }
        AuthAction::Pragma { pragma_name, .. } => {
            let tells = TELLING.iter().any(|name| pragma_name.eq_ignore_ascii_case(name));
            return (!tells)
                .then(|| format!("PRAGMA {pragma_name} is not for the connection of the store"));
        }
        AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. } => {
            return Some("temporary tables would stay on the connection of the store".into());
        }
        AuthAction::Analyze { .. } => {
            return Some("ANALYZE would change how the store's statements are planned".into());
        }
        AuthAction::Function { function_name } => {
            let loads = function_name.eq_ignore_ascii_case("load_extension");
            return loads.then(|| "extensions can't be loaded".into());
        }
        AuthAction::Read { table_name, .. }
        | AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::DropTrigger { table_name, .. }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::DropVtable { table_name, .. } => table_name,
        AuthAction::Unknown { .. } => return Some("this is not known to the store".into()),
        _ => return None,
    };
    is_ours(on).then(|| format!("the table {on} is the store's own: use tables of yours, and ctx"))
}
