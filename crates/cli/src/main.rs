//! `steadfast`: calls the tools of MCP servers from a terminal or a script, bridges such servers to
//! clients that only know stdio, rebuilds a server while its clients stay, and moves stores.

mod arguments;
mod ask;
mod bridge;
mod call;
mod dev;
mod export;
mod form;
mod import;
mod migrate;
mod place;
mod reopen;
mod screen;
mod see;
mod target;
mod task;
mod tools;

use std::process::ExitCode;

use clap::Parser;

/// Call the tools of MCP servers, bridge them to stdio, develop them.
#[derive(Parser)]
#[command(name = "steadfast", version, max_term_width = 100)]
enum Cli {
    /// Call a tool: follow its progress, answer its questions, print its result.
    ///
    /// Exit codes: 0 if it succeeded, 1 if the tool failed or its task was cancelled, 2 if it came to no
    /// result, 130 if it was left with Ctrl-C. A call that is left goes on where it can, and the way
    /// back is printed.
    Call(call::Call),
    /// Take up a call of a session whose stream broke, or whose caller left.
    Resume(call::Resume),
    /// Look at a task, wait for it, answer it or cancel it.
    Task(task::Task),
    /// List the tools of a server.
    Tools(tools::Tools),
    /// Speak MCP over standard input and output, and pass everything on to a server over HTTP.
    ///
    /// For clients that only know stdio. The server may be killed and started again meanwhile.
    Connect(bridge::Connect),
    /// Build a server and run it; build it anew and restart it when its source changes.
    ///
    /// What does not build leaves the old server running. Clients stay connected over a restart: the
    /// port is the same, and tasks, sessions and streams are in the store.
    Dev(dev::Dev),
    /// Make the tables of a store on PostgreSQL, or bring them up to date.
    ///
    /// For those who don't let servers alter tables (--store-no-migrate). Servers of the version before may
    /// run meanwhile, and go on after it.
    Migrate(migrate::Migrate),
    /// Write all that is in a store to a file, so that its tasks go on in another one.
    ///
    /// Stop the servers first. The store is closed by it, as tasks that go on in two places would do
    /// everything twice: servers refuse it until `steadfast reopen`. Then `steadfast import` the file into the
    /// new store, and start the servers there. Running tasks, sessions and streams go on.
    Export(export::Export),
    /// Read a file of `steadfast export` into an empty store: all of it, or nothing.
    ///
    /// What is in the store then is read back, and compared with the file by count and digest, before it is
    /// committed.
    Import(import::Import),
    /// Let servers open a store again that was exported to be moved.
    Reopen(reopen::Reopen),
}

/// Why the program ends without a result: what to say, and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    pub(crate) fn with(code: u8, message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code }
    }
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::with(2, error.to_string())
    }
}

type Result<T> = std::result::Result<T, Failure>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("steadfast: {error}");
            return ExitCode::from(2);
        }
    };
    let ended = runtime.block_on(async {
        match cli {
            Cli::Call(call) => call.run().await,
            Cli::Resume(resume) => resume.run().await,
            Cli::Task(task) => task.run().await,
            Cli::Tools(tools) => tools.run().await,
            Cli::Connect(connect) => connect.run().await,
            Cli::Dev(dev) => dev.run().await,
            Cli::Migrate(migrate) => migrate.run().await,
            Cli::Export(export) => export.run().await,
            Cli::Import(import) => import.run().await,
            Cli::Reopen(reopen) => reopen.run().await,
        }
    });
    let code = match ended {
        Ok(code) => code,
        Err(Failure { message, code }) => {
            if !message.is_empty() {
                eprintln!("steadfast: {message}");
            }
            code
        }
    };
    // Not by returning: a thread may still wait for a line from the terminal.
    std::process::exit(code.into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_well_formed_and_each_explains_itself() {
        let mut command = super::Cli::command();
        command.build();
        command.clone().debug_assert();
        let mut all: Vec<clap::Command> = vec![command];
        while let Some(command) = all.pop() {
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{}: {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
            all.extend(command.get_subcommands().cloned());
        }
    }
}
