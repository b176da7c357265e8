//! Other services that load schedulers, found by the owners of their names on the bus, whatever their units are called.

use scherzo_api::catalogue::gettext_noop;
use scherzo_host::{Finding, Root, Severity};
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::names::BusName;

/// scx_loader, which scxctl and scx-manager talk to.
const NAMES: [&str; 1] = ["org.scx.Loader"];

/// Longest name of a unit, see systemd.unit(5).
const MAX_UNIT_BYTES: usize = 255;

/// A program that owns such a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    name: &'static str,
    pid: u32,
}

/// Asks the bus, which does not start anybody for that.
pub async fn find(bus: &Connection) -> Vec<Rival> {
    let mut rivals = Vec::new();
    let Ok(proxy) = DBusProxy::new(bus).await else { return rivals };
    for name in NAMES {
        let Ok(owned) = BusName::from_static_str(name) else { continue };
        if let Ok(pid) = proxy.get_connection_unix_process_id(owned).await {
            rivals.push(Rival { name, pid });
        }
    }
    rivals
}

impl Rival {
    /// What to tell about it.
    #[must_use]
    pub fn finding(&self, root: &Root) -> Finding {
        if let Some(unit) = self.unit(root) {
            return scherzo_host::rival_units(&unit);
        }
        let text = gettext_noop(
            "Another service that loads schedulers is running: process {pid}, which owns the name {name} on the bus. Stop it.",
        );
        let finding = Finding::new("rivals/owns-name", Severity::Warning, text);
        finding.with("pid", self.pid.to_string()).with("name", self.name)
    }

    /// The unit that its control group is named after. Whoever may make groups chooses their names, and people copy this one into
    /// a command: what systemd would not take as a name is none.
    fn unit(&self, root: &Root) -> Option<String> {
        let groups = std::fs::read_to_string(root.path(format!("proc/{}/cgroup", self.pid))).ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let unit = path.rsplit('/').find(|part| part.ends_with(".service"))?;
        is_unit_name(unit).then(|| unit.to_owned())
    }
}

/// What names of units consist of, see systemd.unit(5).
fn is_unit_name(name: &str) -> bool {
    let is_valid = |char: char| char.is_ascii_alphanumeric() || ":-_.\\@".contains(char);
    name.len() <= MAX_UNIT_BYTES && name.chars().all(is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_named_by_its_unit_or_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let (root, rival) = (Root::new(directory.path()), Rival { name: NAMES[0], pid: 7 });
        assert!(rival.finding(&root).text.contains("process 7, which owns the name org.scx.Loader"));
        std::fs::create_dir_all(root.path("proc/7")).unwrap();
        std::fs::write(root.path("proc/7/cgroup"), "0::/system.slice/schedulers.service\n").unwrap();
        assert!(rival.finding(&root).text.contains("disable --now schedulers.service"));
    }

    #[test]
    fn a_group_whose_name_is_no_units_is_not_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let (root, rival) = (Root::new(directory.path()), Rival { name: NAMES[0], pid: 7 });
        std::fs::create_dir_all(root.path("proc/7")).unwrap();
        let text = |group: &str| {
            std::fs::write(root.path("proc/7/cgroup"), format!("0::/system.slice/{group}\n")).unwrap();
            rival.finding(&root).text
        };
        let long = format!("{}.service", "x".repeat(MAX_UNIT_BYTES));
        for group in ["\u{1b}[31mred.service", "a\u{7}.service", "a; reboot.service", "`reboot`.service", &long] {
            let said = text(group);
            assert!(
                said.contains("process 7,") && !said.contains(char::is_control) && !said.contains("reboot"),
                "{said}"
            );
        }
        assert!(text("dbus-:1.2-org.scx\\x2dx@0.service").contains("--now dbus-:1.2-org.scx\\x2dx@0.service"));
    }
}
