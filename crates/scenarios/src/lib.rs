//! Scenarios on desktops without a display: the installed product, used through its user interfaces.
//!
//! Each scenario is a Python script in `crates/scenarios/desktop`, because the accessibility tree, GNOME Shell and the
//! panels are easiest to use from Python. It runs as an ordinary user inside one of the desktop roots, with buses, a
//! home and a simulated kernel of its own; see `stage.py` there. All of it ends with the script's namespace.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use scherzo_rig::build::Workspace;
use scherzo_rig::cache::Cache;
use scherzo_rig::product;
use scherzo_rig::progress::say;
use scherzo_rig::report::{Report, Subject};
use scherzo_rig::roots::{self, Bind, DebianRoot, tail};

/// Where the scripts lie in the checkout.
pub const SCRIPTS: &str = "crates/scenarios/desktop";

/// The service of version 0.1.0, and where it lies beside the product.
const OLD_SERVICE: &str = "scherzod-of-0-1-0";
const OLD_SERVICE_DIR: &str = "of_0_1_0";
/// Scenarios that run side by side. Each has its own display, buses, network and files.
const NR_PARALLEL_SCENARIOS: usize = 2;

/// Mounts the product over the root's own files and temporary file systems over everything else that a script writes
/// to, then runs the script as an ordinary user, with a time limit.
const ENTER: &str = r#"
mount -t tmpfs tmpfs /mnt
mkdir /mnt/changes /mnt/work
mount -t overlay overlay -o lowerdir=/product/usr:/usr,upperdir=/mnt/changes,workdir=/mnt/work /usr
# What a package manager does after it has installed icons.
gtk-update-icon-cache --quiet --force /usr/share/icons/hicolor
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -m 1777 /tmp/.X11-unix
export HOME=/home/person XDG_RUNTIME_DIR=/run/user/1000 PYTHONDONTWRITEBYTECODE=1
mount -t tmpfs -o uid=1000,gid=1000 tmpfs $HOME
mkdir -p $XDG_RUNTIME_DIR
chown person: $XDG_RUNTIME_DIR
chmod 700 $XDG_RUNTIME_DIR
cd $HOME
# Not in place of this shell: a program that is the first of its namespace is treated differently. Without the host's
# network, because X servers find each other there by their numbers.
unshare --net setpriv --reuid=person --regid=person --clear-groups \
    timeout --kill-after=5 600 python3 "/scenarios/$@" || exit $?
"#;

/// Which root a scenario runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desktop {
    /// Debian 13: GNOME Shell 48, the toolkits, xfce4-panel.
    Today,
    /// The newest GNOME Shell there is.
    Next,
}

/// One thing that must hold on a desktop.
#[derive(Debug, Clone, Copy)]
pub struct DesktopScenario {
    /// Names it in the output.
    pub name: &'static str,
    /// Where it runs.
    pub desktop: Desktop,
    /// The script and its arguments.
    pub script: &'static [&'static str],
}

/// What `cargo xtask test desktop` runs.
pub const SCENARIOS: &[DesktopScenario] = &[
    DesktopScenario { name: "installed files/validators", desktop: Desktop::Today, script: &["validate.py"] },
    DesktopScenario { name: "app/controls", desktop: Desktop::Today, script: &["app_controls.py"] },
    DesktopScenario {
        name: "app/look in German",
        desktop: Desktop::Today,
        script: &["app_look.py", "de_DE.UTF-8", "light", "900"],
    },
    DesktopScenario {
        name: "app/look in Hebrew",
        desktop: Desktop::Today,
        script: &["app_look.py", "he_IL.UTF-8", "dark", "360"],
    },
    DesktopScenario { name: "app/pages", desktop: Desktop::Today, script: &["app_pages.py", "light", "900"] },
    DesktopScenario {
        name: "app/pages, narrow and dark",
        desktop: Desktop::Today,
        script: &["app_pages.py", "dark", "360"],
    },
    DesktopScenario { name: "app/killed while it compares", desktop: Desktop::Today, script: &["app_accident.py"] },
    DesktopScenario { name: "app/start", desktop: Desktop::Today, script: &["app_start.py"] },
    DesktopScenario { name: "app/service of 0.1.0", desktop: Desktop::Today, script: &["app_of_0_1_0.py"] },
    DesktopScenario { name: "app/icon in the panel", desktop: Desktop::Today, script: &["app_tray.py"] },
    DesktopScenario { name: "GNOME Shell/app", desktop: Desktop::Today, script: &["shell_app.py"] },
    DesktopScenario { name: "GNOME Shell/quick settings", desktop: Desktop::Today, script: &["shell_extension.py"] },
    DesktopScenario {
        name: "GNOME Shell/quick settings, service of 0.1.0",
        desktop: Desktop::Today,
        script: &["shell_of_0_1_0.py"],
    },
    DesktopScenario {
        name: "newest GNOME Shell/quick settings",
        desktop: Desktop::Next,
        script: &["shell_extension.py"],
    },
    DesktopScenario { name: "languages/as installed", desktop: Desktop::Today, script: &["languages.py"] },
    DesktopScenario { name: "panel/tray", desktop: Desktop::Today, script: &["tray_panel.py", "light"] },
    DesktopScenario { name: "dark panel/tray", desktop: Desktop::Today, script: &["tray_panel.py", "dark"] },
];

