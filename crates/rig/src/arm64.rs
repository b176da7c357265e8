//! 64-bit ARM: the root that compiles for it and emulates it, and the root and the disk of its guest.
//!
//! Guests of this machine's own processor need nothing of it. Packages of the ARM guest are unpacked here, where their scripts
//! cannot run, and configured by the guest itself when it is booted for the first time.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::architecture::Architecture;
use crate::cache::Cache;
use crate::image;
use crate::kernels::GuestKernel;
use crate::progress::step;
use crate::qemu::{self, Accel, BootFiles, GuestMachine};
use crate::roots::{self, BUILD_SETUP, Bind, DebianRoot, GUEST_SETUP, tail};

/// Compilers and the emulator, what the product is linked with there, and what its build needs here.
const CROSS_PACKAGES: &[&str] = &[
    "ca-certificates",
    "clang-19",
    "cpio",
    "crossbuild-essential-arm64",
    "e2fsprogs",
    "gcc",
    "gettext",
    "kmod",
    "libadwaita-1-dev:arm64",
    "libelf-dev",
    "libelf-dev:arm64",
    "libgtk-4-dev:arm64",
    "make",
    "pkg-config",
    "qemu-system-arm",
    "qemu-user",
    "xz-utils",
    "zlib1g-dev",
    "zlib1g-dev:arm64",
    "zstd",
];

/// A compiler that has its library for ARM as well: the host's may not.
const CROSS_SETUP: &str = r#"
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) trixie .*/\2/p' /etc/apt/sources.list | head -n 1)
    echo "deb $mirror trixie-backports main" >/etc/apt/sources.list.d/backports.list
    apt="apt-get -q -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User=root"
    $apt update
    $apt install -y --no-install-recommends -t trixie-backports rustc cargo libstd-rust-dev:arm64
    rm -rf /var/cache/apt/archives/*.deb"#;

/// For cargo and the build scripts of dependencies: what belongs to the target and not to this machine.
pub(crate) const CROSS_ENVIRONMENT: [(&str, &str); 3] = [
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc"),
    ("PKG_CONFIG_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-pkg-config"),
    ("PKG_CONFIG_ALLOW_CROSS_aarch64_unknown_linux_gnu", "1"),
];

/// A small system with what the service asks, and the loads of the cases.
const GUEST_PACKAGES: &[&str] = &[
    "bpftool",
    "busybox-static",
    "dbus",
    "kmod",
    "libelf1t64",
    "libpam-systemd",
    "login",
    "passwd",
    "polkitd",
    "procps",
    "python3-gi",
    "stress-ng",
    "systemd",
    "systemd-sysv",
    "udev",
    "util-linux",
    "zlib1g",
];

/// The newest kernel of this series is booted.
const KERNEL_SERIES: &str = "6.18.";
/// The program that a root disk is booted with for the first time.
const CONFIGURE_PATH: &str = "/usr/lib/scherzo-rig/configure";
/// Printed by it if it has succeeded.
const CONFIGURED: &str = "scherzo-configured";
/// It takes 97 to 170 s on two CPUs that others use as well.
const CONFIGURE_LIMIT: Duration = Duration::from_mins(20);

/// The root that compiles for ARM and emulates it.
pub(crate) fn cross_root(cache: &Cache) -> Result<DebianRoot> {
    let recipe = format!("{CROSS_PACKAGES:?}{CROSS_SETUP}{BUILD_SETUP}");
    let dir = cache.artefact("cross-root", &recipe, |dir| {
        let architectures = [Architecture::X86_64, Architecture::Arm64];
        let root = roots::debian(dir, "root that compiles for ARM", roots::STABLE, &architectures, CROSS_PACKAGES)?;
        root.shell(&[], BUILD_SETUP)?;
        step("adding a compiler for ARM", || root.shell(&[], CROSS_SETUP))
    })?;
    Ok(DebianRoot::at(dir))
}

/// The root that a guest boots, with its kernel. Its packages are not configured.
pub(crate) fn guest_root(cache: &Cache) -> Result<DebianRoot> {
    let dir = cache.artefact("arm64-guest-root", &guest_recipe(), |dir| {
        let cross_root = cross_root(cache)?;
        fs::create_dir_all(dir)?;
        let binds = [Bind::new(dir, "/mnt/guest")];
        let script = format!("set -- {}\nseries={KERNEL_SERIES}\n{UNPACK}", GUEST_PACKAGES.join(" "));
        step("unpacking the ARM guest (Debian trixie)", || cross_root.shell(&binds, &script))?;
        let configure = dir.join(CONFIGURE_PATH.trim_start_matches('/'));
        fs::create_dir_all(configure.parent().context("no parent")?)?;
        fs::write(&configure, configure_script())?;
        make_executable(&configure)
    })?;
    Ok(DebianRoot::at(dir))
}

/// What [`guest_root`] is made from.
pub(crate) fn guest_recipe() -> String {
    format!("{GUEST_PACKAGES:?}{KERNEL_SERIES}{UNPACK}{}", configure_script())
}

fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Asks the archive of the root's own mirror, in a state of its own; the positional parameters are the packages. What is unpacked
/// is entered as such into the database of packages, so that the guest's dpkg can go on from there.
const UNPACK: &str = r#"
mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) trixie .*/\2/p' /etc/apt/sources.list | head -n 1)
mkdir -p /tmp/apt/lists/partial /tmp/apt/archives/partial
cp /etc/apt/sources.list /tmp/apt/sources.list
echo "deb $mirror trixie-backports main" >>/tmp/apt/sources.list
: >/tmp/apt/status
cat >/tmp/apt/conf <<END
APT::Architecture "arm64";
APT::Architectures "arm64";
Dir::Etc::sourcelist "/tmp/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "/tmp/apt/lists";
Dir::State::status "/tmp/apt/status";
Dir::Cache "/tmp/apt";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
END
export APT_CONFIG=/tmp/apt/conf
apt-get -q update
apt-get -q install -y --download-only --no-install-recommends '?essential' "$@"

