//! Signals that `scherzoctl run` passes on to its command.

use std::process::Stdio;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::Bus;

#[tokio::test]
async fn a_command_gets_the_signals() {
    let bus = Bus::start();
    let signals = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2];
    for (signal, name) in signals.into_iter().zip(["TERM", "INT", "QUIT", "HUP", "USR1", "USR2"]) {
        let script = format!("trap 'exit 41' {name}; echo ready; while :; do sleep 0.05; done");
        let mut command = bus.command_with_default_signals(&["run", "-m", "fifo", "--", "sh", "-c", &script]);
        // Not in front of the terminal that the test may have.
        let mut run = command.process_group(0).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
        rustix::process::kill_process(Pid::from_raw(run.id().unwrap().cast_signed()).unwrap(), signal).unwrap();
        assert_eq!(run.wait().await.unwrap().code(), Some(41), "{name}");
    }
}

/// The terminal sends Ctrl-C to the command as well, which must not take it for two.
#[tokio::test]
async fn what_a_terminal_sends_comes_once() {
    let bus = Bus::start();
    let count = "n=0; trap 'n=$((n+1)); echo hit' INT; echo ready; \
                 while [ $n = 0 ]; do sleep 0.1; done; sleep 0.5; sleep 0.5; exit $((40 + n))";
    let (ctl, count) = (env!("CARGO_BIN_EXE_scherzoctl"), count.replace('\'', r"'\''"));
    let inner = format!("exec env --default-signal {ctl} run -m fifo -- sh -c '{count}'");
    let mut terminal = tokio::process::Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &inner, "/dev/null"]);
    terminal.env("DBUS_SYSTEM_BUS_ADDRESS", bus.0.address()).env("SHELL", "/bin/sh");
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().expect("the command starts").contains("ready") {}
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").await.unwrap();
    let rest = tokio::spawn(async move { while lines.next_line().await.is_ok_and(|line| line.is_some()) {} });
    assert_eq!(terminal.wait().await.unwrap().code(), Some(41));
    rest.await.unwrap();
}

/// `nohup scherzoctl run -- COMMAND` survives the end of the terminal, and so does the command.
#[tokio::test]
async fn what_was_ignored_stays_so() {
    let bus = Bus::start();
    let ctl = env!("CARGO_BIN_EXE_scherzoctl");
    let script = format!("trap '' HUP; exec {ctl} run -m fifo -- sh -c 'kill -HUP $$; exit 7'");
    let mut shell = tokio::process::Command::new("sh");
    let status = shell.args(["-c", &script]).env("DBUS_SYSTEM_BUS_ADDRESS", bus.0.address()).status().await.unwrap();
    assert_eq!(status.code(), Some(7));
}
