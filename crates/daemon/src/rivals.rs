//! Other services that load schedulers, found by the owners of their names on the bus, whatever their units are called.

use scherzo_api::catalogue::gettext_noop;
use scherzo_host::{Finding, Root, Severity};
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::names::BusName;

/// scx_loader, which scxctl and scx-manager talk to.
const NAMES: [&str; 1] = ["org.scx.Loader"];

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

    /// The unit that its control group is named after.
    fn unit(&self, root: &Root) -> Option<String> {
        let groups = std::fs::read_to_string(root.path(format!("proc/{}/cgroup", self.pid))).ok()?;
        let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
        let unit = path.rsplit('/').find(|part| part.ends_with(".service"))?;
        Some(unit.to_owned())
    }
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
}
