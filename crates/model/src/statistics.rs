//! Statistics: what is counted, where, in what unit, and what each number means.
//!
//! [`for_each_statistic`] is the table; the types and constants here are made from it, as are the types of the crates
//! that carry statistics further.

/// Expands `$callback! { … }` over every statistic, section by section. A crate that needs a type or a match per
/// statistic writes a macro that takes the sections and passes its name.
///
/// Sections:
/// - `per_cpu`: counted by BPF on each CPU. The variant of [`Counter`] with its number on the wire, the key, the
///   meaning. In C the counter is `SCHERZO_CNT_` and the key without `nr_`, in capitals.
/// - `control`: a word of the control page, which BPF and engine write. The key, its kind, the meaning, and the word of
///   the page.
/// - `service`: what the service itself adds. The key, its kind, the meaning.
#[macro_export]
macro_rules! for_each_statistic {
    ($callback:path) => {
        $callback! {
            per_cpu {
                Direct = 0, nr_direct, "Put on a CPU's own queue by BPF: an idle CPU's, its waker's, or that of a CPU about to be free.";
                Preempt = 1, nr_preempt, "Preempted the task that ran on a CPU, by BPF: at the wake-up itself, or as user space asked.";
                Kernel = 2, nr_kernel, "Queued by BPF alone: per-CPU and reclaim kernel threads, tasks without a slot, tasks for which the ring was full, and every task while degraded.";
                Submitted = 3, nr_submitted, "Submitted to user space. A task that runs and is preempted again before user space has read its record counts twice with one record.";
                SubmittedBatch = 4, nr_submitted_batch, "Of these, not interactive.";
                User = 5, nr_user, "Dispatched by user space; what makes no sense in a record is replaced.";
                Cancelled = 6, nr_cancelled, "Dispatched tasks dropped because they came too late: the generation has changed, or user space no longer owned the task.";
                Bounced = 7, nr_bounced, "Dispatched to a CPU that the task may no longer use: queued for any CPU instead.";
                Failed = 8, nr_failed, "Records of dispatched tasks that made no sense.";
                Congested = 9, nr_congested, "Not submitted because the ring was full.";
                Overflow = 10, nr_overflow, "Not submitted because no slot was left for the task.";
                Swept = 11, nr_swept, "Reclaimed from user space while degraded.";
                Left = 12, nr_left, "Ended their flight without being dispatched by user space: dequeued, exited, already running, or submitted anew.";
                Kicked = 13, nr_kicked, "CPUs kicked by a mode change, a doorbell or the watchdog timer, or because a CPU went offline.";
                Stolen = 14, nr_stolen, "Taken from another LLC domain's queue.";
                Kept = 15, nr_kept, "Ran on with a new slice because nothing else waited.";
                Requeued = 16, nr_requeued, "Queued again by BPF with the rest of the slice, after a higher scheduling class, the engine or an interactive task took the CPU.";
                Offline = 17, nr_offline, "Moved away from a CPU that went offline, or sent to the kernel's own queue of such a CPU.";
                WakeEngine = 18, nr_wake_engine, "Notifications sent to the engine.";
                ContendedBatch = 19, nr_contended_batch, "Enqueues of tasks that are not interactive and found no idle CPU.";
                MigratedLlc = 20, nr_migrated_llc, "Ran on another CPU of the same LLC domain.";
                MigratedFar = 21, nr_migrated_far, "Ran on a CPU of another LLC domain.";
                Switches = 22, nr_switches, "Times a task was put on a CPU.";
                Reclaimed = 23, nr_reclaimed, "Preempted tasks reclaimed from user space before it had dispatched them: by the CPU they had left, to finish their slice, or by a CPU of the same LLC domain that had nothing else to run.";
                AsClassified = 24, nr_as_classified, "Interactive tasks that woke and were queued by BPF with the deadline and slice that user space had published for them.";
                LimitOverrun = 25, nr_limit_overrun, "Tasks of control groups beyond their limit that ran for a moment all the same, after they had been held up for 10 s.";
                SliceTimers = 26, nr_slice_timers, "Slices for whose end a timer was set, as others waited and ticks are too far apart.";
            }
            control {
                nr_online_cpus, Gauge, "CPUs online.", nr_online_cpus;
                nr_running, Gauge, "Tasks on a CPU now.", nr_running;
                nr_waiting, Gauge, "Tasks that wait for a CPU, queued or in flight, when the watchdog timer last looked.", nr_waiting;
                nr_in_flight, Gauge, "In-flight tasks now: submitted to user space and not dispatched yet.", nr_in_flight;
                nr_tasks, Gauge, "Tasks known to the scheduler.", nr_tasks;
                nr_loops, Counter, "Turns of the engine's loop.", nr_loops;
                nr_records, Counter, "Records the engine read.", nr_records;
                nr_dispatched, Counter, "Tasks that the engine dispatched.", nr_dispatched;
                nr_max_batch, Gauge, "Largest batch of records in one turn.", nr_max_batch;
                nr_page_faults, Counter, "Page faults of the engine since it attached.", nr_page_faults;
                nr_heap_ops, Counter, "Heap operations of the engine since it attached.", nr_heap_ops;
                nr_bad_records, Counter, "Records that made no sense.", nr_bad_records;
                nr_pooled, Gauge, "Tasks in the engine's pool.", nr_pooled;
                nr_pool_overflow, Counter, "Tasks dispatched at once, in arrival order, because the engine's pool was full.", nr_overflow;
                nr_interactive, Counter, "Enqueues classified interactive.", nr_interactive;
                nr_batch, Counter, "Enqueues classified batch.", nr_batch;
                nr_doorbells, Counter, "Kick programs run because the engine did not block.", nr_doorbells;
                threshold_milli, Gauge, "Moving threshold between interactive and batch, in voluntary switches per 1000 s.", threshold_milli;
                resident_bytes, Gauge, "Resident memory of the engine, by its own account.", resident_bytes;
                engine_cpu_ns, Counter, "CPU time of the engine's thread since it attached, by its own account.", cpu_time_ns;
            }
            service {
                uptime_ns, Gauge, "Time since the kernel confirmed loading.";
                load_us, Gauge, "Time from the request to load to the kernel's confirmation.";
                nr_cpus, Gauge, "CPUs the scheduler is sized for.";
                health, Counter, "The health figure: page faults, heap operations, congestion and failures, summed. It stays at zero.";
                fifo_by_itself, Gauge, "1 while interactive has turned itself into FIFO because the machine is under-used.";
                process_resident_bytes, Gauge, "Resident memory of the engine's process, by the kernel's account; 0 if simulated.";
                process_cpu_ns, Counter, "CPU time of the engine's process since it started, by the kernel's account; 0 if simulated.";
                process_nr_page_faults, Counter, "Page faults of the engine's process since it started, by the kernel's account; 0 if simulated.";
                busy_ns, Counter, "Time CPUs spent in tasks of this scheduler, the engine left out.";
                higher_class_ns, Counter, "Time CPUs were busy with a higher scheduling class.";
                nr_idle_entries, Counter, "Times a CPU went idle.";
                idle_ns, Counter, "Time that all CPUs together have been idle since the kernel started.";
                wait_new_p50_us, Gauge, "Median wait of tasks not classified yet.";
                wait_new_p99_us, Gauge, "99th percentile of the same.";
                wait_interactive_p50_us, Gauge, "Median wait of interactive tasks.";
                wait_interactive_p99_us, Gauge, "99th percentile of the same.";
                wait_batch_p50_us, Gauge, "Median wait of batch tasks.";
                wait_batch_p99_us, Gauge, "99th percentile of the same.";
                wait_kernel_p50_us, Gauge, "Median wait of kernel threads that BPF schedules alone.";
                wait_kernel_p99_us, Gauge, "99th percentile of the same.";
            }
        }
    };
}

