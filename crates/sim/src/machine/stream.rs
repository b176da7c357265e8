//! CPUs that one thread of the host emulates in turns, on a clock that counts instructions: `rr_cpu_thread_fn()` of QEMU
//! (accel/tcg/tcg-accel-ops-rr.c) with `-icount`.
//!
//! The thread passes through the CPUs in their order, and leaves out those that are halted. Time goes on for all of them while one is
//! emulated: the others get nothing done, take no interrupts, and their kernel does not know. So tasks are charged for it.

use std::collections::VecDeque;

use super::{Machine, MachineEvent};

/// Shortest time that a pass divides: else turns before a timer would become shorter and shorter.
const SHORTEST_PASS_NS: u64 = 40_000;

/// `TCG_KICK_PERIOD`: a timer of the emulator's own is due by then.
const KICK_PERIOD_NS: u64 = 100_000_000;

/// By so much timers of CPUs are apart that should be due at the same time: what the kernel computes before it sets one.
const TIMER_SKEW_NS: u64 = 64;

/// The thread.
pub struct SharedStream {
    /// The CPU that is emulated, if one is not halted.
    holder: Option<usize>,
    /// Where the pass is.
    position: usize,
    /// How long each CPU may be emulated in this pass: `icount_percpu_budget()`.
    budget_ns: u64,
    /// The next timer of the machine, which ends the turn: `icount_get_limit()`.
    deadline: u64,
    /// How many turns there were.
    nr_turns: u64,
    /// The turn ends then at the latest.
    ends_at: u64,
    /// By CPU: the next pass begins there (`cpu->exit_request`).
    exits: Vec<bool>,
    /// By CPU: what it finds in its next turn, and when that happened.
    waiting: Vec<VecDeque<(u64, MachineEvent)>>,
    /// What the CPU that is emulated found.
    found: VecDeque<(u64, MachineEvent)>,
}

impl SharedStream {
    /// One for so many CPUs.
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self {
            holder: None,
            position: 0,
            budget_ns: 0,
            deadline: 0,
            nr_turns: 0,
            ends_at: 0,
            exits: vec![false; nr_cpus],
            waiting: vec![VecDeque::new(); nr_cpus],
            found: VecDeque::new(),
        }
    }

    /// The next of what the CPU found that is emulated now.
    pub(super) fn next_found(&mut self) -> Option<(u64, MachineEvent)> {
        self.found.pop_front()
    }

    /// There is more of that.
    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// How long each CPU is left to wait at most, in ticks: two passes of a tick at the longest, once to be interrupted and once to
    /// interrupt another one.
    pub(super) const WAIT_TICKS: u64 = 4;
}

/// Something that the emulator's timers do, not the CPUs.
fn is_timer(event: MachineEvent) -> bool {
    matches!(event, MachineEvent::Wake(_) | MachineEvent::Start(_) | MachineEvent::Tick(_) | MachineEvent::Timer(..))
}

