//! Whether this host can run a sched_ext scheduler, and what to do if not.
//!
//! Every check reads files only, so that it works before any service runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::btf;
use crate::{Root, SchedExt, SchedExtState, compact_unevictable, kernel};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// It may do harm.
    Warning,
    /// Scherzo cannot run like this.
    Error,
}

impl Severity {
    /// The stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable name of the text: that of the check, a slash, and which of its texts this is.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was found, and what to do about it.
    pub text: String,
    /// What the text is about, by name.
    pub arguments: Vec<(&'static str, String)>,
}

impl Finding {
    /// Stable name of the check.
    #[must_use]
    pub fn check(&self) -> &'static str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// A finding; `{name}` in the text stands for the argument of that name.
    pub fn new(id: &'static str, severity: Severity, text: impl Into<String>) -> Self {
        Self { id, severity, text: text.into(), arguments: Vec::new() }
    }

    /// Adds an argument, and puts it into the text. What varies in a text must be an argument, so that clients can take
    /// it out again and translate the rest.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.text = self.text.replace(&format!("{{{name}}}"), &value);
        self.arguments.push((name, value));
        self
    }
}

/// Marks a text for translation, which clients do.
#[must_use]
pub const fn gettext_noop(text: &'static str) -> &'static str {
    text
}

/// What a loaded scheduler's name begins with if it is ours.
pub(crate) const OWN_OPS: &str = "scherzo";
/// What must be in the kernel's configuration.
const OPTIONS: [&str; 4] = ["CONFIG_SCHED_CLASS_EXT", "CONFIG_BPF_SYSCALL", "CONFIG_BPF_JIT", "CONFIG_DEBUG_INFO_BTF"];
/// Services that load schedulers.
const RIVALS: [&str; 3] = ["scx.service", "scx_loader.service", "scx-loader.service"];
/// Services that offer power sources or power profiles.
const POWER_DAEMONS: [&str; 5] = [
    "upower.service",
    "power-profiles-daemon.service",
    "tuned-ppd.service",
    "tlp-pd.service",
    "com.system76.PowerDaemon.service",
];
/// Capabilities that the service needs, with their numbers in `linux/capability.h`.
const CAPABILITIES: [(&str, u32); 3] = [("CAP_BPF", 39), ("CAP_PERFMON", 38), ("CAP_IPC_LOCK", 14)];
/// Files that nobody but root may change.
const PROTECTED: [&str; 4] =
    ["etc/scherzo", "etc/scherzo/scherzo.toml", "etc/scherzo/scherzo.toml.d", "var/lib/scherzo"];
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Checks the host.
#[must_use]
pub fn diagnose(root: &Root) -> Vec<Finding> {
    let always = [sched_ext(root), type_information(root), rivals(root), power_daemons(root), files(root)];
    always.into_iter().chain(config(root)).chain(lockdown(root)).chain(compaction(root)).collect()
}

/// Checks the rights and limits of this very process, which is to be the service.
#[must_use]
pub fn diagnose_self(root: &Root) -> Vec<Finding> {
    [capabilities, locked_memory].iter().filter_map(|check| check(root)).collect()
}

fn sched_ext(root: &Root) -> Finding {
    let release = kernel::release(root).unwrap_or_else(|_| "of unknown version".to_owned());
    let finding = match SchedExt::read(root) {
        Err(error) => Finding::new(
            "sched-ext/unreadable",
            Severity::Error,
            gettext_noop("The kernel does not say what it schedules: {error}."),
        )
        .with("error", error.to_string()),
        Ok(None) => Finding::new(
            "sched-ext/missing",
            Severity::Error,
            gettext_noop(
                "The kernel {release} has no sched_ext. Start one built with CONFIG_SCHED_CLASS_EXT (6.12 or later).",
            ),
        ),
        Ok(Some(SchedExt { ops: Some(ops), .. })) if !ops.starts_with(OWN_OPS) => Finding::new(
            "sched-ext/foreign",
            Severity::Error,
            gettext_noop("Another scheduler, {ops}, is loaded. Stop what loads it; it is left alone until then."),
        )
        .with("ops", ops),
        Ok(Some(SchedExt { ops: Some(ops), .. })) => {
            Finding::new("sched-ext/loaded", Severity::Good, gettext_noop("The scheduler {ops} is loaded."))
                .with("ops", ops)
        }
        Ok(Some(SchedExt { phase: SchedExtState::Disabled, .. })) => Finding::new(
            "sched-ext/idle",
            Severity::Good,
            gettext_noop("The kernel {release} has sched_ext, and nothing is loaded."),
        ),
        Ok(Some(_)) => Finding::new(
            "sched-ext/changing",
            Severity::Note,
            gettext_noop("A scheduler is being loaded or unloaded. Look again."),
        ),
    };
    finding.with("release", release)
}

fn config(root: &Root) -> Option<Finding> {
    let release = kernel::release(root).ok()?;
    let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
    let Some(text) = places.iter().find_map(|place| root.read(place).ok()) else {
        return Some(Finding::new(
            "kernel-config/unreadable",
            Severity::Note,
            gettext_noop("The kernel's configuration file cannot be read, so it is not checked."),
        ));
    };
    let missing = missing_options(&text);
    Some(if missing.is_empty() {
        Finding::new(
            "kernel-config/complete",
            Severity::Good,
            gettext_noop("The kernel is configured for sched_ext and BPF."),
        )
    } else {
        let missing = missing.join(", ");
        Finding::new(
            "kernel-config/incomplete",
            Severity::Error,
            gettext_noop("The kernel was built without {missing}. Start another one."),
        )
        .with("missing", missing)
    })
}

/// What a kernel's configuration lacks for sched_ext.
#[must_use]
pub fn missing_options(config: &str) -> Vec<&'static str> {
    let is_on = |option: &str| config.lines().any(|line| line.strip_prefix(option) == Some("=y"));
    OPTIONS.into_iter().filter(|option| !is_on(option)).collect()
}

