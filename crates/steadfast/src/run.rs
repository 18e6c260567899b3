//! From a server that was put together to a process that serves.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use steadfast_engine::{Builder, Engine, Error, Principal, Result, Ttl};
use steadfast_mcp::{Auth, Running, Server};
use steadfast_store::Store;

use crate::{Flags, keys::read_keys, place::open};

/// Running a server: in scope with the prelude.
pub trait Run: Sized {
    /// Serves until the process is told to stop: by the flags and the environment of the process, HTTP
    /// on loopback and a SQLite file unless they say otherwise.
    fn run(self) -> impl Future<Output = Result<()>> + Send {
        self.run_or(Flags::default())
    }

    /// The same, with what the code says in place of the defaults.
    fn run_or(self, code: Flags) -> impl Future<Output = Result<()>> + Send;

    /// The same by these flags alone.
    fn run_with(self, flags: Flags) -> impl Future<Output = Result<()>> + Send;
}

impl Run for Server {
    async fn run_or(self, code: Flags) -> Result<()> {
        let flags = Flags::of_process(self.name()).or(code);
        self.run_with(flags).await
    }

    async fn run_with(self, flags: Flags) -> Result<()> {
        log(&flags);
        check(&flags)?;
        let listen = flags.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8787)));
        let name = self.name().to_owned();
        let server = configure(self, &flags)?;
        if !flags.stdio && !flags.worker {
            may_listen(listen, &server, &flags)?;
        }
        let (store, place) = open(&name, &flags).await?;
        let running = server.start(engine(store, &flags))?;
        if flags.validate_effects {
            eprintln!("{name} validates effects: what a crash may run again is run twice");
        }
        if flags.worker {
            eprintln!("{name} works on {}; they are in {place}", works_on(&flags));
            told_to_stop().await;
        } else if flags.stdio {
            eprintln!("{name} speaks MCP on standard input and output; its tasks are in {place}");
            tokio::select! {
                served = running.serve_stdio() => served?,
                () = told_to_stop() => {}
            }
        } else {
            serve_http(&running, listen, &name, &place, &flags).await?;
        }
        running.shutdown(flags.drain()).await;
        Ok(())
    }
}

fn log(flags: &Flags) {
    let level = flags.log.unwrap_or(tracing::Level::WARN);
    let logs = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // The program may have a log of its own already.
    let _ = logs.try_init();
}

fn configure(mut server: Server, flags: &Flags) -> Result<Server> {
    let settings = server.settings_mut();
    settings.anonymous_list |= flags.anonymous_list;
    settings.companions |= flags.companions;
    settings.sse |= flags.sse;
    if let Some(seconds) = flags.stream_life_seconds {
        settings.stream_life = Some(Duration::from_secs(seconds));
    }
    if let Some(seconds) = flags.session_idle_seconds {
        settings.session_idle = Duration::from_secs(seconds);
    }
    settings.hosts.extend(flags.allow_host.iter().cloned());
    settings.origins.extend(flags.allow_origin.iter().cloned());
    if flags.validate_effects {
        // After what the code says of the engine, which must not undo it.
        server = server.engine(Builder::validate_effects);
    }
    if let Some(file) = &flags.credential_key_file {
        server = server.credential_keys(read_keys(file)?);
    }
    Ok(match &flags.token_file {
        Some(file) => server.auth(Auth::tokens(read_tokens(file)?)),
        None => server,
    })
}

/// The lines of a token file. Errors name the line, never what is in it.
fn read_tokens(file: &Path) -> Result<Vec<(String, Principal)>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::new(format!("the token file {shown} can't be read: {error}")))?;
    let mut tokens = Vec::new();
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [principal, token] = words[..] else {
            let message = format!("line {} of {shown} must be: principal token", n + 1);
            return Err(Error::new(message));
        };
        if token.len() < 16 {
            let message =
                format!("the token in line {} of {shown} has fewer than 16 characters", n + 1);
            return Err(Error::new(message));
        }
        tokens.push((token.to_owned(), Principal::new(principal)?));
    }
    match tokens.is_empty() {
        true => Err(Error::new(format!("the token file {shown} has no tokens"))),
        false => Ok(tokens),
    }
}

/// Refuses what can't be meant, also if some of it is from the code and some from the command.
fn check(flags: &Flags) -> Result<()> {
    let message = match () {
        () if flags.worker && flags.front => "--worker serves no clients, and --front runs nothing",
        () if flags.worker && flags.stdio => "--worker serves no clients, and --stdio is for one",
        () if flags.max_running == Some(0) && !flags.front => {
            "--max-running 0 would run no tasks: give --front for a process that serves clients and runs \
             nothing, or --worker --only with names of activities for one that runs only those"
        }
        () => return Ok(()),
    };
    Err(Error::new(message))
}

/// What a worker takes up, in words.
fn works_on(flags: &Flags) -> String {
    match flags.only.is_empty() {
        true => "all tasks and activities that it has code for".into(),
        false => format!("tasks and activities of {}", flags.only.join(", ")),
    }
}

