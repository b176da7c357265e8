//! Runs cases in guests and keeps the score.

use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::guest::Guest;
use crate::kernels::Role;
use crate::qemu::Machine;

/// One thing that must hold inside a guest.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Names it in the output.
    pub name: &'static str,
    /// Runs the case; an error is a failure.
    pub run: fn(&mut Guest) -> Result<()>,
}

/// Cases that share a boot, in order.
#[derive(Debug, Clone)]
pub struct Group {
    /// Names the boot in the output.
    pub name: &'static str,
    /// The kernel.
    pub role: Role,
    /// The machine.
    pub machine: Machine,
    /// What runs there.
    pub cases: Vec<Case>,
}

/// How many passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// Checks that passed.
    pub nr_passed: usize,
    /// Checks that failed.
    pub nr_failed: usize,
}

impl Score {
    /// Counts and prints one result.
    pub fn note(&mut self, name: &str, started: Instant, result: &Result<()>) {
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                self.nr_passed += 1;
                println!("ok {name} ({seconds:.1} s)");
            }
            Err(error) => {
                self.nr_failed += 1;
                println!("FAILED {name} ({seconds:.1} s): {error:#}");
            }
        }
    }

    /// Both scores together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nr_passed: self.nr_passed + other.nr_passed, nr_failed: self.nr_failed + other.nr_failed }
    }
}

/// Runs all groups, `nr_parallel` guests at a time. `boot` makes a guest for a group.
pub fn run(groups: &[Group], nr_parallel: usize, boot: &(dyn Fn(&Group) -> Result<Guest> + Sync)) -> Score {
    let queue = Mutex::new(groups.iter());
    let score = Mutex::new(Score::default());
    thread::scope(|scope| {
        for _ in 0..nr_parallel {
            scope.spawn(|| {
                while let Some(group) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                    let result = run_group(group, boot);
                    if let Ok(mut score) = score.lock() {
                        *score = score.plus(result);
                    }
                }
            });
        }
    });
    score.into_inner().unwrap_or_default()
}

/// Runs a group's cases in one guest. A failed case leaves the guest in an unknown state, so the next one gets a fresh
/// guest.
fn run_group(group: &Group, boot: &(dyn Fn(&Group) -> Result<Guest> + Sync)) -> Score {
    let mut score = Score::default();
    let mut guest = None;
    for case in &group.cases {
        let started = Instant::now();
        let result = run_case(case, &mut guest, || boot(group));
        if result.is_err() {
            guest = None;
        }
        score.note(&format!("{}/{}", group.name, case.name), started, &result);
    }
    score
}

fn run_case(case: &Case, guest: &mut Option<Guest>, boot: impl FnOnce() -> Result<Guest>) -> Result<()> {
    let guest = match guest {
        Some(guest) => guest,
        None => guest.insert(boot()?),
    };
    (case.run)(guest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn a_guest_that_does_not_boot_fails_every_case() {
        let case = Case { name: "case", run: |_| Ok(()) };
        let group = Group { name: "group", role: Role::Lts, machine: Machine::default(), cases: vec![case, case] };
        let score = run(&[group.clone(), group], 2, &|_| bail!("no machine"));
        assert_eq!(score, Score { nr_passed: 0, nr_failed: 4 });
    }
}
