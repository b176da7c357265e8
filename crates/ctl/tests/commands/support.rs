//! The service on a bus of its own, and `scherzoctl` talking to it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use scherzo_daemon::authorize::Polkit;
use scherzo_daemon::cli::serve;
use scherzo_daemon::engine::simulated::{self, Simulated, Tree};
use scherzo_daemon::input::NR_INPUTS;
use scherzo_daemon::shell::Parts;
use scherzo_host::Root;
use scherzo_test_bus::PrivateBus;
use serde_json::Value;
use tokio::sync::mpsc;

/// A private bus, whose directory is also the root of the simulated kernel.
pub struct Bus(pub PrivateBus);

impl Bus {
    pub fn start() -> Self {
        Self(PrivateBus::start())
    }

    pub fn root(&self) -> Root {
        Root::new(self.0.directory())
    }

    /// Serves in the background until the test ends.
    pub async fn serve(&self, trusted_uid: Option<u32>) {
        let (inputs, inbox) = mpsc::channel(NR_INPUTS);
        let bus = zbus::connection::Builder::address(self.0.address()).build().await.unwrap();
        let engine = Simulated::new(Tree::at(self.root()), inputs.clone());
        let parts = Parts {
            root: self.root(),
            set_policy: simulated::set_policy,
            engine,
            bus,
            callers: Arc::default(),
            inputs,
        };
        tokio::spawn(async move { serve(parts, inbox, Polkit::trusting(trusted_uid)).await.unwrap() });
        while self.ctl(&["status"]).await.code == 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_scherzoctl"));
        command.args(arguments);
        self.settle(&mut command);
        command
    }

    /// On this bus, with settings of its own.
    fn settle(&self, command: &mut tokio::process::Command) {
        command.env("DBUS_SYSTEM_BUS_ADDRESS", self.0.address()).env("NO_COLOR", "1");
        command.env("XDG_CONFIG_HOME", self.0.directory().join("config"));
    }

    /// The same, where all signals do what they do by default: a shell that runs the tests in the background ignores some, and
    /// what is ignored stays so for all that is started.
    pub fn command_with_default_signals(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("env");
        command.arg("--default-signal").arg(env!("CARGO_BIN_EXE_scherzoctl")).args(arguments);
        self.settle(&mut command);
        command
    }

    /// Listens to the calls of a member by everybody.
    pub async fn calls(&self, member: &str) -> Calls {
        let monitor = zbus::connection::Builder::address(self.0.address()).build().await.unwrap();
        let overheard = zbus::MessageStream::from(&monitor);
        let rule = format!("type='method_call',member='{member}'");
        let rules = [rule.as_str().try_into().unwrap()];
        zbus::fdo::MonitoringProxy::new(&monitor).await.unwrap().become_monitor(&rules, 0).await.unwrap();
        Calls { member: member.to_owned(), overheard }
    }

    /// Waits for a mode and its reason.
    pub async fn is_in(&self, mode: &str, reason: &str) {
        for _ in 0..200 {
            let status = self.ctl(&["--json", "status"]).await.json();
            if status["mode"] == mode && status["reason"] == reason {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never {mode} because of {reason}");
    }

    pub async fn ctl(&self, arguments: &[&str]) -> Said {
        Said::of(&self.command(arguments).output().await.unwrap())
    }
}

/// Calls that cross the bus.
pub struct Calls {
    member: String,
    overheard: zbus::MessageStream,
}

impl Calls {
    /// Of the next calls, whether a person may be asked for a password.
    pub async fn may_prompt(mut self, nr_calls: usize) -> Vec<bool> {
        let mut calls = Vec::new();
        while calls.len() < nr_calls {
            let message = self.overheard.next().await.unwrap().unwrap();
            if message.header().member().is_some_and(|member| member.as_str() == self.member) {
                calls.push(message.primary_header().flags().contains(zbus::message::Flags::ALLOW_INTERACTIVE_AUTH));
            }
        }
        calls
    }
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub text: String,
    pub complaint: String,
}

impl Said {
    pub fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            text: String::from_utf8(output.stdout.clone()).unwrap(),
            complaint: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// The failure as `--json` tells it.
    pub fn error(&self) -> Value {
        let document: Value = serde_json::from_str(&self.complaint).unwrap();
        assert_eq!(document["schema"], 2);
        document["error"].clone()
    }

    /// Success without complaint.
    pub fn plainly(self) -> String {
        assert!(self.code == 0 && self.complaint.is_empty(), "{self:?}");
        self.text
    }

    pub fn json(self) -> Value {
        let document: Value = serde_json::from_str(&self.plainly()).unwrap();
        assert_eq!(document["schema"], 2);
        document
    }

    /// One sentence that holds `part`, and this exit code.
    pub fn refused(&self, code: i32, part: &str) {
        assert!(self.code == code && self.complaint.contains(part), "{self:?}");
        assert_eq!(self.complaint.lines().count(), 1, "{self:?}");
    }
}

pub fn own_uid() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|process| process.uid())
}
