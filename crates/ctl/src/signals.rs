//! Signals that a program passes on to the command it runs.

use std::fs;
use std::io::{self, IsTerminal};

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Signals that end a command by default, or that programs give a meaning of their own.
const PASSED_ON: [Signal; 6] = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2];
/// Those that a terminal sends to its whole foreground process group, which includes the command: it must not get them
/// twice.
const OF_TERMINALS: [Signal; 2] = [Signal::INT, Signal::QUIT];

/// The signals that arrive from now on. A signal that was ignored when this program started stays ignored, also for the
/// command, as `nohup` needs it.
pub(crate) fn listen() -> io::Result<mpsc::Receiver<Signal>> {
    let (tell, heard) = mpsc::channel(16);
    let ignored = ignored();
    for passed_on in PASSED_ON.into_iter().filter(|passed_on| ignored & bit(*passed_on) == 0) {
        let mut arrivals = signal(SignalKind::from_raw(passed_on.as_raw()))?;
        let tell = tell.clone();
        tokio::spawn(async move { while arrivals.recv().await.is_some() && tell.send(passed_on).await.is_ok() {} });
    }
    Ok(heard)
}

/// Sends a signal on, unless a terminal has done so.
pub(crate) fn pass_on(signal: Signal, child: Option<u32>) {
    if OF_TERMINALS.contains(&signal) && is_in_front() {
        return;
    }
    if let Some(pid) = child.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        // It may have ended this moment.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Whether this program, and so its command, is in the foreground process group of the terminal.
fn is_in_front() -> bool {
    // Standard input may be a pipe, but the terminal is still there.
    let Ok(terminal) = fs::File::open("/dev/tty") else { return false };
    terminal.is_terminal() && rustix::termios::tcgetpgrp(&terminal).ok() == Some(rustix::process::getpgrp())
}

/// The set of signals that this process ignores, as the kernel writes it.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status)
}

fn ignored_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_as_the_kernel_writes_them() {
        let ignored = ignored_in("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n");
        assert_ne!(ignored & bit(Signal::HUP), 0, "as after nohup");
        assert_eq!(ignored & bit(Signal::TERM), 0);
        assert_eq!(ignored_in(""), 0);
    }
}
