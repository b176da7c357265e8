//! Disks for the guest: its root, the files that change with every build, and the initramfs that joins the two.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::kernels::{self, GuestKernel};
use crate::progress::step;
use crate::roots::{self, Bind, DebianRoot, System};

/// Sparse: what is not written takes no space.
pub(crate) const DISK_SIZE: &str = "4G";

/// Printed by the initramfs when it is asked whether this machine can run it at all.
pub const PROBE_MARKER: &str = "scherzo-probe-ok";
/// On the kernel's command line: print the marker and power off.
pub const PROBE_ARGUMENT: &str = "scherzo.probe";

/// On the kernel's command line, before a path: the program that becomes the first process, in place of systemd.
pub(crate) const FIRST_PROGRAM_ARGUMENT: &str = "scherzo.first=";

/// Where the agent lies in the guest.
pub const AGENT_PATH: &str = "/usr/lib/scherzo-rig/guest-agent";
/// Where somebody else's scheduler lies in the guest.
pub const FOREIGN_SCHEDULER_PATH: &str = "/usr/lib/scherzo-rig/foreign.bpf.o";
/// Where the scripts lie in the guest that act there for a case.
pub const SCRIPTS_DIR: &str = "/usr/lib/scherzo-rig";
/// What takes the synchronising of directories from a program that is started with it (`LD_PRELOAD`).
pub const NO_DIRECTORY_SYNC_PATH: &str = "/usr/lib/scherzo-rig/no_directory_sync.so";
const SCRIPTS: &[(&str, &str)] = &[
    ("floods.py", include_str!("../guest/floods.py")),
    ("kills.py", include_str!("../guest/kills.py")),
    ("ping_pong.py", include_str!("../guest/ping_pong.py")),
    ("power.py", include_str!("../guest/power.py")),
];
const UNIT_PATH: &str = "/etc/systemd/system/scherzo-guest-agent.service";
const WANTED_PATH: &str = "/etc/systemd/system/multi-user.target.wants/scherzo-guest-agent.service";

/// Real-time, so that the host can still ask what is wrong when ordinary tasks no longer run; its children are ordinary.
const UNIT: &str = "\
[Unit]
Description=Runs commands for the host

[Service]
ExecStart=/usr/lib/scherzo-rig/guest-agent
CPUSchedulingPolicy=rr
CPUSchedulingPriority=50
CPUSchedulingResetOnFork=yes
OOMScoreAdjust=-900
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=65536
Environment=HOME=/root LANG=C.UTF-8 XDG_RUNTIME_DIR=/run
";

/// The initramfs's `/init`: load what the root disk needs, put the payload over the root, become systemd.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/bin
busybox mkdir -p /dev /proc /root /payload
busybox mount -t proc proc /proc
busybox --install -s /bin
umask 022
mount -t devtmpfs dev /dev
case "$(cat /proc/cmdline)" in
    *scherzo.probe*) echo scherzo-probe-ok >/dev/console; poweroff -f; sleep 60 ;;
esac
while read -r module; do insmod "/modules/$module" || echo "cannot insert $module"; done </modules/order
while [ ! -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /root || echo "cannot mount the root disk"
if [ -b /dev/vdb ] && mount -t ext4 -o ro /dev/vdb /payload; then
    cd /payload
    find . -type d ! -name lost+found | while read -r dir; do mkdir -p "/root/$dir"; done
    find . ! -type d | while read -r file; do cp -df "$file" "/root/$file"; done
    cd /
    umount /payload
fi
first=$(sed -n 's/.*scherzo\.first=\([^ ]*\).*/\1/p' /proc/cmdline)
umount /proc
exec switch_root /root "${first:-/sbin/init}"
"#;

/// The guest's root disk, used with `snapshot=on`.
pub fn root_disk(cache: &Cache, build_root: &DebianRoot, guest_root: &DebianRoot, system: System) -> Result<PathBuf> {
    let kind = format!("{}guest-disk", system.prefix());
    cache.artefact(&kind, &format!("{}{DISK_SIZE}", roots::guest_recipe(system)), |path| {
        step("making the guest's disk", || make_disk(build_root, guest_root.dir(), path, DISK_SIZE))
    })
}

/// An initramfs for one kernel.
///
/// It holds what that kernel needs from whichever guest it is made from, which is the same in all of them.
pub fn initramfs(
    cache: &Cache,
    build_root: &DebianRoot,
    guest_root: &DebianRoot,
    kernel: &GuestKernel,
) -> Result<PathBuf> {
    let kind = format!("initramfs-{}", kernel.release);
    cache.artefact(&kind, &format!("{}{INIT}{MAKE_INITRAMFS}", kernels::recipe()), |path| {
        let staging = tempfile::tempdir()?;
        fs::write(staging.path().join("init"), INIT)?;
        let binds = [Bind::new(guest_root.dir(), "/mnt/guest"), Bind::new(staging.path(), "/mnt/out")];
        build_root.shell(&binds, &format!("release={}\n{MAKE_INITRAMFS}", kernel.release))?;
        fs::copy(staging.path().join("initramfs"), path).map(drop).context("no initramfs was made")
    })
}

const MAKE_INITRAMFS: &str = r#"
tree=/tmp/initramfs
mkdir -p $tree/bin $tree/modules
busybox=/mnt/guest/usr/bin/busybox
# The guest's is of its own processor, but may need libraries.
case $release in *-arm64) ;; *) busybox=/bin/busybox ;; esac
cp $busybox $tree/bin/
install -m 755 /mnt/out/init $tree/init
modprobe -d /mnt/guest/usr -S "$release" --show-depends virtio_blk | sed -n 's/^insmod \([^ ]*\).*/\1/p' | while read -r path; do
    name=$(basename "$path")
    case $name in
        *.xz) xz -dc "$path" >"$tree/modules/${name%.xz}" ;;
        *.zst) zstd -qdc "$path" >"$tree/modules/${name%.zst}" ;;
        *) cp "$path" $tree/modules/ ;;
    esac
    name=${name%.xz}
    echo "${name%.zst}" >>$tree/modules/order
