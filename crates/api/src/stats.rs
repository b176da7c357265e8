//! What `GetStats` carries: one key, one field.
//!
//! Counters start at zero when the scheduler is loaded. Keys may be added in later versions; a client ignores keys it
//! does not know and reads 0 for keys it misses.

use std::collections::HashMap;

use zbus::{OwnedVariant, Variant};

/// The dictionary on the bus.
pub type Wire = HashMap<String, OwnedVariant>;

macro_rules! statistics {
    ($($(#[$doc:meta])* $field:ident,)+) => {
        /// Statistics of the loaded scheduler.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Stats {
            $($(#[$doc])* pub $field: u64,)+
            /// Part of the contended batch work that user space decided, 0 to 1; 1 if there was none.
            pub user_share: f64,
        }

        impl Stats {
            /// Every whole-number key, in order.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field),)+];

            /// The field of that key.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<u64> {
                match key {
                    $(stringify!($field) => Some(self.$field),)+
                    _ => None,
                }
            }

            /// The field of that key, for writing.
            pub fn get_mut(&mut self, key: &str) -> Option<&mut u64> {
                match key {
                    $(stringify!($field) => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}

statistics! {
    /// Time since the kernel confirmed loading.
    uptime_ns,
    /// Time from the request to load to the kernel's confirmation.
    load_us,
    /// CPUs the scheduler is sized for.
    nr_cpus,
    /// CPUs online.
    nr_online_cpus,
    /// Tasks on a CPU now.
    nr_running,
    /// Tasks that wait for a CPU, queued or in user space's custody, at the last look.
    nr_waiting,
    /// Tasks in user space's custody now.
    nr_custody,
    /// Tasks known to the scheduler.
    nr_tasks,

    /// Put on a CPU's own queue by BPF: an idle CPU's, its waker's, or one about to be free.
    nr_direct,
    /// Took a CPU from the task that ran there, by BPF.
    nr_preempt,
    /// Queued by BPF: kernel threads, overflow, degraded.
    nr_kernel,
    /// Handed to user space.
    nr_handed,
    /// Of these, not interactive.
    nr_handed_batch,
    /// Dispatched as user space decided.
    nr_user,
    /// Late decisions dropped.
    nr_cancelled,
    /// Decided for a CPU the task may no longer use.
    nr_bounced,
    /// Decisions that made no sense.
    nr_failed,
    /// Ring full.
    nr_congested,
    /// No slot left.
    nr_overflow,
    /// Taken back from user space while degraded.
    nr_swept,
    /// Left custody by itself: dequeued or exited.
    nr_left,
    /// The health figure: page faults, congestion and failures, summed. It stays at zero.
    health,
    /// CPUs kicked by a mode change, a doorbell or the warden, or because a CPU left.
    nr_kicked,
    /// Taken from another domain's queue.
    nr_stolen,
    /// Ran on because nothing else waited.
    nr_kept,
    /// Put back with the rest of its slice: a higher class, the engine or a quicker task took the CPU.
    nr_requeued,
    /// Moved away from a CPU that went offline.
    nr_offline,
    /// Notifications sent to the engine.
    nr_wake_engine,
    /// Batch enqueues that found no idle CPU.
    nr_contended_batch,
    /// Ran on another CPU of the same domain.
    nr_migrated_llc,
    /// Ran in another domain.
    nr_migrated_far,
    /// Times a task was put on a CPU.
    nr_switches,
    /// Taken back from user space: by the CPU that it left, to finish its slice, or by one that had nothing else to run.
    nr_reclaimed,
    /// Interactive, and queued by BPF as user space had judged it before.
    nr_as_judged,

    /// Turns of the engine's loop.
    nr_loops,
    /// Records the engine read.
    nr_records,
    /// Decisions the engine made.
    nr_decided,
    /// Largest batch of records in one turn.
    nr_max_batch,
    /// Page faults of the engine since it attached.
    nr_page_faults,
    /// Heap operations of the engine since it attached.
    nr_heap_ops,
    /// Records that made no sense.
    nr_bad_records,
    /// Tasks in the engine's pool.
    nr_pooled,
    /// Tasks handed straight back because the pool was full.
    nr_pool_overflow,
    /// Enqueues judged interactive.
    nr_interactive,
    /// Enqueues judged batch.
    nr_batch,
    /// Kick programs run because the engine did not block.
    nr_doorbells,
    /// Moving threshold between interactive and batch, voluntary switches per 1000 s.
    threshold_milli,
    /// 1 while interactive has turned itself into FIFO because the machine is under-used.
    fifo_by_itself,
    /// Resident memory of the engine, by its own account.
    resident_bytes,
    /// CPU time of the engine's thread since it attached, by its own account.
    engine_cpu_ns,
    /// Resident memory of the engine's process, by the kernel's account; 0 if simulated.
    process_resident_bytes,
    /// CPU time of the engine's process since it started, by the kernel's account; 0 if simulated.
    process_cpu_ns,
    /// Page faults of the engine's process since it started, by the kernel's account; 0 if simulated.
    process_nr_page_faults,

    /// Time CPUs spent in tasks of this scheduler, the engine left out.
    busy_ns,
    /// Time a higher scheduling class held CPUs.
    held_ns,
    /// Times a CPU went idle.
    nr_idle_entries,
    /// Time that all CPUs together have been idle since the kernel started.
    idle_ns,

    /// Median wait of tasks never judged yet.
    wait_new_p50_us,
    /// 99th percentile of the same.
    wait_new_p99_us,
    /// Median wait of interactive tasks.
    wait_interactive_p50_us,
    /// 99th percentile of the same.
    wait_interactive_p99_us,
    /// Median wait of batch tasks.
    wait_batch_p50_us,
    /// 99th percentile of the same.
    wait_batch_p99_us,
    /// Median wait of kernel threads that BPF schedules alone.
    wait_kernel_p50_us,
    /// 99th percentile of the same.
    wait_kernel_p99_us,
}

const USER_SHARE: &str = "user_share";

impl Stats {
    /// Packs them for the bus.
    #[must_use]
    pub fn to_wire(&self) -> Wire {
        let number = |key: &&str| ((*key).to_owned(), OwnedVariant::from(self.get(key).unwrap_or_default()));
        let mut wire: Wire = Self::KEYS.iter().map(number).collect();
        wire.insert(USER_SHARE.to_owned(), OwnedVariant::from(self.user_share));
        wire
    }

    /// Reads them from the bus.
    #[must_use]
    pub fn from_wire(wire: &Wire) -> Self {
        let mut stats = Self::default();
        for (key, value) in wire {
            match &**value {
                Variant::U64(number) => {
                    if let Some(field) = stats.get_mut(key) {
                        *field = *number;
                    }
                }
                Variant::F64(share) if key == USER_SHARE => stats.user_share = *share,
                _ => {}
            }
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_wire::layout::{Class, Counter};

    #[test]
    fn statistics_survive_the_bus() {
        let mut stats = Stats { user_share: 0.75, ..Stats::default() };
        for (value, key) in Stats::KEYS.iter().enumerate() {
            *stats.get_mut(key).unwrap() = value as u64 + 1;
        }
        assert_eq!(Stats::from_wire(&stats.to_wire()), stats);
        assert_eq!(stats.to_wire().len(), Stats::KEYS.len() + 1);
    }

    #[test]
    fn strange_values_are_ignored() {
        let wire = Wire::from([
            ("nr_user".to_owned(), OwnedVariant::from(-1i32)),
            ("unheard_of".to_owned(), OwnedVariant::from(1u64)),
        ]);
        assert_eq!(Stats::from_wire(&wire), Stats::default());
    }

    #[test]
    fn every_counter_and_class_has_a_key() {
        for (_, name) in Counter::ALL {
            assert!(Stats::KEYS.contains(&name), "{name}");
        }
        for class in Class::ALL {
            for percentile in ["p50", "p99"] {
                let key = format!("wait_{}_{percentile}_us", class.name());
                assert!(Stats::KEYS.contains(&key.as_str()), "{key}");
            }
        }
    }
}
