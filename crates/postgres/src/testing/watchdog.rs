//! The shell that runs a server, or a pooler, and ends and removes it when this process is gone.

use std::{
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Waits for the end of its input, which is the end of this process, and cleans up. A word on it
/// does something to the server before that.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
home=$1
end=$2
leave=
shift 2
start() { "$@" >>"$home/log" 2>&1 </dev/null & server=$!; }
start "$@"
while read -r word; do
    case $word in
        restart) kill -INT $server; wait $server; start "$@" ;;
        crash) kill -QUIT $server; wait $server; start "$@" ;;
        stop) kill -INT $server; wait $server ;;
        kill) kill -KILL $server; wait $server ;;
        start) start "$@" ;;
        reload) kill -HUP $server ;;
        leave) leave=yes ;;
    esac
    echo done
done
kill -$end $server 2>/dev/null
wait $server
[ -n "$leave" ] || rm -rf "$home"
"#;

pub(super) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Starts a program that is ended at once by this signal.
    pub(super) fn start(home: &Path, end: &str, server: &mut Command) -> std::io::Result<Watchdog> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(SCRIPT).arg("watchdog").arg(home).arg(end);
        shell.arg(server.get_program()).args(server.get_args());
        super::servant::as_servant(&mut shell);
        // In a group of its own, so that Ctrl-C at a terminal does not reach it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let pipes = shell.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Watchdog { shell: pipes.stderr(Stdio::null()).spawn()? })
    }

    /// Says a word to it, and waits until it has done what it stands for.
    pub(super) fn say(&mut self, word: &str) -> std::io::Result<()> {
        use std::io::Read;
        let gone = || std::io::Error::other("the watchdog has gone");
        let input = self.shell.stdin.as_mut().ok_or_else(gone)?;
        input.write_all(format!("{word}\n").as_bytes())?;
        self.shell.stdout.as_mut().ok_or_else(gone)?.read_exact(&mut [0; 5])
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
