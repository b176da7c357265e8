//! Every command that the README shows for use does what it says when it is typed like that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::agreement::ensure_agreement;
use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, call, ensure_unloaded, journal};
use scherzo_rig::shell::Shell;

const README: &str = include_str!("../../../README.md");
/// The programs whose commands are run.
const RUN_HERE: [&str; 2] = ["scherzoctl ", "busctl "];
/// How code blocks are indented.
const INDENT: &str = "    ";
/// Where the guest finds the program that the README runs under a mode.
const STAND_INS: &str = "/run/readme";
/// Interrupts a monitoring command after two seconds.
const WATCHED: &str = "timeout --signal=INT 5";
/// `timeout`'s status for what had to be interrupted.
const INTERRUPTED: i32 = 124;
const ENDS_BY_ITSELF: Duration = Duration::from_mins(1);

/// Runs the commands in order, beginning with the scheduler turned off.
pub(super) fn commands(guest: &mut Guest) -> Result<()> {
    call(guest, "SetMode", "s auto")?;
    ensure_unloaded(guest)?;
    guest.check(&format!("mkdir -p {STAND_INS} && ln -sf /bin/true {STAND_INS}/make"), MOMENT)?;
    for command in commands_of(README) {
        let (typed, status) = as_typed(command);
        let output = guest.run(&typed, ENDS_BY_ITSELF)?;
        ensure!(output.status == status, "`{command}`: {}{}{}", output.stdout, output.stderr, journal(guest));
        expect(guest, command).with_context(|| format!("after `{command}`"))?;
    }
    call(guest, "SetPreemption", "b true")?;
    call(guest, "SetMode", "s auto").map(drop)
}

/// Checks the effect of the commands that change something.
fn expect(guest: &mut Guest, command: &str) -> Result<()> {
    let words = command.split('#').next().unwrap_or_default().trim_end();
    match words {
        "scherzoctl mode low-power" => ensure_agreement(guest, "running", "low-power", "choice"),
        "scherzoctl disable" => ensure_agreement(guest, "stopped", "low-power", "disabled"),
        _ if words.ends_with("SetEnabled b true") => ensure_agreement(guest, "running", "low-power", "choice"),
        _ if words.ends_with("SetMode s fifo") => ensure_agreement(guest, "running", "fifo", "choice"),
        _ => Ok(()),
    }
}

fn commands_of(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().filter_map(|line| line.strip_prefix(INDENT)).map(str::trim);
    code.filter(|line| RUN_HERE.iter().any(|program| line.starts_with(program)))
}

/// The command for the guest's shell, and the expected exit status: monitoring commands run until they are interrupted.
fn as_typed(command: &str) -> (String, i32) {
    let monitors = command.split(' ').nth(1) == Some("monitor");
    let (prefix, status) = if monitors { (format!("{WATCHED} "), INTERRUPTED) } else { (String::new(), 0) };
    (format!("PATH={STAND_INS}:$PATH; {prefix}{command}"), status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_readme_is_known() {
        // These need a checkout, which the guest does not have.
        let builds = |line: &&str| line.starts_with("cargo ") || line.starts_with("sudo target/");
        let code = README.lines().filter_map(|line| line.strip_prefix(INDENT)).map(str::trim);
        let unknown: Vec<_> = code.filter(|line| !builds(line) && !line.is_empty()).collect();
        assert_eq!(unknown, commands_of(README).collect::<Vec<_>>());
        let nr = |program: &str| commands_of(README).filter(|line| line.starts_with(program)).count();
        assert!(nr("busctl ") >= 6 && nr("scherzoctl ") >= 8, "commands are missing, or are not found");
    }

    #[test]
    fn only_what_goes_on_is_interrupted() {
        assert_eq!(as_typed("busctl monitor org.scherzo.Scheduler1").1, INTERRUPTED);
        assert_eq!(as_typed("scherzoctl status   # what runs, and why").1, 0);
    }
}