fn may_listen(listen: SocketAddr, server: &Server, flags: &Flags) -> Result<()> {
    if listen.ip().is_loopback() || !server.is_anonymous() || flags.anonymous {
        return Ok(());
    }
    Err(Error::new(format!(
        "{listen} can be reached from other machines, and callers would not be told apart. Give \
         --token-file with a token for each, or --anonymous if everybody may do everything"
    )))
}

fn engine(store: Arc<dyn Store>, flags: &Flags) -> Builder {
    let mut settings = steadfast_engine::Settings::default();
    if let Some(most) = flags.max_running {
        settings.max_running = most;
    }
    if let Some(most) = flags.max_activities {
        settings.max_activities = most;
    }
    if flags.front {
        (settings.max_running, settings.max_activities) = (0, 0);
    }
    if !flags.only.is_empty() {
        settings.only = Some(flags.only.iter().cloned().collect());
    }
    if let Some(days) = flags.retention_days {
        settings.retention = Ttl::days(days);
    }
    Engine::builder(store).settings(settings)
}

async fn serve_http(
    running: &Running,
    listen: SocketAddr,
    name: &str,
    place: &str,
    flags: &Flags,
) -> Result<()> {
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(|error| {
        Error::new(format!("can't listen on {listen}: {error}; choose another with --listen"))
    })?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    eprintln!("{name} listens on {url}");
    eprintln!("its tasks are in {place}");
    let serving = running.serve(listener, async {
        told_to_stop().await;
        running.drain();
    });
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = &mut serving => return Ok(served?),
        () = running.draining() => {}
    }
    // Connections that are still open when the time is over are cut.
    match tokio::time::timeout(flags.drain(), serving).await {
        Ok(served) => Ok(served?),
        Err(_) => Ok(()),
    }
}

/// Ends when the process is asked to end.
async fn told_to_stop() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use steadfast_engine::{FailureKind, Settings};
    use steadfast_mcp::{Context, NoInput, Tool};

    use super::*;

    #[test]
    fn a_token_file_is_read_and_its_errors_name_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        std::fs::write(&file, "ada 0123456789abcdef\n\nbob  fedcba9876543210\n").unwrap();
        assert_eq!(read_tokens(&file).unwrap().len(), 2);
        for (text, says) in [
            ("ada\n", "line 1"),
            ("ada 0123456789abcdef\nbob secretsecretsecret x\n", "line 2"),
            ("ada short", "16 characters"),
            ("\n", "no tokens"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = read_tokens(&file).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{error}");
        }
        assert!(read_tokens(Path::new("/nowhere/tokens")).is_err());
    }

    #[test]
    fn other_machines_are_served_by_choice_only() {
        let flags = Flags::default();
        let anonymous = || Server::new("x");
        assert!(may_listen("127.0.0.1:1".parse().unwrap(), &anonymous(), &flags).is_ok());
        assert!(may_listen("[::1]:1".parse().unwrap(), &anonymous(), &flags).is_ok());
        let open = "0.0.0.0:1".parse().unwrap();
        let error = may_listen(open, &anonymous(), &flags).unwrap_err().to_string();
        assert!(error.contains("--token-file"), "{error}");
        let tokens = Auth::tokens([("0123456789abcdef".into(), Principal::new("ada").unwrap())]);
        assert!(may_listen(open, &anonymous().auth(tokens), &flags).is_ok());
        let chosen = Flags { anonymous: true, ..Flags::default() };
        assert!(may_listen(open, &anonymous(), &chosen).is_ok());
    }

    #[test]
    fn what_can_not_be_meant_is_refused_wherever_it_is_said() {
        let none = Flags { max_running: Some(0), ..Flags::default() };
        let worker = Flags { worker: true, ..Flags::default() };
        for (flags, says) in [
            (none.clone(), "--max-running 0 would run no tasks"),
            (worker.clone().or(none.clone()), "--max-running 0 would run no tasks"),
            (worker.clone().or(Flags { front: true, ..Flags::default() }), "--front runs nothing"),
            (worker.clone().or(Flags { stdio: true, ..Flags::default() }), "--stdio is for one"),
        ] {
            let error = check(&flags).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(check(&Flags { front: true, ..none }).is_ok());
        assert!(check(&worker).is_ok() && check(&Flags::default()).is_ok());
    }

    #[tokio::test]
    async fn effects_are_validated_by_the_flag_whatever_the_code_sets() {
        for on in [false, true] {
            let flags = Flags { validate_effects: on, ..Flags::default() };
            let runs = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let counted = runs.clone();
            let tool = Tool::new("count", move |_: Context, _: NoInput| {
                let runs = counted.clone();
                async move { Ok(runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string()) }
            });
            let server =
                Server::new("x").tool(tool).engine(|engine| engine.settings(Settings::default()));
            let server = configure(server, &flags).unwrap();
            let running = server.start(engine(crate::memory(), &flags)).unwrap();
            let tasks = running.engine().tasks(Principal::new("ada").unwrap());
            let task = tasks.start("count", &BTreeMap::<String, String>::new()).await.unwrap();
            let failure = tasks.wait(&task.id).await.unwrap().failure;
            assert_eq!(failure.is_some_and(|f| f.kind == FailureKind::Unrepeatable), on);
        }
    }
}
