//! Accidents in random order, for as long as one likes. After each of them the service, what it has stored, the kernel and BPF
//! agree.

use std::env;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use scherzo_model::Mode;

use crate::agreement::ensure_agreement;
use crate::storms::TURNS;
use crate::system_events::suspend_and_wake;
use scherzo_rig::guest::{Guest, Job};
use scherzo_rig::image::SCRIPTS_DIR;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, UNIT, call, change_modes_command, engine_pid, ensure_responsive, journal, keep_state_in_memory, kernel,
    property, wait_until,
};
use scherzo_rig::shell::Shell;

/// How many minutes of the guest's clock it goes on, if not [`DEFAULT_MINUTES`].
const MINUTES_VARIABLE: &str = "SCHERZO_SOAK_MINUTES";
const DEFAULT_MINUTES: u64 = 10;
/// What the order and the choices depend on; the time if it is not set.
const SEED_VARIABLE: &str = "SCHERZO_SOAK_SEED";
/// What the service keeps lies in so small a file system that it can be filled.
const STATE_ROOM: &str = "size=1M";
const STATE_DIRECTORY: &str = "/var/lib/scherzo";
/// For a flood, a storm and what follows.
const LIMIT: Duration = Duration::from_mins(2);
const MODES: [Mode; 3] = [Mode::Interactive, Mode::Fifo, Mode::LowPower];

/// What happens, and its name.
type Accident = (&'static str, fn(&mut Soak, &mut Guest) -> Result<()>);

/// Each of them happens once in a round, in an order of its own.
const ACCIDENTS: &[Accident] = &[
    ("many changes of mode", Soak::change_modes),
    ("a flood of calls", Soak::flood),
    ("an engine that is killed", Soak::kill_engine),
    ("an engine that is killed under a storm", Soak::kill_engine_in_storm),
    ("a service that is killed", kill_service),
    ("a service that is started anew", restart_service),
    ("files that are read again", Soak::reload_files),
    ("a setting that takes a reload", reload_scheduler),
    ("turning it off and on", Soak::turn_off_and_on),
    ("a hold whose program is killed", Soak::hold),
    ("a full disk", Soak::fill_disk),
    ("a CPU that goes offline and returns", Soak::take_cpu),
    ("a storm", Soak::storm),
    ("suspend", Soak::suspend),
];

/// What must be so.
#[derive(Debug)]
struct Soak {
    random: Rng,
    /// The mode that was chosen last.
    mode: Mode,
    was_suspended: bool,
}

/// All accidents, again and again.
pub(super) fn accidents(guest: &mut Guest) -> Result<()> {
    let seed = number(SEED_VARIABLE)?.map_or_else(time_of_day, Ok)?;
    let minutes = number(MINUTES_VARIABLE)?.unwrap_or(DEFAULT_MINUTES);
    say(&format!("a soak of {minutes} min; the same again: {SEED_VARIABLE}={seed} {MINUTES_VARIABLE}={minutes}"));
    keep_state_in_memory(guest)?;
    guest.check(&format!("mount -o remount,{STATE_ROOM} {STATE_DIRECTORY}"), MOMENT)?;
    call(guest, "SetEnabled", "b true").with_context(|| journal(guest))?;
    let mut soak = Soak { random: Rng::with_seed(seed), mode: Mode::Interactive, was_suspended: false };
    soak.choose(guest)?;
    soak.ensure_agreement(guest, "running", "choice")?;
    let end_s = uptime_s(guest)? + minutes * 60;
    let mut nr_accidents = 0;
    // A round is played to its end, so that nothing is left out.
    while uptime_s(guest)? < end_s {
        nr_accidents += soak.round(guest).with_context(|| format!("after {nr_accidents} accidents, seed {seed}"))?;
    }
    say(&format!("{nr_accidents} accidents; the scheduler was loaded {} times", kernel(guest)?.enable_seq));
    call(guest, "SetMode", "s auto").map(drop)
}

fn number(variable: &str) -> Result<Option<u64>> {
    let Some(text) = env::var_os(variable) else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.map(Some).with_context(|| format!("{variable} is {}, not a number", text.display()))
}

fn time_of_day() -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs())
}

/// By the guest's clock.
fn uptime_s(guest: &mut Guest) -> Result<u64> {
    guest.check("cut -d. -f1 /proc/uptime", MOMENT)?.parse().context("the time since the boot is no number")
}

