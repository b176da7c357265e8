//! Events out of the pages of the kernel's ring buffer.
//!
//! The binary form is read, not the text: names of tasks are bytes that their owners choose, and in the text a name may look like
//! the end of a line, or like another field.

use super::format::{EventFormat, FieldPlace};

/// The name of a task, as the kernel keeps it.
pub(crate) type TaskName = [u8; 16];

/// Something that happened to tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    pub(crate) at_ns: u64,
    pub(crate) cpu: usize,
    pub(crate) what: Happening,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A CPU goes from one task to the next.
    Switch {
        from: SwitchedTask,
        leaves: LeaveReason,
        to: SwitchedTask,
    },
    /// A task is woken, by another one if not by an interrupt.
    Waking {
        pid: i32,
        waker: Option<i32>,
    },
    Fork {
        parent: i32,
        child: i32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchedTask {
    pub(crate) pid: i32,
    pub(crate) name: TaskName,
    pub(crate) prio: i32,
}

/// Why a task leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// It still wants one.
    Runnable,
    Asleep,
    Dead,
}

/// Events and pages are laid out in this way.
#[derive(Clone, Debug)]
pub(crate) struct TraceLayout {
    timestamp: FieldPlace,
    commit: FieldPlace,
    data: FieldPlace,
    common: [FieldPlace; 3],
    switch: (u64, SwitchLayout),
    waking: (u64, FieldPlace),
    fork: (u64, [FieldPlace; 2]),
}

#[derive(Clone, Debug)]
struct SwitchLayout {
    from: [FieldPlace; 3],
    state: FieldPlace,
    to: [FieldPlace; 3],
}

/// A page, or what follows in it, is not laid out as the kernel says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl TraceLayout {
    /// Out of `header_page` and the formats of `sched_switch`, `sched_waking` and `sched_process_fork`. `None` if a field is missing.
    pub(crate) fn of(
        page: &EventFormat,
        switch: &EventFormat,
        waking: &EventFormat,
        fork: &EventFormat,
    ) -> Option<Self> {
        let task = |side: &str| {
            let field = |name: &str, size| switch.field(&format!("{side}_{name}"), size);
            Some([field("pid", 4)?, field("comm", size_of::<TaskName>())?, field("prio", 4)?])
        };
        let layout = SwitchLayout { from: task("prev")?, state: switch.field("prev_state", 4)?, to: task("next")? };
        Some(Self {
            timestamp: page.field("timestamp", 8)?,
            commit: page.field("commit", 4)?,
            data: page.field("data", 1)?,
            common: [switch.field("common_type", 2)?, switch.field("common_flags", 1)?, switch.field("common_pid", 4)?],
            switch: (switch.id?, layout),
            waking: (waking.id?, waking.field("pid", 4)?),
            fork: (fork.id?, [fork.field("parent_pid", 4)?, fork.field("child_pid", 4)?]),
        })
    }

    /// Bytes of a page.
    pub(crate) fn page_size(&self) -> usize {
        self.data.offset + self.data.size
    }

    /// Appends the events of a page. What comes before something malformed is kept.
    pub(crate) fn read(&self, cpu: usize, page: &[u8], events: &mut Vec<TraceEvent>) -> Result<(), Malformed> {
        /// Above them are flags: events are missing before this page, and how many is stored behind its end.
        const LENGTH_BITS: u64 = (1 << 30) - 1;
        let length = self.commit.number(page).ok_or(Malformed)? & LENGTH_BITS;
        let data = page.get(self.data.offset..).and_then(|data| data.get(..length as usize)).ok_or(Malformed)?;
        let mut entries = Entries { rest: data, at_ns: self.timestamp.number(page).ok_or(Malformed)? };
        while let Some(entry) = entries.next()? {
            if let Some(what) = self.happening(entry)? {
                events.push(TraceEvent { at_ns: entries.at_ns, cpu, what });
            }
        }
        Ok(())
    }

    /// `None` for events of other kinds.
    fn happening(&self, event: &[u8]) -> Result<Option<Happening>, Malformed> {
        let [kind, ..] = self.common;
        let kind = kind.number(event).ok_or(Malformed)?;
        let what = if kind == self.switch.0 {
            self.switch.1.read(event)
        } else if kind == self.waking.0 {
            self.waking(event)
        } else if kind == self.fork.0 {
            let [parent, child] = self.fork.1.map(|pid| pid.signed(event));
            parent.zip(child).map(|(parent, child)| Happening::Fork { parent, child })
        } else {
            return Ok(None);
        };
        what.map(Some).ok_or(Malformed)
    }

    fn waking(&self, event: &[u8]) -> Option<Happening> {
        /// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`, `TRACE_FLAG_NMI`.
        const INTERRUPT: u64 = 0x08 | 0x10 | 0x40;
        let [_, flags, current] = self.common;
        let current = current.signed(event)?;
        let is_interrupt = flags.number(event)? & INTERRUPT != 0;
        let waker = (!is_interrupt && current != 0).then_some(current);
        Some(Happening::Waking { pid: self.waking.1.signed(event)?, waker })
    }
}

