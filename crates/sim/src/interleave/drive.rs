//! The run's loop where CPUs interrupt each other: who goes on next, each as a coroutine.

#![allow(unsafe_code)]

use super::coroutine::{self, Coroutine};
use super::{Explorer, MACHINE};
use crate::machine::MachineEvent;
use crate::run::Simulation;

/// What a coroutine does.
struct LaneWork {
    simulation: *mut Simulation<'static>,
    event: MachineEvent,
}

extern "C" fn run_lane(work: *mut LaneWork) {
    // SAFETY: `Simulation::begin_lane()` has made it from a box; the simulation outlives the coroutine.
    let work = unsafe { Box::from_raw(work) };
    // SAFETY: as above; whoever else refers to it has stopped.
    unsafe { (*work.simulation).handle(work.event) };
}

impl Simulation<'_> {
    /// The same as [`Simulation::go_until`], with CPUs that interrupt each other.
    pub(crate) fn explore_until(&mut self, explorer: *mut Explorer, end: u64) {
        MACHINE.set(&raw mut self.machine);
        // SAFETY: the caller keeps the explorer, and refers to it no more while this runs. No reference lasts while a coroutine does.
        let explorer = || unsafe { &mut *explorer };
        while self.machine.error().is_none() {
            if explorer().is_quiet() && self.machine.next_at().is_none_or(|at| at > end) {
                break;
            }
            self.gather(explorer(), end);
            let Some(cpu) = explorer().choose() else {
                if explorer().is_quiet() {
                    // All that was due has been overtaken.
                    continue;
                }
                self.machine.fail("the CPUs wait for each other".to_owned());
                break;
            };
            if let Some(coroutine) = self.prepare(explorer(), cpu) {
                let goes_on = coroutine::resume(coroutine);
                explorer().note_stop(cpu, goes_on);
            }
            if explorer().is_quiet() {
                explorer().end_episode();
                crate::invariants::check(&mut self.machine);
            }
        }
        if self.machine.error().is_some() {
            crate::invariants::check(&mut self.machine);
        } else {
            self.machine.now = end;
        }
        MACHINE.set(std::ptr::null_mut());
    }

    /// Gives each CPU what is due of its events; a new episode begins if none is left of the last.
    fn gather(&mut self, explorer: &mut Explorer, end: u64) {
        if explorer.is_quiet() {
            let Some(at) = self.machine.next_at() else { return };
            crate::invariants::check_until(&mut self.machine, at);
            explorer.begin_episode(at);
        }
        while let Some(at) = self.machine.next_at().filter(|at| *at <= explorer.episode_ends.min(end)) {
            let Some(event) = self.machine.pop_event() else { return };
            let due = &mut explorer.lanes[self.machine.cpu_of(event)].due;
            let behind = due.iter().position(|(other, _)| *other > at).unwrap_or(due.len());
            due.insert(behind, (at, event));
        }
        for lane in &mut explorer.lanes {
            let machine = &self.machine;
            lane.due.retain(|(at, event)| !machine.was_overtaken(*at, *event));
        }
    }

    /// The CPU goes on, or begins what is due; nothing if the host has the CPU.
    fn prepare(&mut self, explorer: &mut Explorer, cpu: usize) -> Option<*mut coroutine::RawCoroutine> {
        let lane = &mut explorer.lanes[cpu];
        if !lane.is_active {
            let (at, event) = lane.due.pop_front()?;
            self.machine.now = self.machine.now.max(at);
            self.machine.event_at = at;
            if let Some(until) = self.machine.put_off_until(event) {
                self.machine.put_off(event, until);
                return None;
            }
            self.machine.stats.nr_events += 1;
            lane.is_active = true;
            let simulation = (&raw mut *self).cast::<Simulation<'static>>();
            let work = Box::into_raw(Box::new(LaneWork { simulation, event }));
            lane.coroutine.get_or_insert_default().begin(run_lane, work);
        }
        explorer.running = Some(cpu);
        lane.coroutine.as_ref().map(Coroutine::raw)
    }
}