root=/mnt/guest
database=$root/var/lib/dpkg
mkdir -p $database/info $database/updates $database/triggers
: >$database/available
echo arm64 >$database/arch
for deb in /tmp/apt/archives/base-files_*.deb $(ls /tmp/apt/archives/*.deb | grep -v /base-files_); do
    name=$(dpkg-deb -f "$deb" Package)
    [ "$(dpkg-deb -f "$deb" Multi-Arch)" != same ] || name=$name:arm64
    dpkg-deb --fsys-tarfile "$deb" >/tmp/data.tar
    tar -x --keep-directory-symlink -C $root -f /tmp/data.tar
    tar -t -f /tmp/data.tar | sed 's,^\./$,/.,; s,^\.,,; s,\(.\)/$,\1,' >"$database/info/$name.list"
    dpkg-deb -f "$deb" | sed '1a Status: install ok unpacked' >>$database/status
    echo >>$database/status
    rm -rf /tmp/control
    dpkg-deb -e "$deb" /tmp/control
    rm /tmp/control/control
    for file in /tmp/control/*; do [ ! -e "$file" ] || cp -p "$file" "$database/info/$name.${file##*/}"; done
done

# Scripts of other packages may run before the one that does this, and need owners for their files.
cp $root/usr/share/base-passwd/passwd.master $root/etc/passwd
cp $root/usr/share/base-passwd/group.master $root/etc/group

apt-cache pkgnames "linux-image-$series" >/tmp/kernels
release=$(sed -n 's/^linux-image-\(.*+deb13-cloud-arm64\)$/\1/p' /tmp/kernels | sort -V | tail -n 1)
[ -n "$release" ] || { echo "the archive has no kernel $series for arm64" >&2; exit 1; }
cd /tmp
apt-get -q download "linux-image-$release"
dpkg-deb -x linux-image-*.deb kernel
grep -q '^CONFIG_SCHED_CLASS_EXT=y' "kernel/boot/config-$release" || { echo "$release has no sched_ext" >&2; exit 1; }
mkdir -p $root/usr/lib/modules
cp -a "kernel/usr/lib/modules/$release" $root/usr/lib/modules/
cp "kernel/boot/vmlinuz-$release" "kernel/boot/config-$release" $root/boot/
depmod -b $root/usr "$release"
echo "$release long-term" >$root/boot/scherzo-kernels
"#;

/// Runs as the guest's first process, and ends the machine.
fn configure_script() -> String {
    format!(
        r"#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true
configure() {{
    set -e
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    dpkg --configure -a
    rm /usr/sbin/policy-rc.d
    {GUEST_SETUP}
    ln -sf /dev/null /etc/systemd/system/serial-getty@ttyAMA0.service
    rm {CONFIGURE_PATH}
}}
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1
configure
sync
echo {CONFIGURED}
mount -o remount,ro /
busybox poweroff -f
"
    )
}

/// The guest's root disk, configured.
pub(crate) fn root_disk(
    cache: &Cache,
    cross_root: &DebianRoot,
    guest_root: &DebianRoot,
    kernel: &GuestKernel,
) -> Result<PathBuf> {
    let initramfs = image::initramfs(cache, cross_root, guest_root, kernel)?;
    let kernel = kernel.image(guest_root);
    cache.artefact("arm64-guest-disk", &format!("{}{}", guest_recipe(), image::DISK_SIZE), |path| {
        image::make_disk(cross_root, guest_root.dir(), path, image::DISK_SIZE)?;
        let boot =
            BootFiles { kernel, initramfs, disk: Some(path.to_owned()), keeps_writes: true, ..BootFiles::default() };
        step("configuring the ARM guest at its first boot", || configure(cross_root, &boot))
    })
}

/// Boots a disk that is not configured yet, and waits until it is.
fn configure(cross_root: &DebianRoot, boot: &BootFiles) -> Result<()> {
    let run_dir = tempfile::tempdir()?;
    let machine = GuestMachine {
        architecture: Architecture::Arm64,
        cmdline: format!("{}{CONFIGURE_PATH}", image::FIRST_PROGRAM_ARGUMENT),
        ..GuestMachine::default()
    };
    let mut qemu = qemu::start(cross_root, Accel::Tcg, &machine, boot, run_dir.path())?;
    let deadline = Instant::now() + CONFIGURE_LIMIT;
    while Instant::now() < deadline && qemu.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(200));
    }
    // It has ended by now unless the time was up.
    let _ = qemu.kill();
    qemu.wait()?;
    let log = fs::read(run_dir.path().join(qemu::CONSOLE_LOG)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    ensure!(log.contains(CONFIGURED), "its packages could not be configured:\n{}", tail(&log, 40));
    Ok(())
}
