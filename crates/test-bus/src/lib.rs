//! A message bus of a test's own, in a directory of its own, and what serves on it. For tests only: what goes wrong is a panic.

pub mod of_0_1_0;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// The same that scenarios on desktops have.
const CONFIG: &str = include_str!("../../scenarios/desktop/bus.conf");
const CONFIG_NAME: &str = "bus.conf";
const SOCKET_NAME: &str = "bus";

/// A bus on which everybody may do everything. It ends, with its directory, when dropped.
#[derive(Debug)]
pub struct PrivateBus {
    process: Child,
    address: String,
    directory: TempDir,
}

impl PrivateBus {
    /// Starts one, and waits until it listens.
    ///
    /// # Panics
    ///
    /// If there is no `dbus-daemon`.
    #[must_use]
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        std::fs::write(directory.path().join(CONFIG_NAME), CONFIG).expect("the directory takes files");
        let address = format!("unix:path={}", directory.path().join(SOCKET_NAME).display());
        Self { process: spawn(directory.path(), &address), address, directory }
    }

    /// Where it listens, as D-Bus writes addresses.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its directory, where the test may keep files too.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Ends it and starts another one at the same address, with nobody on it.
    ///
    /// # Panics
    ///
    /// If it does not start again.
    pub fn restart(&mut self) {
        self.end();
        self.process = spawn(self.directory.path(), &self.address);
    }

    /// Sends it a signal: stopped, it carries nothing until it is continued.
    ///
    /// # Panics
    ///
    /// If it has ended by itself.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("the bus runs");
    }

    fn end(&mut self) {
        // Already gone is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(directory: &Path, address: &str) -> Child {
    // What is left of an earlier one.
    let _ = std::fs::remove_file(directory.join(SOCKET_NAME));
    let mut process = Command::new("dbus-daemon")
        .arg(format!("--config-file={}", directory.join(CONFIG_NAME).display()))
        .arg(format!("--address={address}"))
        .args(["--nofork", "--print-address=1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("dbus-daemon must be installed");
    let stdout = process.stdout.take().expect("its output is a pipe");
    // It says its address when it listens.
    let nr_bytes = BufReader::new(stdout).read_line(&mut String::new()).expect("a line can be read");
    assert!(nr_bytes > 0, "dbus-daemon has ended at once");
    process
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn it_listens_at_its_address_again_and_ends_with_its_directory() {
        let mut bus = PrivateBus::start();
        let socket = bus.directory().join(SOCKET_NAME);
        assert!(bus.address().ends_with(socket.to_str().unwrap_or_default()));
        UnixStream::connect(&socket).expect("it listens");
        bus.restart();
        UnixStream::connect(&socket).expect("it listens again");
        drop(bus);
        assert!(!socket.exists());
    }
}
