use std::collections::BTreeSet;

use tempfile::TempDir;

use super::*;

fn checkout() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Stand-ins for what is built, and the checkout's own files.
fn everything(layout: &Layout) -> Vec<Item> {
    let dirs: [TempDir; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [programs_dir, generated, languages] = dirs.each_ref().map(TempDir::path);
    for name in programs().1 {
        fs::write(programs_dir.join(name), name).unwrap();
    }
    for name in ["scherzoctl.1", "scherzoctl-run.1", "scherzoctl.bash", "_scherzoctl", "scherzoctl.elv"] {
        fs::write(generated.join(name), name).unwrap();
    }
    fs::write(languages.join("de.mo"), "").unwrap();
    fs::create_dir(languages.join("merged")).unwrap();
    fs::write(languages.join("merged/org.scherzo.Tray.desktop"), "Name[de]=Translated").unwrap();
    items(&Sources { checkout: checkout(), programs: programs_dir, generated, languages }, layout).unwrap()
}

fn find<'a>(items: &'a [Item], path: &str) -> &'a Item {
    items.iter().find(|item| item.path == Path::new(path)).unwrap_or_else(|| panic!("{path} is not installed"))
}

#[test]
fn files_go_where_the_system_looks() {
    let items = everything(&Layout::default());
    for (part, path) in [
        (Part::Ctl, "/usr/bin/scherzoctl"),
        (Part::Daemon, "/usr/libexec/scherzod"),
        (Part::Daemon, "/usr/lib/systemd/system/scherzod.service"),
        (Part::Daemon, "/usr/share/dbus-1/system-services/org.scherzo.Scheduler1.service"),
        (Part::Daemon, "/usr/share/dbus-1/system.d/org.scherzo.Scheduler1.conf"),
        (Part::Daemon, "/usr/share/polkit-1/actions/org.scherzo.Scheduler1.policy"),
        (Part::Ctl, "/usr/share/man/man1/scherzoctl-run.1"),
        (Part::Daemon, "/usr/share/man/man8/scherzod.8"),
        (Part::Ctl, "/usr/share/bash-completion/completions/scherzoctl"),
        (Part::Ctl, "/usr/share/zsh/site-functions/_scherzoctl"),
        (Part::GnomeShell, "/usr/share/gnome-shell/extensions/scherzo@scherzo.org/metadata.json"),
        (Part::GnomeShell, "/usr/share/gnome-shell/extensions/scherzo@scherzo.org/org.scherzo.Scheduler1.xml"),
        (Part::Common, "/usr/share/icons/hicolor/symbolic/apps/scherzo-off-symbolic.svg"),
        (Part::Common, "/usr/share/locale/de/LC_MESSAGES/scherzo.mo"),
    ] {
        assert_eq!(find(&items, path).part, part, "{path}");
    }
    assert_eq!(find(&items, "/usr/bin/scherzoctl").mode, 0o755);
    assert_eq!(find(&items, "/usr/share/scherzo/scherzo.toml").mode, 0o644);
    assert_eq!(find(&items, "/usr/share/applications/org.scherzo.Tray.desktop").content, b"Name[de]=Translated");
}

#[test]
fn no_file_is_in_two_parts_and_every_part_has_one() {
    let items = everything(&Layout::default());
    let paths: BTreeSet<_> = items.iter().map(|item| &item.path).collect();
    assert_eq!(paths.len(), items.len());
    assert_eq!(items.iter().map(|item| item.part).collect::<BTreeSet<_>>(), PARTS.iter().copied().collect());
}

#[test]
fn directories_can_be_moved_and_files_follow() {
    let layout = Layout { libexec: "/usr/lib/scherzo".into(), ..Layout::default() };
    let items = everything(&layout);
    let unit = &find(&items, "/usr/lib/systemd/system/scherzod.service").content;
    assert!(str::from_utf8(unit).unwrap().contains("ExecStart=/usr/lib/scherzo/scherzod\n"));
    find(&items, "/usr/lib/scherzo/scherzo-engine");
}

#[test]
fn what_the_system_must_find_is_where_it_looks_whatever_the_prefix() {
    let local = everything(&Layout::below("/usr/local"));
    find(&local, "/usr/local/lib/systemd/system/scherzod.service");
    let elsewhere = everything(&Layout::below("/opt/scherzo"));
    for path in [
        "/opt/scherzo/bin/scherzoctl",
        "/usr/local/lib/systemd/system/scherzod.service",
        "/usr/local/share/dbus-1/system-services/org.scherzo.Scheduler1.service",
    ] {
        find(&elsewhere, path);
    }
    for items in [&local, &elsewhere] {
        find(items, "/etc/dbus-1/system.d/org.scherzo.Scheduler1.conf");
        find(items, "/usr/share/polkit-1/actions/org.scherzo.Scheduler1.policy");
    }
    assert!(Layout::below("relative").check().is_err());
}

#[test]
fn no_file_names_a_directory_that_may_be_moved() {
    let layout = Layout::below("/opt/scherzo");
    for item in everything(&layout) {
        let text = String::from_utf8_lossy(&item.content);
        for fixed in ["/usr/libexec", "/usr/bin/scherzo", "/usr/share/scherzo", "@libexecdir@", "@bindir@", "@datadir@"]
        {
            assert!(!text.contains(fixed), "{} names {fixed}", item.path.display());
        }
    }
}

#[test]
fn nothing_is_forgotten() {
    for folder in ["data", "dbus"] {
        for entry in fs::read_dir(checkout().join(folder)).unwrap() {
            let path = format!("{folder}/{}", entry.unwrap().file_name().display());
            let listed = FILES.iter().any(|(_, file, _)| *file == path || file.starts_with(&format!("{path}/")));
            assert!(listed, "{path} has no place in an installation: name one in crates/install/src/files.rs");
        }
    }
}

/// All paths below a directory.
fn tree(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        }
        found.insert(path.display().to_string());
    }
    found
}

#[test]
fn what_is_installed_can_be_removed_and_nothing_else_is() {
    let system = tempfile::tempdir().unwrap();
    fs::create_dir_all(system.path().join("usr/local/share/applications")).unwrap();
    fs::create_dir_all(system.path().join("usr/local/bin")).unwrap();
    fs::write(system.path().join("usr/local/bin/other"), "").unwrap();
    let before = tree(system.path());
    let layout = Layout::below("/usr/local");
    let items = everything(&layout);
    record::install(&items, &layout, system.path()).unwrap();
    assert!(system.path().join("usr/local/bin/scherzoctl").is_file());
    // A later version without the tray.
    let later: Vec<_> = items.iter().filter(|item| item.part != Part::Tray).cloned().collect();
    record::install(&later, &layout, system.path()).unwrap();
    assert!(!system.path().join("usr/local/bin/scherzo-tray").exists());
    assert_eq!(record::uninstall(&layout, system.path()).unwrap(), later.len() + 1);
    assert_eq!(tree(system.path()), before);
    assert_eq!(record::uninstall(&layout, system.path()).unwrap(), 0);
}