/// How a statistic behaves while a scheduler stays loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticKind {
    /// It only grows.
    Counter,
    /// It rises and falls.
    Gauge,
}

/// Where a statistic comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticScope {
    /// Counted by BPF on each CPU, under this number.
    PerCpu(Counter),
    /// A word of the control page.
    ControlPage,
    /// Added by the service.
    Service,
}

/// What a statistic is counted in; its key ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticUnit {
    /// Things or events.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Bytes.
    Bytes,
}

/// A whole-number statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Its name on D-Bus and in JSON.
    pub key: &'static str,
    /// How it behaves.
    pub kind: StatisticKind,
    /// Where it comes from.
    pub scope: StatisticScope,
    /// What it means.
    pub text: &'static str,
}

impl Statistic {
    /// What it is counted in.
    #[must_use]
    pub fn unit(&self) -> StatisticUnit {
        match self.key.rsplit('_').next() {
            Some("ns") => StatisticUnit::Nanoseconds,
            Some("us") => StatisticUnit::Microseconds,
            Some("bytes") => StatisticUnit::Bytes,
            _ => StatisticUnit::Count,
        }
    }
}

macro_rules! tables {
    (
        per_cpu { $($variant:ident = $number:literal, $counter:ident, $counter_text:literal;)+ }
        control { $($control:ident, $control_kind:ident, $control_text:literal, $word:ident;)+ }
        service { $($service:ident, $service_kind:ident, $service_text:literal;)+ }
    ) => {
        /// A counter that BPF keeps on each CPU; the numbers are part of the layout.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $counter_text] $variant = $number,)+
        }

        impl Counter {
            /// Every counter with its key, in wire order.
            pub const ALL: [(Self, &'static str); [$($number),+].len()] =
                [$((Self::$variant, stringify!($counter)),)+];
        }

        /// Every whole-number statistic.
        pub const ALL: &[Statistic] = &[
            $(Statistic {
                key: stringify!($counter),
                kind: StatisticKind::Counter,
                scope: StatisticScope::PerCpu(Counter::$variant),
                text: $counter_text,
            },)+
            $(Statistic {
                key: stringify!($control),
                kind: StatisticKind::$control_kind,
                scope: StatisticScope::ControlPage,
                text: $control_text,
            },)+
            $(Statistic {
                key: stringify!($service),
                kind: StatisticKind::$service_kind,
                scope: StatisticScope::Service,
                text: $service_text,
            },)+
        ];
    };
}

for_each_statistic!(tables);

/// The one statistic that is no whole number, and what it means.
pub const USER_SHARE: (&str, &str) =
    ("user_share", "Part of the contended batch work that was submitted to user space, 0 to 1; 1 if there was none.");

/// Statistics that were called otherwise before: old key, new key. One release gives both.
pub const RENAMED: &[(&str, &str)] = &[
    ("nr_custody", "nr_in_flight"),
    ("nr_handed", "nr_submitted"),
    ("nr_handed_batch", "nr_submitted_batch"),
    ("nr_as_judged", "nr_as_classified"),
    ("held_ns", "higher_class_ns"),
    ("nr_decided", "nr_dispatched"),
];

/// Words reserved for [`Counter`] in a CPU's page.
pub const NR_COUNTERS: usize = 32;

/// The statistic of that key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Statistic> {
    ALL.iter().find(|statistic| statistic.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_fit_their_page() {
        for (number, (counter, key)) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, number, "{key}");
        }
        const { assert!(Counter::ALL.len() <= NR_COUNTERS) }
    }

    #[test]
    fn keys_are_unique() {
        for (at, statistic) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.key != statistic.key), "{}", statistic.key);
        }
    }

    #[test]
    fn old_names_are_free_and_new_ones_exist() {
        for (old, new) in RENAMED {
            assert!(find(old).is_none() && find(new).is_some(), "{old} is now {new}");
        }
    }
}
