//! Service, kernel and BPF agree: the properties of the service match the state of sched_ext in the kernel and the mode
//! that the loaded scheduler acts on.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scherzo_model::Mode;
use serde_json::Value;

use scherzo_rig::service::{KernelState, MOMENT, journal, kernel, wait_until};
use scherzo_rig::shell::Shell;

/// All of the service's properties, as one line of JSON.
const PROPERTIES: &str = "busctl --system --json=short call org.scherzo.Scheduler1 /org/scherzo/Scheduler1 \
                          org.freedesktop.DBus.Properties GetAll s org.scherzo.Scheduler1";
/// The first byte of the control page's first word is the mode that BPF acts on. A
/// standby engine has a page of that name as well, so the engine that schedules is asked for.
const CONTROL_PAGE: &str =
    "for id in $(sed -n 's/^map_id:[[:space:]]*//p' /proc/$(pgrep -xo scherzo-engine)/fdinfo/*); do
        if bpftool map show id $id | grep -q 'name control '; then exec bpftool -j map lookup id $id key 0 0 0 0; fi
    done; exit 1";

/// What the service reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceReport {
    pub(super) state: String,
    pub(super) mode: String,
    pub(super) reason: String,
    ops: String,
}

impl fmt::Display for ServiceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, mode, reason, ops } = self;
        write!(f, "State {state}, Mode {mode}, Reason {reason}, KernelOps \"{ops}\"")
    }
}

/// Asks the service.
pub(super) fn service_report(shell: &mut dyn Shell) -> Result<ServiceReport> {
    let text = shell.check(PROPERTIES, MOMENT)?;
    parse(&text).with_context(|| format!("the service's properties read {text}"))
}

fn parse(text: &str) -> Option<ServiceReport> {
    let answer: Value = serde_json::from_str(text).ok()?;
    let property = |name: &str| answer["data"][0].get(name)?["data"].as_str().map(str::to_owned);
    Some(ServiceReport {
        state: property("State")?,
        mode: property("Mode")?,
        reason: property("Reason")?,
        ops: property("KernelOps")?,
    })
}

/// Waits until the service reports this state, mode and reason; then kernel and BPF must agree with it.
pub(super) fn ensure_agreement(shell: &mut dyn Shell, state: &str, mode: &str, reason: &str) -> Result<()> {
    let mut last = String::new();
    let wanted = format!("State {state}, Mode {mode}, Reason {reason}");
    let outcome = wait_until(shell, &wanted, Duration::from_secs(20), |shell| {
        // The service may be restarting.
        last = service_report(shell).map_or_else(|error| format!("{error:#}"), |report| report.to_string());
        Ok(last.starts_with(&wanted))
    });
    outcome.with_context(|| format!("it says {last}"))?;
    let report = service_report(shell)?;
    let kernel = kernel(shell)?;
    ensure!(kernel_agrees(&report, &kernel), "{report}, but the kernel says {kernel:?}{}", journal(shell));
    if report.state == "running" {
        let acted_on = mode_in_kernel(shell)?;
        ensure!(acted_on == mode, "{report}, but the scheduler acts on {acted_on}{}", journal(shell));
    }
    Ok(())
}

fn kernel_agrees(report: &ServiceReport, kernel: &KernelState) -> bool {
    let is_ours = kernel.state == "enabled" && kernel.ops.starts_with("scherzo");
    match report.state.as_str() {
        "running" | "degraded" => is_ours && report.ops == kernel.ops,
        "foreign" => kernel.state == "enabled" && !is_ours && report.ops == kernel.ops,
        // The service is also "starting" while it delays loading.
        "stopped" | "fallback" | "starting" => kernel.state == "disabled" && report.ops.is_empty(),
        _ => false,
    }
}

/// The mode in the control page, which BPF reads in every callback.
fn mode_in_kernel(shell: &mut dyn Shell) -> Result<String> {
    let text = shell.check(CONTROL_PAGE, MOMENT)?;
    let page: Value = serde_json::from_str(&text).with_context(|| format!("bpftool says {text}"))?;
    let first = page["value"][0].as_str().and_then(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).ok());
    let mode = first.and_then(Mode::from_wire).with_context(|| format!("no mode has the number {first:?}"))?;
    Ok(mode.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: &str, ops: &str) -> ServiceReport {
        ServiceReport { state: state.into(), mode: "fifo".into(), reason: "choice".into(), ops: ops.into() }
    }

    #[test]
    fn properties_are_read_from_what_busctl_prints() {
        let text = r#"{"type":"a{sv}","data":[{"State":{"type":"s","data":"running"},"Mode":{"type":"s","data":"fifo"},
            "KernelOps":{"type":"s","data":"scherzo_1"},"Reason":{"type":"s","data":"choice"}}]}"#;
        assert_eq!(parse(text).unwrap(), report("running", "scherzo_1"));
        assert_eq!(parse(r#"{"data":[{}]}"#), None);
    }

    #[test]
    fn a_report_that_contradicts_the_kernel_is_found() {
        let kernel = |state: &str, ops: &str| KernelState { state: state.into(), ops: ops.into(), enable_seq: 1 };
        let (loaded, none) = (kernel("enabled", "scherzo_1"), kernel("disabled", ""));
        assert!(kernel_agrees(&report("running", "scherzo_1"), &loaded));
        assert!(!kernel_agrees(&report("running", "scherzo_1"), &none));
        assert!(!kernel_agrees(&report("stopped", ""), &loaded));
        assert!(kernel_agrees(&report("stopped", ""), &none));
        assert!(kernel_agrees(&report("foreign", "other"), &kernel("enabled", "other")));
        assert!(!kernel_agrees(&report("foreign", "scherzo_1"), &loaded));
        assert!(!kernel_agrees(&report("switching", ""), &none));
    }
}