impl Machine {
    /// The CPU is not being emulated, though it is not told.
    pub(super) fn is_paused(&self, cpu: usize) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.holder != Some(cpu))
    }

    /// An event is due: true if its CPU finds it only in its next turn. Timers are looked at between turns.
    pub(crate) fn leave_for_turn(&mut self, event: MachineEvent) -> bool {
        if self.stream.is_none() {
            return false;
        }
        let is_global = matches!(
            event,
            MachineEvent::Turn(_) | MachineEvent::Emptied(_) | MachineEvent::Scenario(_) | MachineEvent::Unregister
        );
        let cpu = self.cpu_of(event);
        if is_global || !self.topology.online.has(cpu) {
            return false;
        }
        let (at, now) = (self.event_at, self.now);
        let Some(stream) = &mut self.stream else { return false };
        // What it found before it has waited already.
        let is_in_turn = stream.holder == Some(cpu) && (at < now || !is_timer(event) || now < stream.ends_at);
        if !is_in_turn {
            stream.waiting[cpu].push_back((at, event));
        }
        !is_in_turn
    }

    /// By how much the CPU's next tick is late: by chance, which follows from the time.
    pub(super) fn tick_skew_ns(&self, cpu: usize) -> u64 {
        if self.stream.is_none() {
            return 0;
        }
        let mixed = (self.now ^ (cpu as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) % TIMER_SKEW_NS
    }

    /// A timer is set: if none is due before, the turn ends, so that the time to the next one is divided anew (`qemu_timer_notify_cb()`).
    pub(super) fn note_timer(&mut self, at: u64, event: MachineEvent) {
        let Some(stream) = self.stream.as_mut().filter(|stream| is_timer(event) && at < stream.deadline) else {
            return;
        };
        stream.deadline = at;
        stream.exits.fill(true);
        if stream.holder.is_some() && stream.ends_at > self.now {
            stream.ends_at = self.now;
            let turn = stream.nr_turns;
            self.at(self.now, MachineEvent::Turn(turn));
        }
    }

    /// The turn is over, unless another one has begun since.
    pub(crate) fn end_turn(&mut self, turn: u64) {
        let is_current = self.stream.as_ref().is_some_and(|stream| stream.nr_turns == turn);
        if is_current && self.next_timer() <= self.now {
            // Timers that are due are looked at before the next turn.
            self.at(self.now, MachineEvent::Turn(turn));
            return;
        }
        let Some(stream) = self.stream.as_mut().filter(|_| is_current) else { return };
        let Some(cpu) = stream.holder else { return };
        stream.exits[cpu] = false;
        self.pause(cpu);
        self.begin_turn();
    }

    /// After each event: a CPU that has halted gives its turn up, and if all had, one may have been woken.
    pub(crate) fn pass_on_turn(&mut self) {
        let Some(stream) = &self.stream else { return };
        match stream.holder {
            Some(cpu) if !stream.has_found() && self.is_halted(cpu) => {
                self.pause(cpu);
                self.begin_turn();
            }
            None => self.begin_turn(),
            Some(_) => {}
        }
    }

    fn pause(&mut self, cpu: usize) {
        self.charge(cpu);
        // What its work was to end at is void.
        self.cpus[cpu].run += 1;
        if let Some(stream) = &mut self.stream {
            stream.holder = None;
            stream.position = cpu + 1;
        }
    }

    /// Nothing runs there, nor is anything on its way to it.
    fn is_halted(&self, cpu: usize) -> bool {
        let state = &self.cpus[cpu];
        let is_expected = state.resched_at.is_some() || state.interrupt_pending;
        let has_waiting = self.stream.as_ref().is_some_and(|stream| !stream.waiting[cpu].is_empty());
        !self.topology.online.has(cpu) || state.curr.is_none() && !is_expected && !has_waiting
    }

    /// The next CPU that is not halted has its turn.
    fn begin_turn(&mut self) {
        let (nr_cpus, now) = (self.cpus.len(), self.now);
        if (0..nr_cpus).all(|cpu| self.is_halted(cpu)) {
            return;
        }
        let next_timer = self.next_timer();
        if next_timer <= now {
            // It is looked at before; then this is asked for again.
            return;
        }
        loop {
            let Some(stream) = &mut self.stream else { return };
            let at_end = stream.position >= nr_cpus;
            if at_end {
                stream.position = 0;
            }
            let cpu = stream.position;
            if at_end || std::mem::take(&mut stream.exits[cpu]) {
                stream.deadline = next_timer;
                stream.budget_ns = (next_timer.saturating_sub(now).max(SHORTEST_PASS_NS)) / nr_cpus as u64;
            } else if now >= stream.deadline {
                // This CPU finds that nothing is left, and has the timers looked at instead of its turn.
                stream.deadline = next_timer;
                stream.position += 1;
                continue;
            }
            if !self.is_halted(cpu) {
                self.give_turn(cpu);
                return;
            }
            if let Some(stream) = &mut self.stream {
                stream.position += 1;
            }
        }
    }

    fn give_turn(&mut self, cpu: usize) {
        self.charge(cpu);
        let now = self.now;
        let Some(stream) = &mut self.stream else { return };
        stream.holder = Some(cpu);
        stream.nr_turns += 1;
        stream.found = std::mem::take(&mut stream.waiting[cpu]);
        stream.ends_at = (now + stream.budget_ns).min(stream.deadline);
        let (ends_at, turn) = (stream.ends_at, stream.nr_turns);
        self.stats.nr_turns += 1;
        self.at(ends_at, MachineEvent::Turn(turn));
        self.plan_end_of_work(cpu);
    }

    /// When the first timer is due of those that are set.
    fn next_timer(&self) -> u64 {
        let timers = self.events.iter().filter(|std::cmp::Reverse((_, _, event))| is_timer(*event));
        let kick_at = self.now + KICK_PERIOD_NS;
        timers.map(|std::cmp::Reverse((at, ..))| *at).min().unwrap_or(kick_at).min(kick_at)
    }
}
