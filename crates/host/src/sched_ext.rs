use crate::root::printable;
use crate::{Error, Root};

const DIR: &str = "sys/kernel/sched_ext";
/// The kernel's limit for a name (`SCX_OPS_NAME_LEN`).
const MAX_NAME_CHARS: usize = 128;

/// What the kernel's sched_ext core is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedExtState {
    /// The kernel's own scheduler runs alone.
    Disabled,
    /// A scheduler is being loaded.
    Enabling,
    /// A scheduler is loaded.
    Enabled,
    /// A scheduler is being unloaded.
    Disabling,
}

impl SchedExtState {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "disabled" => Self::Disabled,
            // Older kernels tell preparation and enabling apart.
            "prepping" | "enabling" => Self::Enabling,
            // While bypassing, the kernel schedules for the loaded scheduler, for example during suspend.
            "enabled" | "bypassing" => Self::Enabled,
            "disabling" => Self::Disabling,
            _ => return None,
        })
    }
}

/// The kernel's own account of sched_ext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedExt {
    /// What the core is doing.
    pub phase: SchedExtState,
    /// Name of the loaded operations, if any. Whoever loads them chooses it: control characters are replaced.
    pub ops: Option<String>,
    /// How many schedulers have been loaded since the kernel started.
    pub enable_seq: u64,
    /// True if every ordinary task is scheduled by the loaded scheduler.
    pub switch_all: bool,
    /// Tasks that were refused by a loaded scheduler.
    pub nr_rejected: u64,
}

impl SchedExt {
    /// Reads it; `None` if this kernel has no sched_ext.
    pub fn read(root: &Root) -> Result<Option<Self>, Error> {
        let state_file = format!("{DIR}/state");
        let Some(state) = root.read_if_present(&state_file)? else { return Ok(None) };
        let phase = SchedExtState::from_name(&state)
            .ok_or_else(|| root.unexpected(&state_file, &state, "a sched_ext state"))?;
        Ok(Some(Self {
            phase,
            ops: Self::read_ops(root)?,
            enable_seq: root.read_number(&format!("{DIR}/enable_seq"))?,
            switch_all: root.read_number::<u64>(&format!("{DIR}/switch_all"))? != 0,
            nr_rejected: root.read_number(&format!("{DIR}/nr_rejected"))?,
        }))
    }

    /// The directory of the loaded scheduler comes and goes at any time: its absence, also between opening and
    /// reading, means that nothing is loaded.
    fn read_ops(root: &Root) -> Result<Option<String>, Error> {
        match root.read_if_present(&format!("{DIR}/root/ops")) {
            Err(Error::Read { source, .. })
                if source.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) =>
            {
                Ok(None)
            }
            ops => Ok(ops?.filter(|name| !name.is_empty()).map(|name| printable(&name, MAX_NAME_CHARS))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    fn files<'a>(state: &'a str, ops: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let mut files = vec![
            ("sys/kernel/sched_ext/state", state),
            ("sys/kernel/sched_ext/enable_seq", "7\n"),
            ("sys/kernel/sched_ext/switch_all", "1\n"),
            ("sys/kernel/sched_ext/nr_rejected", "3\n"),
        ];
        files.extend(ops.map(|name| ("sys/kernel/sched_ext/root/ops", name)));
        files
    }

    #[test]
    fn a_loaded_scheduler_is_described() {
        let (_dir, root) = tree(&files("enabled\n", Some("scherzo_0.1.0\n")));
        let expected = SchedExt {
            phase: SchedExtState::Enabled,
            ops: Some("scherzo_0.1.0".into()),
            enable_seq: 7,
            switch_all: true,
            nr_rejected: 3,
        };
        assert_eq!(SchedExt::read(&root).unwrap(), Some(expected));
    }

    #[test]
    fn names_of_operations_are_not_trusted() {
        let ops = |name: &str| SchedExt::read(&tree(&files("enabled\n", Some(name))).1).unwrap().unwrap().ops.unwrap();
        assert_eq!(ops("lavd\u{1b}[31m\u{7}_1.0\n"), "lavd\u{fffd}[31m\u{fffd}_1.0");
        assert_eq!(ops(&"x".repeat(4_096)), "x".repeat(MAX_NAME_CHARS));
    }

    #[test]
    fn no_scheduler_and_no_sched_ext_differ() {
        let (_dir, root) = tree(&files("disabled\n", None));
        let idle = SchedExt::read(&root).unwrap().unwrap();
        assert_eq!((idle.phase, idle.ops), (SchedExtState::Disabled, None));
        let (_dir, root) = tree(&[]);
        assert_eq!(SchedExt::read(&root).unwrap(), None);
    }

    #[test]
    fn an_unknown_state_is_an_error() {
        let (_dir, root) = tree(&files("confused\n", None));
        assert!(SchedExt::read(&root).unwrap_err().to_string().contains("confused"));
    }

    #[test]
    fn every_known_state_is_understood() {
        for (name, phase) in [
            ("disabled", SchedExtState::Disabled),
            ("prepping", SchedExtState::Enabling),
            ("enabling", SchedExtState::Enabling),
            ("enabled", SchedExtState::Enabled),
            ("bypassing", SchedExtState::Enabled),
            ("disabling", SchedExtState::Disabling),
        ] {
            assert_eq!(SchedExtState::from_name(name), Some(phase));
        }
    }
}