/// What `cargo xtask screenshots` runs: each leaves pictures behind.
pub const SCREENSHOTS: &[DesktopScenario] = &[
    DesktopScenario { name: "quick settings", desktop: Desktop::Today, script: &["shell_screenshot.py"] },
    DesktopScenario { name: "app", desktop: Desktop::Today, script: &["app_screenshot.py"] },
];

/// The desktop roots, and the product laid out as installed.
#[derive(Debug)]
pub struct Desktops {
    today: DebianRoot,
    next: DebianRoot,
    scripts: PathBuf,
    product: TempDir,
    pictures: PathBuf,
}

impl Desktops {
    /// Makes what is not in the cache yet, and builds the checkout. Scripts put pictures into `pictures`.
    pub fn prepare(cache: &Cache, workspace: &Workspace<'_>, pictures: &Path) -> Result<Self> {
        let (today, next) = make_roots(cache)?;
        let product = tempfile::Builder::new().prefix("scherzo-").tempdir()?;
        product::install(workspace, product.path())?;
        workspace.build(&["scherzo-test-bus"], &[OLD_SERVICE], &product.path().join(OLD_SERVICE_DIR))?;
        for dir in [product.path(), pictures] {
            fs::create_dir_all(dir)?;
            // The scripts run as another user.
            fs::set_permissions(dir, Permissions::from_mode(0o777))?;
        }
        let scripts = workspace.checkout().join(SCRIPTS);
        Ok(Self { today, next, scripts, product, pictures: pictures.canonicalize()? })
    }

    /// Runs scenarios, two at a time: each of them waits for most of its time.
    pub fn run(&self, scenarios: &[DesktopScenario], report: &Report) {
        for scenario in scenarios {
            report.plan(scenario.name);
        }
        let queue = Mutex::new(scenarios.iter());
        let play_all = || {
            while let Some(scenario) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                let started = Instant::now();
                report.note(Subject::Product, scenario.name, started, &self.play(scenario));
            }
        };
        thread::scope(|scope| {
            for _ in 0..NR_PARALLEL_SCENARIOS {
                scope.spawn(play_all);
            }
        });
    }

    fn play(&self, scenario: &DesktopScenario) -> Result<()> {
        let root = match scenario.desktop {
            Desktop::Today => &self.today,
            Desktop::Next => &self.next,
        };
        let binds = [
            Bind::new(&self.scripts, "/scenarios"),
            Bind::new(self.product.path(), "/product"),
            Bind::new(&self.pictures, "/pictures"),
        ];
        let mut command = root.command(&binds, "sh");
        let output = command.args(["-euc", ENTER, "sh"]).args(scenario.script).output()?;
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        for line in text.lines().filter(|line| line.starts_with("NOTE")) {
            say(line);
        }
        if !output.status.success() {
            bail!("{} ({}):\n{}", scenario.script.join(" "), output.status, tail(&text, 60));
        }
        Ok(())
    }
}

/// Both desktop roots, made side by side.
pub fn make_roots(cache: &Cache) -> Result<(DebianRoot, DebianRoot)> {
    thread::scope(|scope| {
        let next = scope.spawn(|| roots::next_desktop_root(cache));
        let today = roots::desktop_root(cache);
        let next = next.join().unwrap_or_else(|_| Err(anyhow!("making the root of the next desktop panicked")));
        Ok((today?, next.context("the newest GNOME Shell cannot be had")?))
    })
}
