//! Packages, in the order of a user: install with the package manager, enable, reboot, upgrade, remove.
//!
//! The guest holds the packages and nothing else of this project. Each case continues where the previous one ended.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use scherzo_packaging::{NOTE, PACKAGES_DIR, SCRIPTS_DIR};
use scherzo_rig::guest::Guest;
use scherzo_rig::progress::say;
use scherzo_rig::service::{
    MOMENT, call, ensure_responsive, ensure_unloaded, journal, kernel, property, wait_for_state, wait_until,
};
use scherzo_rig::shell::Shell;

/// Time limit for unpacking in emulation, and for the triggers of other packages.
const PACKAGE_LIMIT: Duration = Duration::from_mins(2);
/// The service waits up to 30 s before it loads after a start of the system.
const BOOT_DELAY_LIMIT: Duration = Duration::from_mins(1);
/// Time limit for an app on an emulated desktop.
const APP_LIMIT: Duration = Duration::from_mins(5);
/// Starts an active local session, whose user polkit asks for no password. The home directory is temporary: removing
/// what an app leaves there is not the task of a package.
const LOG_IN: &str = "mkdir -p -m 700 /tmp/home && chown person: /tmp/home && systemd-run --quiet --wait --pipe --collect \
                      --property=User=person --property=PAMName=login --property=TTYPath=/dev/tty1 \
                      --setenv=XDG_SESSION_TYPE=x11 env HOME=/tmp/home";
/// Where the state of the system before the installation is recorded.
const NOTES: &str = "/var/lib/scherzo-rig";
const APT: &str = "DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Sandbox::User=root";
/// What each package must provide.
const PRESENT: &[&str] = &[
    "/usr/bin/scherzo",
    "/usr/bin/scherzo-tray",
    "/usr/bin/scherzoctl",
    "/usr/libexec/scherzo-engine",
    "/usr/share/applications/org.scherzo.Scherzo.desktop",
    "/usr/share/applications/org.scherzo.Tray.desktop",
    "/usr/share/gnome-shell/extensions/scherzo@scherzo.org/extension.js",
    "/usr/share/icons/hicolor/scalable/apps/org.scherzo.Scherzo.svg",
    "/usr/share/locale/de/LC_MESSAGES/scherzo.mo",
    "/usr/share/man/man1/scherzoctl.1.gz",
    "/usr/share/man/man8/scherzod.8.gz",
];

/// All packages install, the service runs, and Scherzo is off until someone turns it on.
pub(super) fn install(guest: &mut Guest) -> Result<()> {
    note(guest, "before")?;
    install_revision(guest, 1)?;
    for file in PRESENT {
        guest.check(&format!("test -s {file}"), MOMENT).with_context(|| format!("{file} is missing"))?;
    }
    for program in ["scherzo", "scherzo-tray", "scherzoctl", "scherzo-bench", "/usr/libexec/scherzod"] {
        guest.check(&format!("{program} --version"), MOMENT)?;
    }
    ensure_healthy(guest)?;
    ensure!(property(guest, "Enabled")? == "false", "it is on without having been turned on");
    let enabled = guest.check("systemctl is-enabled scherzod", MOMENT)?;
    ensure!(enabled == "enabled", "the unit is {enabled}");
    let following = guest.run("systemctl --global is-enabled scherzo-applications", MOMENT)?;
    ensure!(following.stdout.trim() == "disabled", "following applications is {}", following.stdout.trim());
    Ok(())
}

/// The packages' own test of the installation.
pub(super) fn smoke(guest: &mut Guest) -> Result<()> {
    guest.check(&format!("sh {PACKAGES_DIR}/smoke"), Duration::from_mins(1)).map(drop)
}

/// Enables, chooses each mode and disables, all in the app: the kernel runs what was chosen, and has loaded once.
pub(super) fn app(guest: &mut Guest) -> Result<()> {
    ensure_unloaded(guest)?;
    let before = kernel(guest)?;
    use_app(guest, "guest_app.py")?;
    let after = kernel(guest)?;
    ensure!(after.enable_seq == before.enable_seq + 1, "loaded {} times", after.enable_seq - before.enable_seq);
    ensure!(after.state == "disabled", "the kernel says {}", after.state);
    ensure!(property(guest, "Enabled")? == "false", "it is still on");
    Ok(())
}

/// After enabling, configuring and a reboot, the scheduler is loaded and the configuration is unchanged.
pub(super) fn reboot(guest: &mut Guest) -> Result<()> {
    ensure!(kernel(guest)?.state == "disabled");
    guest.check("scherzoctl enable", Duration::from_secs(30))?;
    guest.check("scherzoctl mode fifo && scherzoctl preemption off", MOMENT)?;
    guest.check("scherzoctl config set base_slice_us 4000", Duration::from_secs(30))?;
    wait_for_state(guest, "running", Duration::from_secs(20))?;
    guest.reboot()?;
    wait_for_state(guest, "running", BOOT_DELAY_LIMIT)?;
    ensure_as_left(guest)?;
    println!("loaded again after a reboot, on {}", guest.check("uname -r", MOMENT)?);
    Ok(())
}

/// Upgrading while the scheduler is loaded reloads it and keeps the configuration.
pub(super) fn upgrade(guest: &mut Guest) -> Result<()> {
    let daemon = guest.check("systemctl show -P MainPID scherzod", MOMENT)?;
    install_revision(guest, 2)?;
    let version = guest.check("dpkg-query -W -f '${Version}' scherzo-daemon", MOMENT)?;
    ensure!(version.ends_with("-2"), "{version} is installed");
    let now = guest.check("systemctl show -P MainPID scherzod", MOMENT)?;
    ensure!(now != daemon, "the old service still runs");
    wait_for_state(guest, "running", Duration::from_secs(30))?;
    ensure_as_left(guest)
}

