//! Changes of the source.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use super::project::Project;
use crate::Result;

/// An editor writes several files, each in several ways: a change is over when it was quiet for this
/// long.
const QUIET: Duration = Duration::from_millis(150);

/// Changes as they come.
pub(super) struct Changes {
    changed: mpsc::UnboundedReceiver<()>,
    /// It watches for as long as it is there.
    _watcher: RecommendedWatcher,
}

/// Begins to watch.
pub(super) fn start(project: &Project, more: &[PathBuf]) -> Result<Changes> {
    let (sender, changed) = mpsc::unbounded_channel();
    let wanted = more.to_vec();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // What went wrong may have been a change.
        if event.map_or(true, |event| matters(&event, &wanted)) {
            let _ = sender.send(());
        }
    })?;
    let (all, files) = (RecursiveMode::Recursive, RecursiveMode::NonRecursive);
    let manifests = project.manifests.iter().map(|path| (path, files));
    let source = project.source.iter().map(|path| (path, all));
    for (path, mode) in manifests.chain(source).chain(more.iter().map(|path| (path, all))) {
        watcher
            .watch(path, mode)
            .map_err(|error| format!("{} can't be watched: {error}", path.display()))?;
    }
    Ok(Changes { changed, _watcher: watcher })
}

impl Changes {
    /// What has changed so far does not count.
    pub(super) fn forget(&mut self) {
        while self.changed.try_recv().is_ok() {}
    }

    /// Waits for a change, and until it is over.
    pub(super) async fn next(&mut self) {
        if self.changed.recv().await.is_none() {
            return std::future::pending().await;
        }
        while let Ok(Some(())) = tokio::time::timeout(QUIET, self.changed.recv()).await {}
    }
}

/// Whether something was written that a build may read.
fn matters(event: &Event, more: &[PathBuf]) -> bool {
    !matches!(event.kind, EventKind::Access(_))
        && (event.paths.is_empty() || event.paths.iter().any(|path| is_source(path, more)))
}

fn is_source(path: &Path, more: &[PathBuf]) -> bool {
    if more.iter().any(|wanted| path.starts_with(wanted) || path.ends_with(wanted)) {
        return true;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // What editors leave beside a file.
    if name.starts_with('.') || name.starts_with('#') || name.ends_with('~') {
        return false;
    }
    let in_source = path.components().any(|part| part.as_os_str() == "src");
    let kind = path.extension().and_then(|kind| kind.to_str());
    in_source || matches!(kind, Some("rs" | "toml" | "lock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_build_may_read_is_a_change() {
        let more = [PathBuf::from("/p/prompts")];
        for source in ["/p/src/main.rs", "/p/src/page.html", "/p/Cargo.toml", "/p/build.rs"] {
            assert!(is_source(Path::new(source), &more), "{source}");
        }
        for other in ["/p/store.db", "/p/store.db-wal", "/p/src/.main.rs.swp", "/p/src/main.rs~"] {
            assert!(!is_source(Path::new(other), &more), "{other}");
        }
        assert!(is_source(Path::new("/p/prompts/a.txt"), &more));
    }
}
