//! What Scherzo does, shown on a running system and checked while it is shown.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scherzo_model::Mode;

use scherzo_rig::measure::{Figures, Meter};
use scherzo_rig::service::{
    KernelState, MOMENT, UNIT, call_command, ensure_loaded, ensure_undisturbed, ensure_unloaded, kernel, property,
    statistic, wait_for_calm, wait_for_state,
};
use scherzo_rig::shell::Shell;

const PROBE_SECONDS: u32 = 6;
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// A line of the table.
struct Row {
    mode: String,
    ops: String,
    enable_seq: u64,
    figures: Figures,
    /// The engine's part of one CPU, 0 to 1.
    engine_share: f64,
}

/// Shows the main job; fails as soon as something does not behave as announced.
pub fn show(shell: &mut dyn Shell) -> Result<()> {
    start_service(shell)?;
    switch_live(shell)?;
    let rows = measure_all(shell)?;
    print_table(&rows);
    println!("\nStatistics of the loaded scheduler:");
    type_in(shell, "scherzoctl stats")?;
    unload(shell)
}

fn start_service(shell: &mut dyn Shell) -> Result<()> {
    println!("\nThe kernel runs its own scheduler. The service starts from its installed unit:");
    type_in(shell, "uname -r")?;
    type_in(shell, &format!("systemctl start {UNIT}"))?;
    type_in(shell, &format!("systemctl is-active {UNIT}"))?;
    let state = kernel(shell)?.state;
    ensure!(state == "disabled" || state == "enabled", "sched_ext is {state}");
    type_in(shell, "cat /sys/kernel/sched_ext/state").map(drop)
}

/// Loads, and changes mode while loaded.
fn switch_live(shell: &mut dyn Shell) -> Result<()> {
    println!("\nLoading the scheduler, then changing its mode while it runs:");
    type_in(shell, &call_command("SetEnabled", "b true"))?;
    let loaded = ensure_loaded(shell)?;
    type_in(shell, "cat /sys/kernel/sched_ext/state /sys/kernel/sched_ext/root/ops /sys/kernel/sched_ext/enable_seq")?;
    for mode in ["fifo", "interactive"] {
        type_in(shell, &call_command("SetMode", &format!("s {mode}")))?;
        type_in(shell, "scherzoctl status")?;
        confirm(shell, mode, None, &loaded)?;
    }
    println!("=> the mode changed, and the kernel's enable_seq is still {}: nothing was reloaded", loaded.enable_seq);
    Ok(())
}

/// The kernel's default first, then each mode with preemption off and on, all under the same load.
fn measure_all(shell: &mut dyn Shell) -> Result<Vec<Row>> {
    println!("\nMeasuring a mostly sleeping thread beside two CPU hogs per CPU, {PROBE_SECONDS} s each:");
    ensure_unloaded(shell)?;
    let meter = Meter::calibrate(shell, PROBE_SECONDS)?;
    let default = kernel(shell)?;
    let figures = meter.measure(shell)?;
    print_line("kernel default", &figures);
    let mut rows = vec![Row {
        mode: "kernel default".into(),
        ops: "-".into(),
        enable_seq: default.enable_seq,
        figures,
        engine_share: 0.0,
    }];
    let loaded = ensure_loaded(shell)?;
    wait_for_calm(shell)?;
    for mode in Mode::ALL.map(Mode::name) {
        for preemption in [false, true] {
            type_in(shell, &call_command("SetMode", &format!("s {mode}")))?;
            type_in(shell, &call_command("SetPreemption", &format!("b {preemption}")))?;
            let row = measure_mode(shell, &meter, mode, preemption)?;
            confirm(shell, mode, Some(preemption), &loaded)?;
            print_line(&row.mode, &row.figures);
            rows.push(row);
        }
    }
    Ok(rows)
}

fn measure_mode(shell: &mut dyn Shell, meter: &Meter, mode: &str, preemption: bool) -> Result<Row> {
    let engine = |shell: &mut dyn Shell| {
        Ok::<_, anyhow::Error>((statistic(shell, "engine_cpu_ns")?, statistic(shell, "uptime_ns")?))
    };
    let (cpu_before_ns, before_ns) = engine(shell)?;
    let figures = meter.measure(shell)?;
    let (cpu_after_ns, after_ns) = engine(shell)?;
    let engine_share = (cpu_after_ns - cpu_before_ns) as f64 / (after_ns - before_ns).max(1) as f64;
    let KernelState { ops, enable_seq, .. } = kernel(shell)?;
    let mode = format!("{mode}{}", if preemption { " + preemption" } else { "" });
    Ok(Row { mode, ops, enable_seq, figures, engine_share })
}

/// The service says what was asked for, and the kernel still runs the scheduler that was loaded.
fn confirm(shell: &mut dyn Shell, mode: &str, preemption: Option<bool>, loaded: &KernelState) -> Result<()> {
    ensure!(property(shell, "Mode")? == mode, "the service does not say that the mode is {mode}");
    if let Some(preemption) = preemption {
        ensure!(
            property(shell, "Preemption")? == preemption.to_string(),
            "the service does not say that preemption is {preemption}"
        );
    }
    ensure_undisturbed(shell, loaded)
}

fn unload(shell: &mut dyn Shell) -> Result<()> {
    println!("\nUnloading; the kernel goes back to its own scheduler:");
    type_in(shell, &call_command("SetEnabled", "b false"))?;
    type_in(shell, "cat /sys/kernel/sched_ext/state")?;
    wait_for_state(shell, "stopped", MOMENT)?;
    ensure_unloaded(shell)
}

/// Shows a command and what it printed, as if typed.
fn type_in(shell: &mut dyn Shell, command: &str) -> Result<()> {
    println!("# {command}");
    let printed = shell.check(command, COMMAND_LIMIT).context("the demonstration stops here")?;
    if !printed.is_empty() {
        println!("{printed}");
    }
    Ok(())
}

fn print_line(mode: &str, figures: &Figures) {
    println!("=> {mode}: wake-up p50 {:.0} µs, p99 {:.0} µs", figures.wake_p50_us, figures.wake_p99_us);
}

fn print_table(rows: &[Row]) {
    println!("\n{}", table(rows));
}

fn table(rows: &[Row]) -> String {
    let header = format!(
        "{:<26} {:<20} {:>10} {:>8} {:>8} {:>11} {:>7} {:>8}",
        "mode", "kernel ops", "enable_seq", "p50 µs", "p99 µs", "throughput", "idle", "engine"
    );
    let default = rows.first().map_or(1.0, |row| row.figures.throughput);
    let line = |Row { mode, ops, enable_seq, figures, engine_share }: &Row| {
        format!(
            "{mode:<26} {ops:<20} {enable_seq:>10} {:>8.0} {:>8.0} {:>9.1} % {:>5.1} % {:>6.1} %",
            figures.wake_p50_us,
            figures.wake_p99_us,
            100.0 * figures.throughput / default,
            100.0 * figures.idle_share,
            100.0 * engine_share
        )
    };
    std::iter::once(header).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_told_relative_to_the_first_row() {
        let row = |mode: &str, throughput| Row {
            mode: mode.into(),
            ops: "scherzo".into(),
            enable_seq: 1,
            figures: Figures { wake_p50_us: 1.0, wake_p99_us: 2.0, throughput, idle_share: 0.5 },
            engine_share: 0.01,
        };
        let text = table(&[row("kernel default", 200.0), row("fifo", 190.0)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("100.0 %") && lines[2].contains("95.0 %"), "{text}");
    }
}