/// After purging, nothing is loaded or running, and the system is as before: every file and every setting.
pub(super) fn purge(guest: &mut Guest) -> Result<()> {
    ensure!(property(guest, "State")? == "running", "there is nothing to unload");
    guest.check(&format!("{APT} purge 'scherzo*' gnome-shell-extension-scherzo"), PACKAGE_LIMIT)?;
    ensure!(kernel(guest)?.state == "disabled", "the scheduler is still loaded");
    for (what, command) in [
        ("running", "pgrep -a scherzo | grep -v scherzo-guest"),
        ("loaded", "bpftool prog show | grep -i scherzo"),
        ("known to systemd", "systemctl list-unit-files | grep scherzo | grep -v scherzo-guest-agent"),
        ("known to dpkg", "dpkg-query -W | grep scherzo"),
        ("left in /run", "ls -d /run/scherzo"),
        ("left on the bus", "busctl --system list --activatable | grep scherzo.Sched"),
    ] {
        let mut left = String::new();
        let gone = wait_until(guest, "nothing left", MOMENT, |shell| {
            left = shell.run(command, MOMENT)?.stdout;
            Ok(left.trim().is_empty())
        });
        gone.with_context(|| format!("still {what}: {left}"))?;
    }
    note(guest, "after")?;
    for kind in ["files", "sysctl"] {
        let nr_lines = guest.check(&format!("wc -l <{NOTES}/before.{kind}"), MOMENT)?;
        let difference = guest.run(&format!("diff {NOTES}/before.{kind} {NOTES}/after.{kind}"), MOMENT)?;
        ensure!(difference.status == 0, "{kind} differ from before:\n{}", difference.stdout);
        println!("{nr_lines} {kind} are as before");
    }
    Ok(())
}

/// On a kernel that cannot: the packages install, the service runs and says so at once, and Scherzo cannot be turned
/// on.
pub(super) fn install_unsupported(guest: &mut Guest) -> Result<()> {
    install_revision(guest, 1)?;
    ensure_healthy(guest)?;
    let state = property(guest, "State")?;
    ensure!(state == "unsupported", "State is {state} right after installing");
    let refused = guest.run("scherzoctl enable", Duration::from_secs(30))?;
    ensure!(refused.status != 0, "it can be turned on");
    let status = guest.check("scherzoctl status", MOMENT)?;
    println!("scherzoctl status says:\n{status}");
    Ok(())
}

/// The app gives the service's reason, and finds what the doctor does.
pub(super) fn app_without_sched_ext(guest: &mut Guest) -> Result<()> {
    let reason = "This kernel has no sched_ext. Start a kernel built with CONFIG_SCHED_CLASS_EXT";
    use_app(guest, &format!("guest_app_refused.py '{reason}' 'Start one built with CONFIG_SCHED_CLASS_EXT'"))
}

/// The same for malformed type information.
pub(super) fn app_with_malformed_btf(guest: &mut Guest) -> Result<()> {
    let reason = "type information (BTF) is malformed, so no scheduler can be loaded";
    use_app(guest, &format!("guest_app_refused.py '{reason}' pahole 'Start another build'"))
}

/// Runs a script of the desktop scenarios in an active local session.
fn use_app(guest: &mut Guest, script: &str) -> Result<()> {
    let told = guest.check(&format!("{LOG_IN} python3 -B {SCRIPTS_DIR}/{script}"), APP_LIMIT)?;
    told.lines().filter(|line| line.starts_with("NOTE")).for_each(say);
    Ok(())
}

fn install_revision(guest: &mut Guest, revision: u32) -> Result<()> {
    let output = guest.check(&format!("{APT} install {PACKAGES_DIR}/{revision}/*.deb 2>&1"), PACKAGE_LIMIT)?;
    // Maintainer scripts can print errors and still succeed.
    let complaints: Vec<_> = output.lines().filter(|line| line.contains("failed") || line.contains("rror:")).collect();
    ensure!(complaints.is_empty(), "installing complained: {complaints:?}");
    Ok(())
}

fn ensure_healthy(guest: &mut Guest) -> Result<()> {
    let active = guest.run("systemctl is-active scherzod", MOMENT)?;
    ensure!(active.stdout.trim() == "active", "the service is {}{}", active.stdout.trim(), journal(guest));
    let failed = guest.check("systemctl list-units --failed --no-legend", MOMENT)?;
    ensure!(failed.is_empty(), "failed: {failed}");
    call(guest, "GetHistory", "u 1").map(drop)
}

fn ensure_as_left(guest: &mut Guest) -> Result<()> {
    for (name, value) in [("Enabled", "true"), ("RequestedMode", "fifo"), ("Mode", "fifo"), ("Preemption", "false")] {
        let now = property(guest, name)?;
        ensure!(now == value, "{name} was {value} and is {now}{}", journal(guest));
    }
    let slice = guest.check("scherzoctl config get base_slice_us", MOMENT)?;
    ensure!(slice.contains("4000"), "base_slice_us was 4000 and is {slice}");
    let kernel = kernel(guest)?;
    ensure!(kernel.state == "enabled" && kernel.ops.starts_with("scherzo"), "the kernel disagrees: {kernel:?}");
    ensure_responsive(guest)
}

fn note(guest: &mut Guest, name: &str) -> Result<()> {
    guest.check(&format!("NOTES={NOTES}; set -- {name}\n{NOTE}"), PACKAGE_LIMIT).map(drop)
}
