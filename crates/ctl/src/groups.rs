//! Control groups, by their paths in the default hierarchy.

use std::fmt::Display;
use std::path::Path;

use scherzo_i18n::gettext;

use crate::cli::OWN_GROUP;
use crate::failure::{Failure, Kind};

/// Where the hierarchy is.
const TREE: &str = "/sys/fs/cgroup";

/// The group that a person names: by its path, or the one that this program is in, and what it starts.
pub(crate) fn named(group: &str) -> Result<String, Failure> {
    if group != OWN_GROUP {
        return Ok(group.to_owned());
    }
    of_process(OWN_GROUP).ok_or_else(|| {
        let sentence = gettext("There is no hierarchy of control groups, version 2, in /sys/fs/cgroup.");
        Failure::new(Kind::NotSupported, sentence)
    })
}

/// The group that this process is in.
pub(crate) fn of_process(process: impl Display) -> Option<String> {
    of_process_by(&std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?)
}

fn of_process_by(list: &str) -> Option<String> {
    list.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// The group of a unit, which is a directory of the hierarchy. In tests that is not mounted at the root.
pub(crate) fn of_unit(unit: &Path) -> Option<String> {
    unit.to_str()?.split_once(TREE).map(|(_, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_that_of_the_default_hierarchy() {
        let hybrid = "12:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/user.slice/c.scope\n";
        assert_eq!(of_process_by(hybrid).as_deref(), Some("/user.slice/c.scope"));
        assert_eq!(of_process_by("2:cpu:/a\n"), None);
    }

    #[test]
    fn the_group_of_a_unit_is_its_place_in_the_hierarchy() {
        let unit = "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice/app-x-1.scope";
        assert_eq!(of_unit(Path::new(unit)).as_deref(), unit.strip_prefix(TREE));
        assert_eq!(of_unit(Path::new("com.feralinteractive.GameMode/7")), None);
    }

    #[test]
    fn a_group_is_named_by_its_path() {
        assert_eq!(named("/user.slice").unwrap(), "/user.slice");
    }
}