done
touch $tree/modules/order
cd $tree && find . | cpio --quiet -o -H newc >/mnt/out/initramfs
"#;

/// Somebody else's scheduler, as a BPF object for `bpftool`.
pub fn foreign_scheduler(cache: &Cache, build_root: &DebianRoot) -> Result<PathBuf> {
    let source = include_str!("../guest/foreign.bpf.c");
    cache.artefact("foreign-scheduler", source, |path| {
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("foreign.bpf.c"), source)?;
        let binds = [Bind::new(dir.path(), "/mnt/out")];
        build_root.shell(&binds, "cd /mnt/out && clang -target bpf -g -O2 -c foreign.bpf.c -o foreign.bpf.o")?;
        fs::copy(dir.path().join("foreign.bpf.o"), path).map(drop).context("nothing was compiled")
    })
}

/// The library of [`NO_DIRECTORY_SYNC_PATH`].
pub fn no_directory_sync(cache: &Cache, build_root: &DebianRoot, system: System) -> Result<PathBuf> {
    let source = include_str!("../guest/no_directory_sync.c");
    let compiler = system.architecture().c_compiler();
    let kind = if system == System::Arm64 { "arm64-no-directory-sync" } else { "no-directory-sync" };
    cache.artefact(kind, source, |path| {
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("it.c"), source)?;
        let binds = [Bind::new(dir.path(), "/mnt/out")];
        build_root.shell(&binds, &format!("cd /mnt/out && {compiler} -O2 -shared -fPIC -o it.so it.c"))?;
        fs::copy(dir.path().join("it.so"), path).map(drop).context("nothing was compiled")
    })
}

/// What the rig itself adds to the guest, as paths of the host.
#[derive(Debug, Clone)]
pub struct RigFiles {
    /// The agent's program.
    pub agent: PathBuf,
    /// From [`foreign_scheduler`].
    pub foreign_scheduler: PathBuf,
    /// From [`no_directory_sync`].
    pub no_directory_sync: PathBuf,
}

/// A disk with everything that is put over the guest's root at boot: the rig's own files, and a tree laid out as installed.
pub fn payload_disk(build_root: &DebianRoot, files: &RigFiles, tree: &Path, path: &Path) -> Result<()> {
    let staging = tempfile::tempdir()?;
    let dir = staging.path();
    let place = |path: &str| dir.join(path.trim_start_matches('/'));
    for path in [AGENT_PATH, UNIT_PATH, WANTED_PATH] {
        fs::create_dir_all(place(path).parent().context("no parent")?)?;
    }
    let own = [
        (&files.agent, AGENT_PATH),
        (&files.foreign_scheduler, FOREIGN_SCHEDULER_PATH),
        (&files.no_directory_sync, NO_DIRECTORY_SYNC_PATH),
    ];
    for (from, to) in own {
        fs::copy(from, place(to)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    for (name, text) in SCRIPTS {
        fs::write(place(SCRIPTS_DIR).join(name), text)?;
    }
    fs::write(place(UNIT_PATH), UNIT)?;
    std::os::unix::fs::symlink(UNIT_PATH, place(WANTED_PATH))?;
    copy_tree(tree, dir).with_context(|| format!("cannot copy {}", tree.display()))?;
    make_disk(build_root, dir, path, "512M")
}

/// Copies a tree of directories, files (with their modes) and symbolic links into an existing directory.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// An ext4 image of a directory. The directory keeps its owners, which is why this runs inside the build root.
pub(crate) fn make_disk(build_root: &DebianRoot, dir: &Path, path: &Path, size: &str) -> Result<()> {
    let parent = path.parent().context("no parent")?;
    let name = path.file_name().context("no name")?.display();
    let binds = [Bind::new(dir, "/mnt/tree"), Bind::new(parent, "/mnt/out")];
    build_root
        .shell(&binds, &format!("mkfs.ext4 -q -F -m 0 -E lazy_itable_init=1 -d /mnt/tree '/mnt/out/{name}' {size}"))
}