impl Soak {
    fn round(&mut self, guest: &mut Guest) -> Result<usize> {
        let mut order = ACCIDENTS.to_vec();
        self.random.shuffle(&mut order);
        for (name, happens) in &order {
            happens(self, guest).with_context(|| format!("{name}{}", journal(guest)))?;
            self.ensure_agreement(guest, "running", "choice").with_context(|| format!("after {name}"))?;
            ensure_responsive(guest).with_context(|| format!("after {name}"))?;
            say(&format!("{}: agreed on {} after {name}", uptime_s(guest)?, self.mode.name()));
        }
        Ok(order.len())
    }

    /// State, mode and reason, what is stored, the kernel and BPF.
    fn ensure_agreement(&self, guest: &mut Guest, state: &str, reason: &str) -> Result<()> {
        ensure_agreement(guest, state, self.mode.name(), reason)?;
        let wish = format!("enabled = {}, mode = {}", state == "running", self.mode.name());
        let mut last = String::new();
        // The service tells of a change before it is on the disk; who has asked for it is answered after that.
        let outcome = wait_until(guest, &format!("stored is {wish}"), MOMENT, |shell| {
            last = shell.run(&format!("grep -E '^(enabled|mode) = ' {STATE_DIRECTORY}/state.toml"), MOMENT)?.stdout;
            Ok(stored(&last) == wish)
        });
        outcome.with_context(|| format!("the file has {last}"))
    }

    /// Another mode than the last one.
    fn choose(&mut self, guest: &mut Guest) -> Result<()> {
        let others: Vec<_> = MODES.into_iter().filter(|mode| *mode != self.mode).collect();
        self.mode = self.random.choice(others).context("there is one mode only")?;
        call(guest, "SetMode", &format!("s {}", self.mode.name())).map(drop)
    }

    fn change_modes(&mut self, guest: &mut Guest) -> Result<()> {
        guest.check(&change_modes_command(100, Duration::from_millis(5)), LIMIT)?;
        call(guest, "SetPreemption", "b true")?;
        self.choose(guest)
    }

    /// Somebody chooses meanwhile.
    fn flood(&mut self, guest: &mut Guest) -> Result<()> {
        let flood = guest.spawn(&format!("exec python3 {SCRIPTS_DIR}/floods.py --for 5"))?;
        guest.check("sleep 1", MOMENT)?;
        self.choose(guest)?;
        let flood = guest.wait(flood, LIMIT, |_| {})?;
        ensure!(flood.status == 0, "no flood: {}", flood.stderr);
        Ok(())
    }

    fn kill_engine(&mut self, guest: &mut Guest) -> Result<()> {
        let (before, victim) = (kernel(guest)?.enable_seq, engine_pid(guest)?);
        // A crash would take back the mode, which is on probation.
        let signal = self.random.choice(["KILL", "TERM"]).unwrap_or("KILL");
        guest.check(&format!("kill -{signal} {victim}"), MOMENT)?;
        wait_for_next_load(guest, before)
    }

    fn kill_engine_in_storm(&mut self, guest: &mut Guest) -> Result<()> {
        let storm = self.start_storm(guest, 10)?;
        guest.check(&format!("sleep 0.{}", self.random.u8(1..10)), MOMENT)?;
        self.kill_engine(guest)?;
        guest.wait(storm, LIMIT, |_| {}).map(drop)
    }

    fn reload_files(&mut self, guest: &mut Guest) -> Result<()> {
        let before = kernel(guest)?;
        guest.check(&format!("systemctl reload {UNIT}"), MOMENT * 3)?;
        ensure!(kernel(guest)? == before, "the scheduler was loaded again");
        self.choose(guest)
    }

    fn turn_off_and_on(&mut self, guest: &mut Guest) -> Result<()> {
        call(guest, "SetEnabled", "b false")?;
        self.choose(guest)?;
        self.ensure_agreement(guest, "stopped", "disabled")?;
        call(guest, "SetEnabled", "b true").map(drop)
    }

    /// Who chooses ends all holds, so the hold comes after the choice; the choice stays stored.
    fn hold(&mut self, guest: &mut Guest) -> Result<()> {
        call(guest, "SetMode", "s auto")?;
        let holder = guest.spawn("exec scherzoctl hold -m low-power -r soak")?;
        ensure_agreement(guest, "running", "low-power", "hold")?;
        guest.kill(&holder)?;
        self.choose(guest)
    }

