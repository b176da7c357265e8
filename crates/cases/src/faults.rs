//! Faults: processes die or stop, CPUs go offline and return.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::ensure_agreement;
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{
    COMPACTION, ENGINE, MOMENT, UNIT, call, engine_pid, ensure_loaded, ensure_responsive, ensure_undisturbed,
    ensure_unloaded, kernel, property, rcu_policy, wait_for_state, wait_until, with_user_seat,
};
use scherzo_rig::shell::Shell;

/// Times that a CPU leaves and returns at once.
const NR_QUICK_TURNS: u32 = 8;

/// The unit's `WatchdogSec=`.
const WATCHDOG: Duration = Duration::from_secs(90);

/// How long the service may take to come back, backoff included.
const RECOVERY: Duration = Duration::from_secs(30);

/// The kernel returns to its default scheduler immediately; the service reports the reason and recovers. Both signals
/// come from outside, and the service treats them alike.
pub(super) fn engine_killed(guest: &mut Guest) -> Result<()> {
    for signal in ["KILL", "TERM"] {
        let before = ensure_loaded(guest)?;
        let pid = engine_pid(guest)?;
        guest.check(&format!("kill -{signal} {pid}"), MOMENT)?;
        wait_until(guest, "the kernel lets go of the dead engine's scheduler", Duration::from_secs(2), |guest| {
            let now = kernel(guest)?;
            Ok(now.state == "disabled" || now.enable_seq > before.enable_seq)
        })?;
        ensure_responsive(guest)?;
        wait_for_state(guest, "running", RECOVERY)?;
        ensure!(engine_pid(guest)? != pid);
        ensure!(kernel(guest)?.enable_seq > before.enable_seq);
        let error = property(guest, "LastError")?;
        ensure!(
            error.contains("killed"),
            "LastError after SIG{signal} does not say that the engine was killed: {error}"
        );
    }
    Ok(())
}

/// A service whose loop does not turn is ended by systemd's watchdog, and the next one loads again.
pub(super) fn daemon_hangs(guest: &mut Guest) -> Result<()> {
    let before = ensure_loaded(guest)?;
    let main_pid = format!("systemctl show --value -p MainPID {UNIT}");
    let daemon = guest.check(&main_pid, MOMENT)?;
    let daemon = daemon.trim();
    guest.check(&format!("kill -STOP {daemon}"), MOMENT)?;
    wait_until(guest, "systemd ends a service that hangs", WATCHDOG + RECOVERY, |guest| {
        Ok(guest.run(&format!("kill -0 {daemon}"), MOMENT)?.status != 0)
    })?;
    wait_for_state(guest, "running", RECOVERY)?;
    ensure!(guest.check(&main_pid, MOMENT)?.trim() != daemon, "it is the same process");
    ensure!(kernel(guest)?.enable_seq > before.enable_seq, "the scheduler was not loaded anew");
    Ok(())
}

/// The engine ends with its daemon; systemd restarts the daemon, which restores the chosen mode.
pub(super) fn daemon_killed(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let compaction = guest.check(&format!("cat {COMPACTION}"), MOMENT)?;
    let rcu = rcu_policy(guest)?;
    ensure_loaded(guest)?;
    call(guest, "SetMode", "s fifo")?;
    let engine = engine_pid(guest)?;
    let daemon = guest.check(&format!("systemctl show --value -p MainPID {UNIT}"), MOMENT)?;
    guest.check(&format!("kill -9 {daemon}"), MOMENT)?;
    wait_until(guest, "the engine ends with its daemon", Duration::from_secs(5), |guest| {
        Ok(guest.run(&format!("kill -0 {engine}"), MOMENT)?.status != 0)
    })?;
    ensure_agreement(guest, "running", "fifo", "choice").context("the last choice was not restored")?;
    call(guest, "SetMode", "s auto")?;
    ensure_unloaded(guest)?;
    let left = guest.check(&format!("cat {COMPACTION}"), MOMENT)?;
    ensure!(left == compaction, "compaction of locked memory was {compaction} and is {left}");
    let left = rcu_policy(guest)?;
    ensure!(left == rcu, "RCU's thread was {rcu} and is {left}");
    Ok(())
}

/// While user space is stopped, BPF schedules alone; afterwards user space takes part again.
pub(super) fn engine_stopped(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    with_user_seat(guest, |guest| {
        while_stopped(guest, |guest| wait_for_state(guest, "degraded", Duration::from_secs(5)))?;
        wait_for_state(guest, "running", MOMENT)
    })?;
    ensure_undisturbed(guest, &loaded)
}

/// Where the kernel side applies the policy, nothing depends on the engine: it is not even noticed that it is stopped.
pub(super) fn engine_not_needed(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    while_stopped(guest, |guest| {
        guest.check("sleep 5", MOMENT * 2)?;
        let state = property(guest, "State")?;
        ensure!(state == "running", "without an engine that it does not need, the state is {state}");
        Ok(())
    })?;
    ensure_undisturbed(guest, &loaded)
}

/// Does something under two hogs per CPU while the engine is stopped; programs must still start.
fn while_stopped(guest: &mut Guest, work: impl FnOnce(&mut Guest) -> Result<()>) -> Result<()> {
    guest.check(&format!("pkill -STOP -x {ENGINE}"), MOMENT)?;
    let load = guest.spawn("exec stress-ng --cpu $((2 * $(nproc))) --timeout 12s --quiet")?;
    let outcome = work(guest).and_then(|()| ensure_responsive(guest));
    let stopped = guest.wait(load, Duration::from_secs(30), |_| {});
    guest.check(&format!("pkill -CONT -x {ENGINE}"), MOMENT)?;
    outcome?;
    stopped.map(drop)
}

/// CPUs go offline and return under load, without the scheduler being reloaded: first with pauses, then in quick
/// succession, because the engine must be woken even if the wake-up falls into the last microseconds of a CPU.
pub(super) fn cpu_hotplug(guest: &mut Guest) -> Result<()> {
    const CPU: &str = "/sys/devices/system/cpu/cpu1/online";
    let loaded = ensure_loaded(guest)?;
    let load = scherzo_rig::service::start_load(guest)?;
    guest.check(&format!("echo 0 >{CPU}; sleep 3"), MOMENT)?;
    ensure_responsive(guest)?;
    guest.check(&format!("echo 1 >{CPU}"), MOMENT)?;
    ensure_responsive(guest)?;
    for _ in 0..NR_QUICK_TURNS {
        guest.check(&format!("echo 0 >{CPU}; sleep 0.3; echo 1 >{CPU}; sleep 0.3"), MOMENT)?;
    }
    wait_for_state(guest, "running", Duration::from_secs(2))?;
    ensure_responsive(guest)?;
    scherzo_rig::service::end_load(guest, &load)?;
    ensure_undisturbed(guest, &loaded)
}
