//! What is in each root: packages, and what is run inside it once it is there.

/// Everything that compiles, tests and emulates.
pub(crate) const BUILD_PACKAGES: &[&str] = &[
    "busybox-static",
    "ca-certificates",
    "clang-19",
    "codespell",
    "cpio",
    "dbus-bin",
    "dbus-daemon",
    "e2fsprogs",
    "gcc",
    "gettext",
    "git",
    "kmod",
    "libadwaita-1-dev",
    "libc6-dev",
    "libelf-dev",
    "libgtk-4-dev",
    "libseccomp-dev",
    "make",
    "pkg-config",
    "qemu-system-x86",
    "xz-utils",
    "zlib1g-dev",
    "zstd",
];

/// A small system with the services that a desktop has, and the loads that the cases use.
pub(crate) const GUEST_PACKAGES: &[&str] = &[
    "bpftool",
    "btrfs-progs",
    "busybox",
    "ca-certificates",
    "dbus",
    "dbus-broker",
    "gamemode",
    "gir1.2-umockdev-1.0",
    "kmod",
    "libelf1t64",
    "libpam-systemd",
    "linux-perf",
    "login",
    "polkitd",
    "power-profiles-daemon",
    "procps",
    "python3-gi",
    "rt-tests",
    "stress-ng",
    "systemd",
    "systemd-sysv",
    "tuned",
    "udev",
    "umockdev",
    "upower",
    "util-linux",
    "xfsprogs",
    "zlib1g",
];

/// What `packaging/debian/control` asks for but the compiler, and the tools that make and judge packages of all three kinds.
pub(crate) const PACKAGE_PACKAGES: &[&str] = &[
    "build-essential",
    "clang",
    "debhelper",
    "fakeroot",
    "gettext",
    "libadwaita-1-dev",
    "libarchive-tools",
    "libelf-dev",
    "libgtk-4-dev",
    "lintian",
    "llvm",
    "makepkg",
    "pacman-package-manager",
    "pkgconf",
    "rpm",
    "rpmlint",
    "zlib1g-dev",
    "zstd",
];

/// With these the small guest builds [`PROGRAMS_SETUP`]'s program, and plays sound: what people do beside a game.
pub(crate) const PROGRAM_PACKAGES: &[&str] = &["gcc", "libc6-dev", "make", "pipewire", "pipewire-bin", "wireplumber"];

/// Run inside the small guest's root once it is there: the source of a C program that needs nothing else, in `/usr/src/lua`. Sound is
/// played by whoever measures it, and not in every session.
pub(crate) const PROGRAMS_SETUP: &str = r#"
    systemctl --global disable pipewire.socket pipewire.service wireplumber.service
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) trixie .*/\2/p' /etc/apt/sources.list | head -n 1)
    echo "deb-src $mirror trixie main" >/etc/apt/sources.list.d/sources.list
    apt="apt-get -q -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root"
    $apt update
    cd /usr/src
    $apt source --download-only lua5.4
    mkdir lua
    tar -xf lua5.4_*.orig.tar.* --strip-components=1 -C lua
    rm lua5.4_* /etc/apt/sources.list.d/sources.list"#;

/// Run inside the package root once it is there. The distribution's own compiler is older than the project needs; a newer
/// one is in its backports.
pub(crate) const PACKAGE_SETUP: &str = r#"
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) trixie .*/\2/p' /etc/apt/sources.list | head -n 1)
    echo "deb $mirror trixie-backports main" >/etc/apt/sources.list.d/backports.list
    apt="apt-get -q -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root"
    $apt update
    $apt install -y --no-install-recommends -t trixie-backports rustc cargo
    rm -rf /var/cache/apt/archives/*.deb"#;

/// What packages of Scherzo depend on, added to the guest: there is no network when they are installed in it. With what
/// shows the app there, and uses it as a screen reader does.
pub(crate) const DEPENDENCY_PACKAGES: &[&str] = &[
    "at-spi2-core",
    "dbus-daemon",
    "gir1.2-atspi-2.0",
    "gnome-shell",
    "hicolor-icon-theme",
    "libadwaita-1-0",
    "libgtk-4-1",
    "xdotool",
    "xvfb",
];

/// The desktops that people have today: GNOME Shell, the toolkits, a panel with a tray, what reads and uses the
/// accessibility tree, and fonts for every script that is photographed.
pub(crate) const DESKTOP_PACKAGES: &[&str] = &[
    "adwaita-icon-theme",
    "appstream",
    "at-spi2-core",
    "dbus",
    "dbus-bin",
    "dbus-daemon",
    "dconf-gsettings-backend",
    "desktop-file-utils",
    "fonts-cantarell",
    "fonts-dejavu-core",
    "fonts-noto-cjk",
    "fonts-noto-core",
    "gir1.2-atspi-2.0",
    "gnome-shell",
    "imagemagick",
    "libadwaita-1-0",
    "libglib2.0-bin",
    "librsvg2-common",
    "locales",
    "procps",
    "python3-gi",
    "xdotool",
    "xfce4-panel",
    "xvfb",
];

/// The next GNOME Shell, and no more than it needs.
pub(crate) const NEXT_DESKTOP_PACKAGES: &[&str] = &[
    "adwaita-icon-theme",
    "dbus",
    "dbus-bin",
    "dbus-daemon",
    "dconf-gsettings-backend",
    "fonts-cantarell",
    "gnome-shell",
    "libglib2.0-bin",
    "locales",
    "procps",
    "python3-gi",
];

/// Run inside a desktop root once it is there: an ordinary user, and the languages that are looked at. gettext translates
/// into none that glibc has no locale for.
pub(crate) const DESKTOP_SETUP: &str = "
    useradd --create-home --uid 1000 person
    for language in de_DE fr_FR he_IL ja_JP; do localedef -i $language -f UTF-8 $language.UTF-8; done
    rm -rf /var/cache/apt/archives/*.deb";

/// Run inside the build root once it is there: BPF builds look for plain `clang`.
pub(crate) const BUILD_SETUP: &str = "ln -sf clang-19 /usr/bin/clang; ln -sf llvm-strip-19 /usr/bin/llvm-strip";

/// Run inside the guest root once it is there: nothing that wakes up by itself, the reference implementation as the bus
/// until a case wants the other one, no tuned until a case wants it (it would stop power-profiles-daemon), and one ordinary user.
pub(crate) const GUEST_SETUP: &str = "
    passwd -d root
    useradd --create-home --uid 1000 person
    echo scherzo-guest >/etc/hostname
    : >/etc/fstab
    for unit in serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer \
        dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service; do
        ln -sf /dev/null /etc/systemd/system/$unit
    done
    rm -f /etc/systemd/system/dbus.service /etc/systemd/user/dbus.service
    rm -f /etc/systemd/system/multi-user.target.wants/tuned.service
    rm -rf /var/cache/apt/archives/*.deb";
