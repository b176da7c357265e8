//! Compiles `scherzo_wire.h` and compares every size, offset and constant with the Rust mirror.

#![allow(missing_docs)]

use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use scherzo_wire::control::{ControlWord, Mode, Order, Placement};
use scherzo_wire::layout::{
    self, Class, ControlPage, Counter, CpuStats, DispatchedTaskRecord, QueuedTaskRecord, RecordKind, Slot,
};

/// (expression in C, value in Rust)
fn expectations() -> Vec<(String, u64)> {
    let mut all = Vec::new();
    macro_rules! fields {
        ($c:literal, $rust:ty, $($field:ident $(= $name:literal)?),+ $(,)?) => {
            all.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
            $(
                #[allow(unused_mut, unused_assignments)]
                let mut name = stringify!($field);
                $(name = $name;)?
                all.push((format!("__builtin_offsetof(struct {}, {name})", $c), offset_of!($rust, $field) as u64));
            )+
        };
    }
    fields!(
        "scherzo_queued_task",
        QueuedTaskRecord,
        kind,
        slot,
        generation,
        pid,
        flags,
        now_ns,
        sum_exec_ns,
        burst_ns,
        nr_voluntary_switches,
        weight,
        cpu,
        nr_running,
        nr_waiting,
        account,
    );
    fields!("scherzo_dispatched_task", DispatchedTaskRecord, slot, pid, generation, slice_ns, deadline_ns, cpu, flags);
    fields!("scherzo_slot", Slot, deadline_ns, classified_ns, slice_ns, class = "klass");
    fields!(
        "scherzo_control",
        ControlPage,
        word,
        slice_ns,
        starvation_limit_ns,
        foreground_cgroup,
        foreground_percent,
        timed_slice_us,
        degraded_seq,
        nr_online_cpus,
        exited,
        nr_submitted,
        parked,
        recovered_seq,
        nr_urgent,
        nr_loops,
        nr_records,
        nr_dispatched,
        nr_max_batch,
        nr_in_flight,
        nr_tasks,
        nr_running,
        degraded_since_ns,
        nr_higher_class_cpus,
        nr_waiting,
        nr_pooled,
        nr_interactive,
        nr_batch,
        nr_doorbells,
        threshold_milli,
        fifo_since_ns,
        nr_overflow,
        nr_bad_records,
        nr_page_faults,
        nr_heap_ops,
        cpu_time_ns,
        resident_bytes,
    );
    fields!("scherzo_cpu_stats", CpuStats, counters, wait, busy_ns, nr_idle_entries, higher_class_ns);

    let mut constant = |c: &str, rust: u64| all.push((c.to_owned(), rust));
    constant("SCHERZO_WIRE_VERSION", layout::WIRE_VERSION.into());
    constant("SCHERZO_NR_SLOTS", layout::NR_SLOTS.into());
    constant("SCHERZO_NO_SLOT", layout::NO_SLOT.into());
    constant("SCHERZO_NR_RING_RECORDS", layout::NR_RING_RECORDS.into());
    constant("SCHERZO_QUEUED_RING_BYTES", layout::QUEUED_RING_BYTES.into());
    constant("SCHERZO_DISPATCHED_RING_BYTES", layout::DISPATCHED_RING_BYTES.into());
    constant("SCHERZO_CPU_ANY", layout::CPU_ANY.into());
    constant("SCHERZO_NR_WAIT_BUCKETS", layout::NR_WAIT_BUCKETS as u64);
    constant("SCHERZO_NR_CLASSES", layout::NR_CLASSES as u64);
    constant("SCHERZO_NR_COUNTERS", layout::NR_COUNTERS as u64);
    constant("SCHERZO_QUEUED_WAKEUP", layout::QUEUED_WAKEUP.into());
    constant("SCHERZO_QUEUED_PINNED", layout::QUEUED_PINNED.into());
    constant("SCHERZO_DISPATCHED_CLASS_MASK", layout::DISPATCHED_CLASS_MASK.into());
    constant("SCHERZO_DISPATCHED_FIFO", layout::DISPATCHED_FIFO.into());
    constant("SCHERZO_DISPATCHED_PREEMPT", layout::DISPATCHED_PREEMPT.into());
    constant("SCHERZO_DISPATCHED_TIMED", layout::DISPATCHED_TIMED.into());
    for mode in Mode::ALL {
        constant(&format!("SCHERZO_MODE_{}", mode.name().to_uppercase().replace('-', "_")), mode as u64);
    }
    for class in Class::ALL {
        constant(&format!("SCHERZO_CLASS_{}", class.c_name()), class as u64);
    }
    constant("SCHERZO_ORDER_DEADLINE", Order::Deadline as u64);
    constant("SCHERZO_ORDER_FIFO", Order::Fifo as u64);
    constant("SCHERZO_RECORD_ENQUEUE", RecordKind::Enqueue as u64);
    constant("SCHERZO_RECORD_REFRESH", RecordKind::Refresh as u64);
    constant("SCHERZO_RECORD_EXIT", RecordKind::Exit as u64);
    constant("SCHERZO_RECORD_NOTICE", RecordKind::Notice as u64);
    for (counter, name) in Counter::ALL {
        let c = format!("SCHERZO_CNT_{}", name.trim_start_matches("nr_").to_uppercase());
        constant(&c, counter as u64);
    }
    let placement =
        Placement { full_user: true, builtin_idle: false, whole_cores: true, numa_local: true, kernel_seat: true };
    let word = ControlWord { mode: Mode::LowPower, preemption: true, placement, order: Order::Fifo, generation: 9 };
    constant(
        "((u64)SCHERZO_MODE_LOW_POWER << SCHERZO_CONTROL_MODE_SHIFT) | \
         ((u64)(SCHERZO_FLAG_PREEMPTION | SCHERZO_FLAG_FULL_USER | SCHERZO_FLAG_OWN_IDLE | SCHERZO_FLAG_WHOLE_CORES | \
         SCHERZO_FLAG_NUMA_LOCAL | SCHERZO_FLAG_KERNEL_SEAT) << SCHERZO_CONTROL_FLAGS_SHIFT) | \
         ((u64)SCHERZO_ORDER_FIFO << SCHERZO_CONTROL_ORDER_SHIFT) | (9ULL << SCHERZO_CONTROL_GENERATION_SHIFT)",
        word.pack(),
    );
    all
}

#[test]
fn rust_mirrors_the_header() {
    let expectations = expectations();
    let mut program = String::from("#include <stdio.h>\n#include \"scherzo_wire.h\"\nint main(void) {\n");
    for (expression, _) in &expectations {
        writeln!(program, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    program.push_str("return 0; }\n");

    let dir = tempfile::tempdir().unwrap();
    let (source, binary) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    let built = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-Wno-unused-function", "-I", scherzo_wire::INCLUDE_DIR])
        .args(["-I", scherzo_arithmetic::INCLUDE_DIR, "-o"])
        .args([&binary, &source])
        .status()
        .expect("a C compiler, as Rust itself needs one to link");
    assert!(built.success());
    let output = Command::new(&binary).output().unwrap();
    let values: Vec<u64> = str::from_utf8(&output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(values.len(), expectations.len());
    for ((expression, rust), c) in expectations.into_iter().zip(values) {
        assert_eq!(rust, c, "{expression}: Rust has {rust}, C has {c}");
    }
}
