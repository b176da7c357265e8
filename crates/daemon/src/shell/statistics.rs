//! The counters of the loaded scheduler, for as long as it is there.

use std::collections::HashMap;
use tokio::time::Instant;

use scherzo_api::Error;
use scherzo_api::stats::Stats;
use scherzo_host::Root;
use tracing::info;

use crate::sample::{SharedPages, final_statistics};

/// The pages of the scheduler that was loaded last, until it has ended.
#[derive(Debug)]
pub(super) struct Statistics {
    root: Root,
    pages: Option<(SharedPages, Instant)>,
}

impl Statistics {
    pub(super) fn new(root: Root) -> Self {
        Self { root, pages: None }
    }

    /// A scheduler has been loaded just now.
    pub(super) fn begin(&mut self, pages: SharedPages) {
        self.pages = Some((pages, Instant::now()));
    }

    /// The counters of a scheduler end with it, so they are logged once more.
    pub(super) fn end(&mut self) {
        if let Some(stats) = self.read() {
            info!("the scheduler has ended: {}", final_statistics(&stats));
        }
        self.forget();
    }

    pub(super) fn forget(&mut self) {
        self.pages = None;
    }

    /// BPF schedules alone; `None` if nothing is loaded.
    pub(super) fn degraded(&self) -> Option<bool> {
        self.pages.as_ref().map(|(pages, _)| pages.degraded())
    }

    pub(super) fn read(&self) -> Option<Stats> {
        let (pages, since) = self.pages.as_ref()?;
        Some(pages.stats(&self.root, since.elapsed()))
    }

    pub(super) fn answer(&self) -> Result<Stats, Error> {
        self.read().ok_or_else(pages_are_gone)
    }

    pub(super) fn histograms(&self) -> Result<HashMap<String, Vec<u64>>, Error> {
        self.pages.as_ref().map(|(pages, _)| pages.histograms()).ok_or_else(pages_are_gone)
    }
}

fn pages_are_gone() -> Error {
    Error::NotRunning("The scheduler has just ended. Look at the state in a moment.".into())
}