impl SwitchLayout {
    fn read(&self, event: &[u8]) -> Option<Happening> {
        /// What `prev_state` says of a task that ends: `EXIT_DEAD`, `EXIT_ZOMBIE`.
        const DEAD: u64 = 0x30;
        /// All states in which a task does not want a CPU. Above them is whether it was preempted.
        const STATES: u64 = 0xff;
        let task = |[pid, name, prio]: [FieldPlace; 3]| {
            let name = name.bytes(event)?.first_chunk().copied()?;
            Some(SwitchedTask { pid: pid.signed(event)?, name, prio: prio.signed(event)? })
        };
        let leaves = match self.state.number(event)? & STATES {
            0 => LeaveReason::Runnable,
            state if state & DEAD != 0 => LeaveReason::Dead,
            _ => LeaveReason::Asleep,
        };
        Some(Happening::Switch { from: task(self.from)?, leaves, to: task(self.to)? })
    }
}

/// What follows in a page: `include/linux/ring_buffer.h`.
struct Entries<'a> {
    rest: &'a [u8],
    at_ns: u64,
}

impl<'a> Entries<'a> {
    const PADDING: u32 = 29;
    const TIME_EXTEND: u32 = 30;
    const TIME_STAMP: u32 = 31;
    /// Of what a header says of the time; an extension has those above.
    const DELTA_BITS: u32 = 27;

    /// The next event; `None` at the end of the page.
    fn next(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        while !self.rest.is_empty() {
            let header = self.word()?;
            let (kind, delta_ns) = (header & 31, u64::from(header >> 5));
            match kind {
                Self::PADDING if delta_ns == 0 => break,
                Self::PADDING => {
                    let length = self.word()? as usize;
                    self.take(length.checked_sub(4).ok_or(Malformed)?)?;
                }
                Self::TIME_EXTEND => {
                    let extended_ns = (u64::from(self.word()?) << Self::DELTA_BITS) + delta_ns;
                    self.at_ns = self.at_ns.saturating_add(extended_ns);
                }
                Self::TIME_STAMP => {
                    let stamp = (u64::from(self.word()?) << Self::DELTA_BITS) | delta_ns;
                    // The highest five bits are not in it.
                    self.at_ns = self.at_ns & !(u64::MAX >> 5) | stamp;
                }
                0 => {
                    self.at_ns = self.at_ns.saturating_add(delta_ns);
                    let length = (self.word()? as usize).checked_sub(4).ok_or(Malformed)?;
                    return self.take(length.next_multiple_of(4)).map(Some);
                }
                words => {
                    self.at_ns = self.at_ns.saturating_add(delta_ns);
                    return self.take(words as usize * 4).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn word(&mut self) -> Result<u32, Malformed> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u32::from_ne_bytes(*word))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}
