//! What a change costs: CONTRIBUTING.md says which files a counter, a setting, a mode, a policy and a D-Bus property
//! take. This adds one of each to a copy of the checkout by exactly these files, and builds and tests the copy. If another
//! file has to be edited, something there does not compile or a test fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ignore::WalkBuilder;
use scherzo_model::Mode;
use scherzo_model::statistics::Counter;
use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;

use crate::codegen;

const BPF: &str = "crates/engine/src/bpf/";

/// Run one after the other in the copy. Checking covers every crate, so that no match elsewhere lacks the new mode.
const COMMANDS: &[&[&str]] = &[
    &["run", "--package", "xtask", "--", "codegen"],
    &["check", "--workspace"],
    &[
        "test",
        "--quiet",
        "--package=scherzo-model",
        "--package=scherzo-wire",
        "--package=scherzo-policy",
        "--package=scherzo-catalogue",
        "--package=scherzo-supervisor",
        "--lib",
        "--tests",
    ],
    &["test", "--quiet", "--package=scherzo-daemon", "--lib", "config::"],
    &["test", "--quiet", "--package=scherzo-daemon", "--test=bus", "contract::"],
    &["test", "--quiet", "--package=xtask", "--bins", "codegen::"],
];

/// One kind of change.
struct Addition {
    /// As CONTRIBUTING.md calls it.
    what: &'static str,
    edits: Vec<Edit>,
}

/// A piece of text of one file, and what stands there afterwards.
struct Edit {
    /// A file, or a folder that ends in a slash, of which one file holds the text.
    file: &'static str,
    /// What is replaced. A new file has nothing.
    from: &'static str,
    to: String,
}

impl Edit {
    fn insert_before(file: &'static str, from: &'static str, text: &str) -> Self {
        Self { file, from, to: format!("{text}{from}") }
    }

    fn insert_after(file: &'static str, from: &'static str, text: &str) -> Self {
        Self { file, from, to: format!("{from}{text}") }
    }

    fn replace(file: &'static str, from: &'static str, to: &str) -> Self {
        Self { file, from, to: to.to_owned() }
    }

