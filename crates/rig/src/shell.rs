//! A system on which commands can be run: a guest, or this machine.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::namespace::is_root;

/// What a command printed and how it ended.
#[derive(Debug, Clone, Default)]
pub struct CommandOutput {
    /// 0 for success; 128 + signal when a signal ended it.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs shell commands as root.
pub trait Shell {
    /// Runs a command to its end, whatever its status. `limit` is in seconds of real hardware.
    fn run(&mut self, command: &str, limit: Duration) -> Result<CommandOutput>;

    /// How many times slower than real hardware this system may be.
    fn patience(&self) -> u32;

    /// Runs a command that must succeed, and returns what it printed, trimmed.
    fn check(&mut self, command: &str, limit: Duration) -> Result<String> {
        let output = self.run(command, limit)?;
        ensure!(output.status == 0, "`{command}` ended with {}: {}{}", output.status, output.stderr, output.stdout);
        Ok(output.stdout.trim().to_owned())
    }
}

/// This machine.
#[derive(Debug, Clone, Copy)]
pub struct Native;

impl Shell for Native {
    fn run(&mut self, command: &str, limit: Duration) -> Result<CommandOutput> {
        let mut program = if is_root() { Command::new("env") } else { Command::new("sudo") };
        program.args(["sh", "-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().context("cannot start a shell")?;
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let status = wait(&mut child, limit).with_context(|| format!("`{command}`"))?;
        Ok(CommandOutput {
            status,
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
        })
    }

    fn patience(&self) -> u32 {
        2
    }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A read error does not change the command's status.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, limit: Duration) -> Result<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(128));
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("did not end within {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_child_is_waited_for_but_not_forever() {
        let mut quick = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        assert_eq!(wait(&mut quick, Duration::from_secs(10)).unwrap(), 3);
        let mut slow = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(wait(&mut slow, Duration::from_millis(50)).is_err());
    }
}
