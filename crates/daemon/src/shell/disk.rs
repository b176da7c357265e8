//! Writing beside the loop: a disk that takes its time keeps neither the engine nor clients waiting.
//!
//! One write of each file is under way at a time, and at most one more waits, the newest: so what waits is bounded, however much
//! changes and however slow the disk is.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use scherzo_supervisor::{FileAction, Stored};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Nobody waits longer for a write: answers are given, the scheduler is loaded, and it is told that something is not stored.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does the work of a write, on another thread.
pub(super) type WriteJob = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// What is being written.
#[derive(Default)]
pub(super) struct DiskWriter {
    tasks: JoinSet<(Stored, io::Result<()>)>,
    pending: BTreeMap<Stored, Pending>,
    nr_asked: u64,
}

struct Pending {
    /// The write's number, in the order in which writes were asked for.
    number: u64,
    since: Instant,
    next: Option<(u64, FileAction)>,
}

impl DiskWriter {
    /// Whether a write of this file is under way.
    pub(super) fn is_writing(&self, what: Stored) -> bool {
        self.pending.contains_key(&what)
    }

    /// Whether a write of this file is under way that is worth waiting for.
    pub(super) fn is_awaited(&self, what: Stored) -> bool {
        self.pending.get(&what).is_some_and(|pending| pending.since + PATIENCE > Instant::now())
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Notes that a file is to be written. Gives the action back if that is to be done now.
    pub(super) fn ask(&mut self, what: Stored, action: FileAction) -> Option<FileAction> {
        let Some(pending) = self.pending.get_mut(&what) else { return Some(action) };
        self.nr_asked += 1;
        let number = pending.next.as_ref().map_or(self.nr_asked, |(first, _)| *first);
        pending.next = Some((number, action));
        None
    }

    /// Starts a write of a file of which none is under way.
    pub(super) fn start(&mut self, what: Stored, write: WriteJob) {
        self.nr_asked += 1;
        self.start_as(self.nr_asked, what, write);
    }

    /// Starts a write that was asked for while another one was under way; see [`Self::finish`].
    pub(super) fn start_as(&mut self, number: u64, what: Stored, write: WriteJob) {
        self.pending.insert(what, Pending { number, since: Instant::now(), next: None });
        self.tasks.spawn(async move {
            let written = tokio::task::spawn_blocking(write).await;
            (what, written.unwrap_or_else(|panicked| Err(io::Error::other(panicked))))
        });
    }

    /// Waits for the end of a write, for ever if there is none.
    pub(super) async fn written(&mut self) -> (Stored, io::Result<()>) {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(written)) => return written,
                // No task panics or is cancelled: what it waits for may.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Forgets a write that has ended. Gives what was asked for meanwhile, with its number.
    pub(super) fn finish(&mut self, what: Stored) -> Option<(u64, FileAction)> {
        self.pending.remove(&what)?.next
    }

    /// The number of the write that was asked for last.
    pub(super) fn newest(&self) -> u64 {
        self.nr_asked
    }

    /// All writes up to this number have ended, or take so long that nobody waits for them any more.
    pub(super) fn settled(&self) -> u64 {
        let now = Instant::now();
        let awaited = self.pending.values().filter(|pending| pending.since + PATIENCE > now);
        awaited.map(|pending| pending.number - 1).min().unwrap_or(self.nr_asked)
    }

    /// When [`Self::settled`] changes if no write ends.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let now = Instant::now();
        self.pending.values().map(|pending| pending.since + PATIENCE).filter(|at| *at > now).min()
    }

    /// The files that take so long.
    pub(super) fn slow(&self) -> impl Iterator<Item = Stored> {
        let now = Instant::now();
        self.pending.iter().filter(move |(_, pending)| pending.since + PATIENCE <= now).map(|(what, _)| *what)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A write that ends when told.
    fn slow_write() -> (Sender<()>, WriteJob) {
        let (end, ended): (_, Receiver<()>) = channel();
        (end, Box::new(move || ended.recv().map_err(io::Error::other)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_waits_for_the_one_under_way_and_others_for_nothing() {
        let mut disk = DiskWriter::default();
        let (end, write) = slow_write();
        assert_eq!(disk.ask(Stored::Desired, FileAction::StoreAgain), Some(FileAction::StoreAgain));
        disk.start(Stored::Desired, write);
        for action in [FileAction::NoteSettings, FileAction::RestoreSettings] {
            assert_eq!(disk.ask(Stored::Desired, action), None);
        }
        disk.start(Stored::Boot, Box::new(|| Ok(())));
        assert_eq!(disk.written().await.0, Stored::Boot);
        assert_eq!(disk.finish(Stored::Boot), None);
        assert_eq!((disk.newest(), disk.settled()), (4, 0));
        end.send(()).unwrap();
        let (what, written) = disk.written().await;
        written.unwrap();
        assert_eq!(disk.finish(what), Some((2, FileAction::RestoreSettings)), "counted from the first time");
        assert!(disk.is_idle() && disk.settled() == 4);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_a_disk_that_hangs() {
        let mut disk = DiskWriter::default();
        let (end, write) = slow_write();
        disk.start(Stored::History, write);
        assert_eq!((disk.settled(), disk.slow().count()), (0, 0));
        tokio::time::advance(disk.due_at().unwrap() - Instant::now()).await;
        assert_eq!((disk.settled(), disk.due_at()), (1, None));
        assert_eq!(disk.slow().collect::<Vec<_>>(), [Stored::History]);
        drop(end);
        disk.written().await.1.unwrap_err();
    }
}