fn type_information(root: &Root) -> Finding {
    let problem = |id, text| Finding::new(id, Severity::Error, text);
    match btf::read(root) {
        Err(error) => problem("btf/unreadable", gettext_noop(
            "The kernel's type information (BTF) cannot be read: {error}. Start a kernel built with \
             CONFIG_DEBUG_INFO_BTF.",
        ))
        .with("error", error.to_string()),
        Ok(None) => problem("btf/damaged", gettext_noop(
            "The kernel's type information (BTF) is damaged. Start a kernel built with CONFIG_DEBUG_INFO_BTF.",
        )),
        Ok(Some(types)) if types.malformed_kfuncs.is_empty() => {
            Finding::new("btf/sound", Severity::Good, gettext_noop("The kernel's type information (BTF) is sound."))
        }
        Ok(Some(types)) => problem("btf/malformed", gettext_noop(
            "The kernel's type information (BTF) is malformed, so that no scheduler can be loaded: it shows a hidden \
             argument of {functions}. The kernel was built with pahole older than 1.26. Start another build.",
        ))
        .with("functions", types.malformed_kfuncs.join(", ")),
    }
}

fn lockdown(root: &Root) -> Option<Finding> {
    // Without the file there is no lockdown.
    let text = root.read("sys/kernel/security/lockdown").ok()?;
    let level = text.split_once('[')?.1.split_once(']')?.0.to_owned();
    Some(if level == "confidentiality" {
        Finding::new(
            "lockdown/forbids",
            Severity::Error,
            gettext_noop(
                "Kernel lockdown is at \"confidentiality\", which forbids BPF to read kernel memory. \
                 Start with lockdown=integrity or without it.",
            ),
        )
        .with("level", level)
    } else {
        Finding::new("lockdown/allows", Severity::Good, gettext_noop("Kernel lockdown ({level}) does not forbid BPF."))
            .with("level", level)
    })
}

/// Loading turns it off, and the service turns it off once more: whoever turns it on then means it.
fn compaction(root: &Root) -> Option<Finding> {
    let is_ours = |kernel: &SchedExt| kernel.ops.as_ref().is_some_and(|ops| ops.starts_with(OWN_OPS));
    SchedExt::read(root).ok()?.filter(is_ours)?;
    compact_unevictable(root).ok()?.filter(|value| *value != 0)?;
    Some(Finding::new(
        "compaction/on",
        Severity::Warning,
        gettext_noop(
            "Something has turned vm.compact_unevictable_allowed on while the scheduler runs, which makes its engine \
             wait for memory. Look for it in /etc/sysctl.d and leave it off.",
        ),
    ))
}

