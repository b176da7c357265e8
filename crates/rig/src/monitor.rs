//! QEMU's monitor (QMP): the power state of the machine, and its wake-up button.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Time limit for an answer, even while the machine keeps the host busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Longest time that a stuck machine stays stuck, see [`keep_going`].
pub(crate) const NUDGE_PERIOD: Duration = Duration::from_secs(5);

/// Wakes QEMU's main loop periodically as long as QEMU runs; the guest does not notice.
///
/// A clock that counts instructions jumps to the next timer when all virtual CPUs sleep. On a busy host such a jump is
/// sometimes lost between QEMU's threads, and the machine is stuck with its timers pending until the main loop wakes up
/// and performs it (`icount_start_warp_timer()` in `main_loop_wait()`).
pub(crate) fn keep_going(path: PathBuf, period: Duration) -> JoinHandle<()> {
    thread::spawn(move || {
        while UnixStream::connect(&path).is_ok() {
            thread::sleep(period);
        }
    })
}

/// A connection to the monitor, which serves one connection at a time: drop it soon.
#[derive(Debug)]
pub(crate) struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects to the socket of a running QEMU.
    pub(crate) fn connect(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path).context("QEMU's monitor does not listen")?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        let greeting = monitor.receive()?;
        ensure!(greeting.get("QMP").is_some(), "QEMU's monitor greets with {greeting}");
        monitor.execute("qmp_capabilities")?;
        Ok(monitor)
    }

    /// Whether the machine is suspended to memory.
    pub(crate) fn is_suspended(&mut self) -> Result<bool> {
        Ok(self.execute("query-status")?["status"] == "suspended")
    }

    /// Wakes a machine that is suspended to memory.
    pub(crate) fn wake_up(&mut self) -> Result<()> {
        self.execute("system_wakeup").map(drop)
    }

    /// Presses the reset button.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.execute("system_reset").map(drop)
    }

    /// A command without arguments, and what it returns.
    fn execute(&mut self, command: &str) -> Result<Value> {
        let request = json!({ "execute": command });
        self.stream.get_mut().write_all(request.to_string().as_bytes())?;
        loop {
            let mut message = self.receive().with_context(|| format!("QEMU does not answer {command}"))?;
            if let Some(error) = message.get("error") {
                bail!("QEMU refuses {command}: {error}");
            }
            // Skip events.
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
        }
    }

    fn receive(&mut self) -> Result<Value> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "QEMU has closed its monitor");
        serde_json::from_str(&line).with_context(|| format!("QEMU's monitor says {line}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    /// Answers each request in turn with the lines given for it, after a greeting.
    fn qemu(path: &Path, answers: &'static [&'static str]) -> thread::JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(path).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            writeln!(stream, r#"{{"QMP": {{"version": {{}}, "capabilities": []}}}}"#).unwrap();
            let mut requests = serde_json::Deserializer::from_reader(stream.try_clone().unwrap()).into_iter::<Value>();
            let mut commands = Vec::new();
            for answer in answers {
                commands.push(requests.next().unwrap().unwrap()["execute"].as_str().unwrap().to_owned());
                writeln!(stream, "{answer}").unwrap();
            }
            commands
        })
    }

    #[test]
    fn nudges_go_on_until_qemu_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("monitor.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let nudges = keep_going(path.clone(), Duration::from_millis(1));
        for _ in 0..3 {
            listener.accept().unwrap();
        }
        drop(listener);
        nudges.join().unwrap();
    }

    #[test]
    fn events_are_passed_over_and_refusals_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("monitor.sock");
        let qemu = qemu(
            &path,
            &[
                r#"{"return": {}}"#,
                "{\"event\": \"SUSPEND\"}\n{\"return\": {\"status\": \"suspended\", \"running\": false}}",
                r#"{"error": {"class": "GenericError", "desc": "Unable to wake up: guest is not in suspended state"}}"#,
            ],
        );
        let mut monitor = Monitor::connect(&path).unwrap();
        assert!(monitor.is_suspended().unwrap());
        assert!(monitor.wake_up().unwrap_err().to_string().contains("not in suspended state"));
        assert_eq!(qemu.join().unwrap(), ["qmp_capabilities", "query-status", "system_wakeup"]);
    }
}
