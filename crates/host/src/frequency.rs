//! How the frequency of the CPUs is chosen.

use crate::Root;
use crate::topology::{CPUS, cpu_list};

/// The governor that goes by what the scheduler asks for.
const SCHEDUTIL: &str = "schedutil";

/// Whether the frequency of some CPU can be what the scheduler asks for: its driver lets that governor choose.
#[must_use]
pub fn frequency_can_follow_scheduler(root: &Root) -> bool {
    let governors = |cpu| root.read(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_available_governors"));
    let can = |cpu| governors(cpu).is_ok_and(|names| names.split_whitespace().any(|name| name == SCHEDUTIL));
    cpu_list(root, &format!("{CPUS}/online")).is_ok_and(|online| online.into_iter().any(can))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    #[test]
    fn a_driver_that_chooses_by_itself_does_not_ask() {
        let governors = |names| {
            let (_dir, root) = tree(&[
                ("sys/devices/system/cpu/online", "0-1"),
                ("sys/devices/system/cpu/cpu1/cpufreq/scaling_available_governors", names),
            ]);
            frequency_can_follow_scheduler(&root)
        };
        assert!(governors("conservative ondemand schedutil"));
        assert!(!governors("performance powersave"));
        let (_dir, root) = tree(&[("sys/devices/system/cpu/online", "0-1")]);
        assert!(!frequency_can_follow_scheduler(&root));
    }
}