/// A unit that runs has a control group.
fn running<const N: usize>(root: &Root, units: [&'static str; N]) -> String {
    let is_running = |unit: &&str| root.path("sys/fs/cgroup/system.slice").join(unit).is_dir();
    units.into_iter().filter(is_running).collect::<Vec<_>>().join(" ")
}

fn rivals(root: &Root) -> Finding {
    let units = running(root, RIVALS);
    if units.is_empty() {
        Finding::new("rivals/none", Severity::Good, gettext_noop("No other service that loads schedulers is running."))
    } else {
        rival_units(&units)
    }
}

/// These units load schedulers, and run.
#[must_use]
pub fn rival_units(units: &str) -> Finding {
    let text = gettext_noop(
        "Another service that loads schedulers is running. `sudo systemctl disable --now {units}` stops it.",
    );
    Finding::new("rivals/running", Severity::Warning, text).with("units", units)
}

fn power_daemons(root: &Root) -> Finding {
    let units = running(root, POWER_DAEMONS);
    if units.is_empty() {
        Finding::new(
            "power-daemons/none",
            Severity::Note,
            gettext_noop(
                "Neither UPower nor a power-profiles daemon is running, so the mode does not follow battery and profile.",
            ),
        )
    } else {
        Finding::new("power-daemons/found", Severity::Good, gettext_noop("The mode can follow {units}."))
            .with("units", units)
    }
}

fn files(root: &Root) -> Finding {
    let paths = PROTECTED.into_iter().map(PathBuf::from).chain(engine(root));
    let is_open =
        |path: &PathBuf| fs::metadata(root.path(path)).is_ok_and(|about| about.mode() & WRITABLE_BY_OTHERS != 0);
    let open: Vec<_> = paths.filter(is_open).map(|path| format!("/{}", path.display())).collect();
    if open.is_empty() {
        Finding::new(
            "files/protected",
            Severity::Good,
            gettext_noop("Nobody but their owner may change Scherzo's files."),
        )
    } else {
        let open = open.join(" ");
        let text = gettext_noop("Other users may change Scherzo's files. `sudo chmod go-w {files}` stops that.");
        Finding::new("files/writable", Severity::Warning, text).with("files", open)
    }
}

/// The engine, which lies beside the service if this program is that.
fn engine(root: &Root) -> Option<PathBuf> {
    let program = fs::read_link(root.path("proc/self/exe")).ok()?;
    Some(program.with_file_name("scherzo-engine").strip_prefix("/").ok()?.to_owned())
}

fn capabilities(root: &Root) -> Option<Finding> {
    let status = root.read("proc/self/status").ok()?;
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let held = u64::from_str_radix(held.trim(), 16).ok()?;
    let lacks = |(_, number): &(&str, u32)| held & (1 << number) == 0;
    let missing: Vec<_> = CAPABILITIES.into_iter().filter(lacks).map(|(name, _)| name).collect();
    Some(if missing.is_empty() {
        Finding::new("capabilities/held", Severity::Good, gettext_noop("The service has the capabilities it needs."))
    } else {
        let missing = missing.join(" ");
        let text = gettext_noop(
            "The service lacks {missing}. Reinstall its unit, and look for drop-ins with `systemctl cat scherzod`.",
        );
        Finding::new("capabilities/missing", Severity::Error, text).with("missing", missing)
    })
}

fn locked_memory(root: &Root) -> Option<Finding> {
    let limits = root.read("proc/self/limits").ok()?;
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?.split_whitespace().next()?;
    Some(if soft == "unlimited" {
        Finding::new(
            "locked-memory/unlimited",
            Severity::Good,
            gettext_noop("The service may lock as much memory as it needs."),
        )
    } else {
        let text = gettext_noop(
            "The service may lock {bytes} bytes of memory, which some kernels find too little. \
             Its unit should say LimitMEMLOCK=infinity.",
        );
        Finding::new("locked-memory/limited", Severity::Warning, text).with("bytes", soft)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::tests::with_functions;
    use crate::root::tests::tree;

    const BTF: &str = "sys/kernel/btf/vmlinux";

    fn severity(findings: &[Finding], id: &str) -> Option<Severity> {
        findings.iter().find(|finding| finding.check() == id).map(|finding| finding.severity)
    }

    #[test]
    fn a_good_host_has_no_complaint() {
        let options =
            "# x\nCONFIG_SCHED_CLASS_EXT=y\nCONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\nCONFIG_DEBUG_INFO_BTF=y\n";
        let (dir, root) = tree(&[
            ("proc/sys/kernel/osrelease", "6.18.1\n"),
            ("boot/config-6.18.1", options),
            ("sys/kernel/sched_ext/state", "disabled\n"),
            ("sys/kernel/sched_ext/enable_seq", "0\n"),
            ("sys/kernel/sched_ext/switch_all", "0\n"),
            ("sys/kernel/sched_ext/nr_rejected", "0\n"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
            ("sys/fs/cgroup/system.slice/upower.service/cgroup.procs", "1\n"),
            ("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n"),
            ("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n"),
        ]);
        fs::create_dir_all(dir.path().join("sys/kernel/btf")).unwrap();
        fs::write(dir.path().join(BTF), with_functions(&[("scx_bpf_kick_cpu", &["cpu", "flags"])])).unwrap();
        let findings = [diagnose(&root), diagnose_self(&root)].concat();
        assert_eq!(findings.len(), 9);
        assert!(findings.iter().all(|finding| finding.severity == Severity::Good), "{findings:#?}");
        assert!(findings.iter().all(|finding| !finding.text.contains('{')), "{findings:#?}");
    }

    #[test]
    fn a_bad_host_is_told_what_to_do() {
        let (dir, root) = tree(&[
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("boot/config-6.1.0", "CONFIG_BPF_SYSCALL=y\n# CONFIG_BPF_JIT is not set\n"),
            ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n"),
            ("sys/fs/cgroup/system.slice/scx.service/cgroup.procs", "1\n"),
            ("etc/scherzo/scherzo.toml", ""),
            ("proc/self/status", "CapEff:\t0000000000000000\n"),
            ("proc/self/limits", "Max locked memory         8388608              8388608              bytes\n"),
        ]);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        fs::set_permissions(dir.path().join("etc/scherzo/scherzo.toml"), open).unwrap();
        let findings = [diagnose(&root), diagnose_self(&root)].concat();
        for id in ["sched-ext", "kernel-config", "btf", "lockdown", "capabilities"] {
            assert_eq!(severity(&findings, id), Some(Severity::Error), "{id}");
        }
        for id in ["rivals", "files", "locked-memory"] {
            assert_eq!(severity(&findings, id), Some(Severity::Warning), "{id}");
        }
        assert_eq!(severity(&findings, "power-daemons"), Some(Severity::Note));
        assert!(findings.iter().all(|finding| !finding.text.contains('{')), "{findings:#?}");
    }

    #[test]
    fn locked_memory_that_moves_is_told_while_our_scheduler_runs() {
        let files = |ops, setting| {
            [
                ("sys/kernel/sched_ext/state", "enabled\n"),
                ("sys/kernel/sched_ext/root/ops", ops),
                ("sys/kernel/sched_ext/enable_seq", "1\n"),
                ("sys/kernel/sched_ext/switch_all", "1\n"),
                ("sys/kernel/sched_ext/nr_rejected", "0\n"),
                ("proc/sys/vm/compact_unevictable_allowed", setting),
            ]
        };
        let told = |ops, setting| severity(&diagnose(&tree(&files(ops, setting)).1), "compaction");
        assert_eq!(told("scherzo_1\n", "1\n"), Some(Severity::Warning));
        assert_eq!(told("scherzo_1\n", "0\n"), None);
        assert_eq!(told("other\n", "1\n"), None);
    }

    #[test]
    fn malformed_type_information_is_told_from_missing() {
        let (dir, root) = tree(&[]);
        assert!(type_information(&root).text.contains("cannot be read"));
        fs::create_dir_all(dir.path().join("sys/kernel/btf")).unwrap();
        fs::write(dir.path().join(BTF), "no such thing").unwrap();
        assert!(type_information(&root).text.contains("damaged"));
        fs::write(dir.path().join(BTF), with_functions(&[("scx_bpf_kick_cpu", &["cpu", "flags", "aux"])])).unwrap();
        let finding = type_information(&root);
        assert!(finding.severity == Severity::Error && finding.text.contains("pahole"), "{finding:?}");
        assert_eq!(finding.arguments, [("functions", "scx_bpf_kick_cpu".to_owned())]);
    }

    #[test]
    fn this_very_host_can_be_looked_at() {
        assert!(diagnose(&Root::default()).len() >= 6);
        assert_eq!(diagnose_self(&Root::default()).len(), 2);
    }
}
