//! How tasks fork and end.

use crate::run::Simulation;
use crate::task::{State, TaskId};
use crate::work::Work;

impl Simulation<'_> {
    /// A child of the same group, with so much work.
    pub(crate) fn fork(&mut self, cpu: usize, id: TaskId, ns: u64) {
        let Some(work) = self.works[id].as_ref().map(|work| work.of_child(id)) else { return };
        self.start_child(cpu, id, "child", work, ns);
    }

    /// A child that has its own work, of which this much comes first.
    pub(crate) fn start_child(&mut self, cpu: usize, id: TaskId, name: &str, work: Work, ns: u64) {
        let child = self.create(cpu, self.machine.tasks[id].group, name, work);
        let parent = self.machine.tasks[id].raw();
        let task = &mut self.machine.tasks[child];
        task.kernel_mut().real_parent = parent;
        task.remaining_ns = ns;
        self.machine.start(cpu, child);
    }

    /// `do_exit()`.
    pub(crate) fn exit(&mut self, cpu: usize, id: TaskId) {
        const EXITING: u32 = 0x4;
        const ZOMBIE: i32 = 0x20;
        let task = self.machine.tasks[id].kernel_mut();
        task.flags |= EXITING;
        task.exit_state = ZOMBIE;
        if let Some(parent) = self.works[id].as_ref().and_then(Work::parent)
            && self.works[parent].as_mut().is_some_and(Work::child_ends)
        {
            self.machine.wake(cpu, parent, true);
        }
        self.machine.tasks[id].state = State::Dead;
        self.machine.schedule(cpu);
    }
}