    fn apply(&self, tree: &Path) -> Result<()> {
        if self.from.is_empty() {
            return fs::write(tree.join(self.file), &self.to).with_context(|| format!("cannot write {}", self.file));
        }
        let file = self.find(tree)?;
        let text = fs::read_to_string(&file)?;
        ensure!(text.matches(self.from).count() == 1, "{} has not once {:?}", file.display(), self.from);
        fs::write(&file, text.replace(self.from, &self.to)).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The file that is edited.
    fn find(&self, tree: &Path) -> Result<PathBuf> {
        let path = tree.join(self.file);
        if !self.file.ends_with('/') {
            return Ok(path);
        }
        for entry in path.read_dir()? {
            let file = entry?.path();
            if fs::read_to_string(&file).is_ok_and(|text| text.contains(self.from)) {
                return Ok(file);
            }
        }
        anyhow::bail!("no file in {} has {:?}", self.file, self.from)
    }
}

/// Runs the commands in a copy that has one of each more.
pub(super) fn check(cache: &Cache, workspace: &Workspace<'_>) -> Result<()> {
    let copy = cache.path("cost-of-a-change");
    refresh(workspace.checkout(), &copy)?;
    for addition in additions(workspace.checkout())? {
        addition.apply(&copy)?;
    }
    let workspace = Workspace::open(cache, workspace.build_root(), &copy)?;
    for arguments in COMMANDS {
        let _lock = workspace.lock()?;
        let (command, rest) = arguments.split_first().context("a command has a name")?;
        let status = workspace.cargo(&[&[*command, "--offline", "--locked"], rest].concat())?.status()?;
        ensure!(status.success(), "with one of each more, cargo {} ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Makes the copy what the checkout is, but for what is generated. Files that are equal keep their time, so that cargo
/// builds again only what has changed since the last run.
fn refresh(checkout: &Path, copy: &Path) -> Result<()> {
    let files = files(checkout)?;
    for file in &files {
        let (from, to) = (checkout.join(file), copy.join(file));
        let text = fs::read(&from).with_context(|| format!("cannot read {file}"))?;
        let is_generated = codegen::files().iter().any(|(name, _)| name == file);
        if fs::read(&to).is_ok_and(|present| is_generated || present == text) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(&to, text)?;
        fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
    }
    remove_others(copy, copy, &files)
}

/// Removes what an earlier run has added, or what the checkout has lost since.
fn remove_others(copy: &Path, folder: &Path, keep: &BTreeSet<String>) -> Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(copy, &path, keep)?;
        } else if !path.strip_prefix(copy)?.to_str().is_some_and(|name| keep.contains(name)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The files of the checkout but those that `.gitignore` names, as paths from its top. Git itself is not asked: there is
/// none in the build root, and a source archive is no repository.
fn files(checkout: &Path) -> Result<BTreeSet<String>> {
    let mut walk = WalkBuilder::new(checkout);
    walk.standard_filters(false).git_ignore(true).require_git(false).filter_entry(|entry| entry.file_name() != ".git");
    let mut files = BTreeSet::new();
    for entry in walk.build() {
        let entry = entry.context("cannot list the checkout")?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            let name = entry.path().strip_prefix(checkout)?;
            files.insert(name.to_str().with_context(|| format!("{} is not UTF-8", name.display()))?.to_owned());
        }
    }
    Ok(files)
}

impl Addition {
    fn apply(&self, tree: &Path) -> Result<()> {
        self.edits.iter().try_for_each(|edit| edit.apply(tree)).with_context(|| format!("adding {}", self.what))
    }
}

fn additions(checkout: &Path) -> Result<Vec<Addition>> {
    Ok(vec![
        Addition { what: "A counter", edits: counter() },
        Addition { what: "A policy setting", edits: setting() },
        Addition { what: "A policy for study", edits: policy(checkout)? },
        Addition { what: "A mode", edits: mode(checkout)? },
        Addition { what: "A D-Bus property", edits: property() },
    ])
}

fn counter() -> Vec<Edit> {
    let number = Counter::ALL.len();
    let row = format!("                Trial = {number}, nr_trial, \"Times it was tried.\";\n");
    vec![
        Edit::insert_before("crates/model/src/statistics.rs", "            }\n            control {", &row),
        Edit::insert_after(BPF, "\ttctx->last_cpu = cpu;\n", "\tcount(SCHERZO_CNT_TRIAL);\n"),
    ]
}

fn setting() -> Vec<Edit> {
    let row = "                    trial_ms: u32 = 7, Number(1, 100), AtOnce, \"How long it is tried, in milliseconds: 1 to \
               100.\";\n";
    let read = "queued.account.turn(self.settings.base_slice_ns";
    vec![
        Edit::insert_before("crates/model/src/settings.rs", "                    auto_fifo: bool", row),
        Edit::insert_after("crates/policy/src/scherzo.rs", read, " + 0 * u64::from(self.settings.load.trial_ms)"),
    ]
}

fn policy(checkout: &Path) -> Result<Vec<Edit>> {
    let fifo = fs::read_to_string(checkout.join("crates/policy/src/fifo.rs"))?;
    let registry = "crates/policy/src/lib.rs";
    let row = "    \"trial\" => |with| trial::TrialPolicy::new(with.limits.nr_slots, with.settings);\n";
    Ok(vec![
        Edit::replace("crates/policy/src/trial.rs", "", &fifo.replace("FifoPolicy", "TrialPolicy")),
        Edit::insert_after(registry, "pub mod time;\n", "pub mod trial;\n"),
        Edit::insert_after(registry, "FifoPolicy::new(with.limits.nr_slots, with.settings);\n", row),
    ])
}

fn mode(checkout: &Path) -> Result<Vec<Edit>> {
    let entry = format!(
        "    Trial = {} {{
        name: \"trial\",
        text: \"As it is tried.\",
        title: gettext_noop(\"Trial\"),
        summary: gettext_noop(\"Tasks run as it is tried\"),
        short_title: None,
        suits: \"trying\",
        effect: \"As fifo\",
        cost: \"none\",
    }}
",
        Mode::ALL.len()
    );
    let icon = fs::read_to_string(checkout.join("data/icons/hicolor/symbolic/apps/scherzo-fifo-symbolic.svg"))?;
    let last = "        cost: \"background work takes longer, on purpose\",\n    }\n";
    Ok(vec![
        Edit::insert_after("crates/model/src/mode.rs", last, &entry),
        Edit::insert_after("crates/policy/src/scherzo.rs", "            Mode::Fifo", " | Mode::Trial"),
        Edit::replace(
            BPF,
            "\tif (word.mode != SCHERZO_MODE_LOW_POWER) {",
            "\tif (word.mode != SCHERZO_MODE_LOW_POWER && word.mode != SCHERZO_MODE_TRIAL) {",
        ),
        Edit::replace("data/icons/hicolor/symbolic/apps/scherzo-trial-symbolic.svg", "", &icon),
    ])
}

fn property() -> Vec<Edit> {
    let described = "    <!-- Trial: what is tried. -->
    <property name=\"Trial\" type=\"s\" access=\"read\">
      <annotation name=\"org.freedesktop.DBus.Property.EmitsChangedSignal\" value=\"const\"/>
    </property>

";
    let member = "    #[zbus(property(emits_changed_signal = \"const\"))]
    fn trial(&self) -> String {
        String::new()
    }

";
    let proxied = "    /// What is tried.
    #[zbus(property(emits_changed_signal = \"const\"))]
    fn trial(&self) -> zbus::Result<String>;

";
    vec![
        Edit::insert_before("dbus/org.scherzo.Scheduler1.xml", "    <!-- Version:", described),
        Edit::insert_before(
            "crates/daemon/src/bus.rs",
            "    #[zbus(property(emits_changed_signal = \"const\"))]\n    fn version(",
            member,
        ),
        Edit::insert_before("crates/api/src/proxy.rs", "    /// Version of the service.\n", proxied),
    ]
}

#[cfg(test)]
mod tests {
    use scherzo_model::settings;

    use super::*;

    const CONTRIBUTING: &str = include_str!("../../../../CONTRIBUTING.md");

    /// Without building: the texts are there, so that the check tells of the cost and not of its own age.
    #[test]
    fn one_of_each_can_be_added() {
        let copy = tempfile::tempdir().unwrap();
        let checkout = crate::checkout().unwrap();
        refresh(&checkout, copy.path()).unwrap();
        for addition in additions(&checkout).unwrap() {
            addition.apply(copy.path()).unwrap();
        }
        let text = |file: &str| fs::read_to_string(copy.path().join(file)).unwrap();
        assert!(text("crates/model/src/mode.rs").contains("Trial = 3 {"));
        assert!(text("crates/policy/src/trial.rs").contains("pub struct TrialPolicy"));
        refresh(&checkout, copy.path()).unwrap();
        assert!(!copy.path().join("crates/policy/src/trial.rs").exists(), "a later run begins anew");
        assert!(!text("crates/model/src/mode.rs").contains("Trial"));
    }

    #[test]
    fn what_is_built_and_what_git_keeps_are_not_copied() {
        let tree = tempfile::tempdir().unwrap();
        for file in [".gitignore", ".ci/run", "src/lib.rs", "target/debug/lib", ".git/HEAD"] {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if file == ".gitignore" { "/target\n" } else { "" }).unwrap();
        }
        let expected = [".ci/run", ".gitignore", "src/lib.rs"].map(str::to_owned);
        assert_eq!(files(tree.path()).unwrap(), BTreeSet::from(expected));
    }

    #[test]
    fn contributing_names_these_files_and_no_others() {
        for addition in additions(&crate::checkout().unwrap()).unwrap() {
            let files: BTreeSet<_> = addition.edits.iter().map(|edit| named(edit.file)).collect();
            let row = CONTRIBUTING.lines().find(|line| line.starts_with(&format!("| {} |", addition.what)));
            let cells: Vec<_> = row.expect(addition.what).split('|').map(str::trim).collect();
            let named: BTreeSet<_> = cells[4].split(", ").map(|file| file.trim_matches('`').to_owned()).collect();
            assert_eq!(named, files, "{}", addition.what);
            assert_eq!(cells[3], files.len().to_string(), "{}", addition.what);
        }
    }

    /// A file that is made anew stands for its folder.
    fn named(file: &str) -> String {
        let is_new = file.contains("trial");
        if is_new { format!("{}/", file.rsplit_once('/').unwrap().0) } else { file.to_owned() }
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_an_error() {
        let tree = tempfile::tempdir().unwrap();
        fs::write(tree.path().join("a"), "x x").unwrap();
        assert!(Edit::replace("a", "x", "y").apply(tree.path()).is_err());
        assert!(Edit::replace("a", "z", "y").apply(tree.path()).is_err());
        Edit::replace("a", "x x", "y").apply(tree.path()).unwrap();
        assert_eq!(fs::read_to_string(tree.path().join("a")).unwrap(), "y");
    }

    #[test]
    fn trial_names_are_free() {
        assert!(settings::all().all(|setting| setting.key != "trial_ms"));
        assert_eq!(Mode::from_name("trial"), None);
    }
}