    /// What is chosen counts, and that it does not last is said; with room again it is stored.
    fn fill_disk(&mut self, guest: &mut Guest) -> Result<()> {
        let filler = format!("{STATE_DIRECTORY}/filler");
        guest.check(&format!("! dd if=/dev/zero of={filler} bs=4k 2>/dev/null"), MOMENT)?;
        self.choose(guest)?;
        ensure_agreement(guest, "running", self.mode.name(), "choice")?;
        wait_until(guest, "that it is not stored is said", MOMENT, |shell| {
            Ok(property(shell, "LastErrorId")? == "not-stored"
                || property(shell, "LastErrorArgs")?.contains("not_stored"))
        })?;
        guest.check(&format!("rm {filler}"), MOMENT)?;
        wait_until(guest, "nothing is said any more of what is not stored", MOMENT, |shell| {
            Ok(!property(shell, "LastErrorArgs")?.contains("not_stored"))
        })
    }

    fn take_cpu(&mut self, guest: &mut Guest) -> Result<()> {
        const CPU: &str = "/sys/devices/system/cpu/cpu1/online";
        wait_for_freed_maps(guest)?;
        let before = kernel(guest)?;
        let storm = self.start_storm(guest, 5)?;
        guest.check(&format!("echo 0 >{CPU}; sleep 2; echo 1 >{CPU}"), MOMENT)?;
        guest.wait(storm, LIMIT, |_| {})?;
        ensure!(kernel(guest)? == before, "the scheduler was loaded again");
        Ok(())
    }

    fn storm(&mut self, guest: &mut Guest) -> Result<()> {
        let before = kernel(guest)?;
        let storm = self.start_storm(guest, 15)?;
        self.choose(guest)?;
        let storm = guest.wait(storm, LIMIT, |_| {})?;
        ensure!(storm.status == 0, "no storm: {}", storm.stderr);
        ensure!(kernel(guest)? == before, "the scheduler was loaded again");
        Ok(())
    }

    fn start_storm(&mut self, guest: &mut Guest, seconds: u32) -> Result<Job> {
        let storm = self.random.choice(TURNS).context("there is no storm")?;
        guest.spawn(&format!("exec stress-ng {storm} --timeout {seconds}s --quiet"))
    }

    /// Once, since the firmware of the emulated machine suspends once in each boot.
    fn suspend(&mut self, guest: &mut Guest) -> Result<()> {
        if std::mem::replace(&mut self.was_suspended, true) {
            return Ok(());
        }
        wait_for_freed_maps(guest)?;
        let before = kernel(guest)?;
        suspend_and_wake(guest)?;
        ensure!(kernel(guest)? == before, "the scheduler was loaded again");
        Ok(())
    }
}

fn kill_service(_: &mut Soak, guest: &mut Guest) -> Result<()> {
    let before = kernel(guest)?.enable_seq;
    guest.check(&format!("kill -9 $(systemctl show --value -p MainPID {UNIT})"), MOMENT)?;
    wait_for_next_load(guest, before)
}

fn restart_service(_: &mut Soak, guest: &mut Guest) -> Result<()> {
    let before = kernel(guest)?.enable_seq;
    guest.check(&format!("systemctl restart {UNIT}"), MOMENT * 3)?;
    wait_for_next_load(guest, before)
}

fn reload_scheduler(_: &mut Soak, guest: &mut Guest) -> Result<()> {
    for watchdog_s in [29, 30] {
        let before = kernel(guest)?.enable_seq;
        guest.check(&format!("scherzoctl config set watchdog_s {watchdog_s}"), MOMENT * 3)?;
        wait_for_next_load(guest, before)?;
    }
    Ok(())
}

/// The kernel frees the maps of an engine that is gone, a while later, on a CPU that it does not leave meanwhile (`bpf_map_free()`,
/// since 6.14). For task storage that waits for RCU's thread, which needs the lock that taking a CPU offline holds until nobody is
/// bound to that CPU: so a CPU that goes then never goes, whichever scheduler the maps were of.
fn wait_for_freed_maps(guest: &mut Guest) -> Result<()> {
    wait_until(guest, "no map is about to be freed", Duration::from_mins(1), |shell| {
        let stacks = shell.run("cat /proc/[0-9]*/stack 2>/dev/null | grep -c bpf_map_free_deferred", MOMENT)?.stdout;
        Ok(stacks.trim() == "0")
    })
}

fn wait_for_next_load(guest: &mut Guest, before: u64) -> Result<()> {
    wait_until(guest, "the scheduler is loaded again", Duration::from_secs(30), |shell| {
        let now = kernel(shell)?;
        Ok(now.enable_seq > before && now.state == "enabled")
    })
}

/// `enabled = true` and `mode = "fifo"`, each on a line of its own, as the soak writes them.
fn stored(lines: &str) -> String {
    lines.lines().map(|line| line.replace('"', "")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_from_its_lines() {
        assert_eq!(stored("enabled = true\nmode = \"low-power\"\n"), "enabled = true, mode = low-power");
    }
}
