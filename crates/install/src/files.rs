//! The list: programs that cargo builds, files of the checkout, and what a built `scherzoctl` writes about itself.

use crate::layout::Dir::{self, Bin, BusActivation, BusPolicy, Data, Libexec, PolkitActions, Units, UserUnits, Zsh};

/// The packages that Scherzo is split into, which have the same names everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The service with its engine: all that schedules.
    Daemon,
    /// The command line.
    Ctl,
    /// The app.
    App,
    /// The applet for panels.
    Tray,
    /// The toggle in the quick settings of GNOME Shell.
    GnomeShell,
    /// Icons and languages, for all that people see.
    Common,
}

/// All of them.
pub const PARTS: &[Part] = &[Part::Daemon, Part::Ctl, Part::App, Part::Tray, Part::GnomeShell, Part::Common];

impl Part {
    /// The package's name.
    #[must_use]
    pub fn package(self) -> &'static str {
        match self {
            Self::Daemon => "scherzo-daemon",
            Self::Ctl => "scherzoctl",
            Self::App => "scherzo",
            Self::Tray => "scherzo-tray",
            Self::GnomeShell => "gnome-shell-extension-scherzo",
            Self::Common => "scherzo-common",
        }
    }

    /// The part that a package is.
    #[must_use]
    pub fn of_package(name: &str) -> Option<Self> {
        PARTS.iter().copied().find(|part| part.package() == name)
    }
}

const SHARE: Dir = Data("scherzo");
const MAN1: Dir = Data("man/man1");
const MAN8: Dir = Data("man/man8");
const BUS_INTERFACES: Dir = Data("dbus-1/interfaces");
const SESSION_ACTIVATION: Dir = Data("dbus-1/services");
const BASH_COMPLETIONS: Dir = Data("bash-completion/completions");
const FISH_COMPLETIONS: Dir = Data("fish/vendor_completions.d");
const APPLICATIONS: Dir = Data("applications");
const ICONS: Dir = Data("icons/hicolor/scalable/apps");
const SYMBOLIC_ICONS: Dir = Data("icons/hicolor/symbolic/apps");
const METAINFO: Dir = Data("metainfo");
/// For folders that are named as there.
const SHARE_TOP: Dir = Data("");
const GNOME_SHELL_EXTENSIONS: Dir = Data("gnome-shell/extensions");
const GNOME_SHELL_ICONS: Dir = Data("gnome-shell/extensions/scherzo@scherzo.org/icons");
const GNOME_SHELL_EXTENSION: Dir = Data("gnome-shell/extensions/scherzo@scherzo.org");

/// Programs: the part, the name, the directory.
pub(crate) const PROGRAMS: &[(Part, &str, Dir)] = &[
    // The service looks for the engine in its own directory.
    (Part::Daemon, "scherzod", Libexec),
    (Part::Daemon, "scherzo-engine", Libexec),
    (Part::Ctl, "scherzoctl", Bin),
    (Part::Ctl, "scherzo-bench", Bin),
    (Part::Tray, "scherzo-tray", Bin),
    (Part::App, "scherzo", Bin),
];

/// The crates that the programs are of, in the same order.
const CRATES: &[&str] =
    &["scherzo-daemon", "scherzo-engine", "scherzo-ctl", "scherzo-bench", "scherzo-tray", "scherzo-app"];

/// Files of the checkout, and folders that are installed with all that is in them, without their own name if that ends in
/// a slash. A file may have two places, where whoever reads it must be complete in itself.
pub(crate) const FILES: &[(Part, &str, Dir)] = &[
    (Part::Common, "crates/app/data/icons/org.scherzo.Scherzo-symbolic.svg", SYMBOLIC_ICONS),
    (Part::Common, "crates/app/data/icons/org.scherzo.Scherzo.svg", ICONS),
    (Part::App, "crates/app/data/org.scherzo.Scherzo.desktop", APPLICATIONS),
    (Part::App, "crates/app/data/org.scherzo.Scherzo.metainfo.xml", METAINFO),
    (Part::GnomeShell, "data/gnome-shell/scherzo@scherzo.org", GNOME_SHELL_EXTENSIONS),
    (Part::Common, "data/icons", SHARE_TOP),
    (Part::GnomeShell, "data/icons/hicolor/symbolic/apps/", GNOME_SHELL_ICONS),
    (Part::Daemon, "data/org.scherzo.Scheduler1.conf", BusPolicy),
    (Part::Daemon, "data/org.scherzo.Scheduler1.policy", PolkitActions),
    (Part::Daemon, "data/org.scherzo.Scheduler1.service", BusActivation),
    (Part::Tray, "data/org.scherzo.Tray.desktop", APPLICATIONS),
    (Part::Tray, "data/org.scherzo.Tray.service.in", SESSION_ACTIVATION),
    (Part::Ctl, "data/scherzo-applications.service.in", UserUnits),
    (Part::Daemon, "data/scherzo.toml", SHARE),
    (Part::Daemon, "data/scherzod.8.in", MAN8),
    (Part::Daemon, "data/scherzod.service.in", Units),
    (Part::Daemon, "dbus/org.scherzo.Scheduler1.xml", BUS_INTERFACES),
    (Part::GnomeShell, "dbus/org.scherzo.Scheduler1.xml", GNOME_SHELL_EXTENSION),
];

/// The program that describes itself, with the argument that makes it do so.
pub const GENERATOR: (&str, &str) = ("scherzoctl", "generate");
/// What it writes: the end of a file's name, the directory, and the installed name if that is another one.
pub(crate) const GENERATED: &[(Part, &str, Dir, Option<&str>)] = &[
    (Part::Ctl, ".1", MAN1, None),
    (Part::Ctl, "scherzoctl.bash", BASH_COMPLETIONS, Some("scherzoctl")),
    (Part::Ctl, "_scherzoctl", Zsh, None),
    (Part::Ctl, "scherzoctl.fish", FISH_COMPLETIONS, None),
];

/// Crates to build, and the programs among what they build.
#[must_use]
pub fn programs() -> (Vec<&'static str>, Vec<&'static str>) {
    (CRATES.to_vec(), PROGRAMS.iter().map(|(_, name, _)| *name).collect())
}
