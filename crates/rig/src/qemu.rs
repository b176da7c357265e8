//! Starting the machine: QEMU's command line, and whether KVM works on this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{StatFs, statfs};

use crate::agent::PORT_NAME;
use crate::architecture::Architecture;
use crate::cache::Cache;
use crate::image::{PROBE_ARGUMENT, PROBE_MARKER};
use crate::progress::{say, step};
use crate::roots::{Bind, DebianRoot};

/// How guest instructions are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// The host's processor.
    Kvm,
    /// Software emulation.
    Tcg,
}

/// The clock of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuestTime {
    /// The host's: as fast as it goes.
    #[default]
    Real,
    /// The host's on KVM, else [`GuestTime::Virtual`]. In software emulation the host's clock has two faults: with a thread
    /// per virtual CPU, code that loading a scheduler patches in the running kernel may reach one of them too late, and
    /// with one thread for all, each has its turn for 100 ms.
    Steady,
    /// A clock that counts instructions, which makes it independent of other load on the host. For measurements.
    Virtual,
    /// The host's on KVM, else a clock that counts instructions too, and four times as fast: a slow computer, an hour
    /// of which costs the host less than one. For soaks.
    Slow,
}

impl GuestTime {
    const NAMES: &[(Self, &str)] =
        &[(Self::Real, "real"), (Self::Steady, "steady"), (Self::Virtual, "virtual"), (Self::Slow, "slow")];

    /// What `cargo xtask guest --time` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(time, _)| *time == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for GuestTime {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(time, _)| *time).context("real, steady, virtual or slow")
    }
}

/// What the machine looks like.
#[derive(Debug, Clone)]
pub struct GuestMachine {
    /// Its processor.
    pub architecture: Architecture,
    /// Virtual CPUs.
    pub nr_cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Which clock.
    pub time: GuestTime,
    /// Further `-smp` properties, such as `sockets=2`.
    pub topology: String,
    /// NUMA nodes, which the CPUs and the memory are divided among in order.
    pub nr_nodes: u32,
    /// Further words for the kernel's command line.
    pub cmdline: String,
    /// Whether a reboot restarts the machine with the same disk; otherwise it ends.
    pub reboots: bool,
    /// Whether there is an empty disk besides, `/dev/vdc`.
    pub empty_disk: bool,
}

impl Default for GuestMachine {
    fn default() -> Self {
        Self {
            architecture: Architecture::default(),
            nr_cpus: 2,
            memory_mib: 2048,
            time: GuestTime::Real,
            topology: String::new(),
            nr_nodes: 1,
            cmdline: String::new(),
            reboots: false,
            empty_disk: false,
        }
    }
}

impl GuestMachine {
    /// The options of `cargo xtask guest` that make the same machine.
    #[must_use]
    pub fn options(&self) -> String {
        let Self { architecture, nr_cpus, memory_mib, time, topology, nr_nodes, cmdline, reboots: _, empty_disk: _ } =
            self;
        let or_nothing = |is_set: bool, option: String| if is_set { option } else { String::new() };
        [
            format!("--cpus {nr_cpus} --memory {memory_mib} --time {}", time.name()),
            or_nothing(*architecture != Architecture::default(), format!(" --architecture {}", architecture.name())),
            or_nothing(!topology.is_empty(), format!(" --topology {topology}")),
            or_nothing(*nr_nodes > 1, format!(" --nodes {nr_nodes}")),
            or_nothing(!cmdline.is_empty(), format!(" --cmdline '{cmdline}'")),
        ]
        .concat()
    }
}

/// What the machine boots, as paths of the host.
#[derive(Debug, Clone, Default)]
pub struct BootFiles {
    /// The kernel image.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// The root disk.
    pub disk: Option<PathBuf>,
    /// Whether what is written to the root disk stays there. Else it is forgotten.
    pub keeps_writes: bool,
    /// The payload disk, never written.
    pub payload: Option<PathBuf>,
}

/// The name of the port's socket in the run directory.
pub const AGENT_SOCKET: &str = "agent.sock";
/// The name of the console log in the run directory.
pub const CONSOLE_LOG: &str = "console.log";
/// The name of the socket in the run directory where QEMU's monitor answers.
pub const MONITOR_SOCKET: &str = "monitor.sock";
/// The name of the empty disk in the run directory, and its size: enough for every file system.
const EMPTY_DISK: &str = "empty.img";
const EMPTY_DISK_BYTES: u64 = 512 << 20;
/// Where the root shows the run directory.
const RUN_DIR: &str = "/mnt/run";

/// Where Linux keeps files in memory.
const MEMORY_DIR: &str = "/dev/shm";
/// Where the root shows the directory of the overlays.
const OVERLAY_DIR: &str = "/mnt/overlays";
/// More than guests write in a case.
const OVERLAY_ROOM: u64 = 4 << 30;
/// `TMPFS_MAGIC` of Linux.
const TMPFS: u64 = 0x0102_1994;

/// Time limit for the probe; a working KVM needs less than two seconds.
const PROBE_LIMIT: Duration = Duration::from_secs(8);

/// Starts QEMU inside the build root. It ends with the calling thread at the latest.
///
/// `run_dir` receives the console log and the agent's socket. What the guest writes to its disks goes to [`overlay_dir`].
pub fn start(
    build_root: &DebianRoot,
    accel: Accel,
    machine: &GuestMachine,
    boot: &BootFiles,
    run_dir: &Path,
) -> Result<Child> {
    let mut binds = vec![Bind::new(run_dir, RUN_DIR), Bind::new(overlay_dir(run_dir), OVERLAY_DIR)];
    let mut inside = |host: &Path, name: &str| -> Result<PathBuf> {
        let dir = PathBuf::from("/mnt").join(name);
        binds.push(Bind::new(host.parent().context("no parent")?, &dir));
        Ok(dir.join(host.file_name().context("no file name")?))
    };
    let kernel = inside(&boot.kernel, "kernel")?;
    let initramfs = inside(&boot.initramfs, "initramfs")?;
    let disk = boot.disk.as_deref().map(|path| inside(path, "disk")).transpose()?;
    let payload = boot.payload.as_deref().map(|path| inside(path, "payload")).transpose()?;

    let architecture = machine.architecture;
    let mut qemu = build_root.command(&binds, architecture.emulator());
    qemu.env("TMPDIR", OVERLAY_DIR);
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", architecture.machine()]);
    if !machine.reboots {
        qemu.arg("-no-reboot");
    }
    qemu.args(["-smp", &smp(machine), "-m", &format!("{}M", machine.memory_mib)]);
    qemu.args(nodes(machine));
    qemu.args(accel_arguments(accel, machine.time));
    qemu.args(["-cpu", processor(accel, machine)]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
    let console = architecture.console();
    qemu.args(["-append", &format!("console={console} panic=-1 quiet loglevel=5 {}", machine.cmdline)]);
    qemu.args(["-serial", &format!("file:{RUN_DIR}/{CONSOLE_LOG}"), "-device", "virtio-rng-pci"]);
    qemu.args(["-chardev", &format!("socket,id=agent,path={RUN_DIR}/{AGENT_SOCKET},server=on,wait=off")]);
    qemu.args(["-qmp", &format!("unix:{RUN_DIR}/{MONITOR_SOCKET},server=on,wait=off")]);
    qemu.args(["-device", "virtio-serial-pci", "-device", &format!("virtserialport,chardev=agent,name={PORT_NAME}")]);
    for (disk, keeps_writes) in [(disk, boot.keeps_writes), (payload, false)] {
        let Some(disk) = disk else { continue };
        let snapshot = if keeps_writes { "off" } else { "on" };
        qemu.args(["-drive", &format!("file={},if=virtio,format=raw,snapshot={snapshot}", disk.display())]);
    }
    if machine.empty_disk {
        fs::File::create(run_dir.join(EMPTY_DISK))?.set_len(EMPTY_DISK_BYTES)?;
        // Only the guest may be cut off, not the host: what the guest has flushed need not reach the host's disk.
        qemu.args(["-drive", &format!("file={RUN_DIR}/{EMPTY_DISK},if=virtio,format=raw,cache=unsafe")]);
    }
    let log = fs::File::create(run_dir.join("qemu.log"))?;
    qemu.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    spawn(&mut qemu)
}

/// Memory where there is room, else the run directory. QEMU unlinks the files there once they are open.
///
/// A clock that counts instructions jumps from timer to timer while the guest sleeps. If it sleeps because the host writes to
/// a busy disk for half a second, a time limit of 25 s has passed for the guest.
fn overlay_dir(run_dir: &Path) -> &Path {
    let in_memory = statfs(MEMORY_DIR)
        .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|kind| kind == TMPFS) && room(&found) >= OVERLAY_ROOM);
    if in_memory { Path::new(MEMORY_DIR) } else { run_dir }
}

/// The free bytes of a file system.
fn room(found: &StatFs) -> u64 {
    found.f_bavail.saturating_mul(u64::try_from(found.f_bsize).unwrap_or(0))
}

fn spawn(qemu: &mut Command) -> Result<Child> {
    qemu.spawn().context("cannot start QEMU")
}

fn smp(machine: &GuestMachine) -> String {
    let comma = if machine.topology.is_empty() { "" } else { "," };
    format!("{}{comma}{}", machine.nr_cpus, machine.topology)
}

/// Each node has its share of the memory and the next CPUs.
fn nodes(machine: &GuestMachine) -> Vec<String> {
    let GuestMachine { nr_cpus, memory_mib, nr_nodes, .. } = *machine;
    if nr_nodes < 2 {
        return Vec::new();
    }
    let node = |node: u32| {
        let (first, next) = (node * nr_cpus / nr_nodes, (node + 1) * nr_cpus / nr_nodes);
        let memory = format!("memory-backend-ram,id=ram{node},size={}M", memory_mib / nr_nodes);
        let cpus = format!("node,nodeid={node},cpus={first}-{},memdev=ram{node}", next.saturating_sub(1));
        ["-object".into(), memory, "-numa".into(), cpus]
    };
    (0..nr_nodes).flat_map(node).collect()
}

/// For a clock that counts instructions; `shift` is the binary logarithm of what each takes, in ns.
const fn counting(icount: &'static str) -> [&'static str; 6] {
    ["-accel", "tcg,thread=single", "-icount", icount, "-rtc", "base=2026-01-01,clock=vm"]
}

fn accel_arguments(accel: Accel, time: GuestTime) -> &'static [&'static str] {
    match (time, accel) {
        (GuestTime::Virtual, _) | (GuestTime::Steady, Accel::Tcg) => const { &counting("shift=1,sleep=off") },
        (GuestTime::Slow, Accel::Tcg) => const { &counting("shift=3,sleep=off") },
        (_, Accel::Kvm) => &["-accel", "kvm"],
        (GuestTime::Real, Accel::Tcg) => &["-accel", "tcg,thread=multi"],
    }
}

/// A clock that counts instructions needs the emulator even where KVM works.
fn processor(accel: Accel, machine: &GuestMachine) -> &'static str {
    if accel_arguments(accel, machine.time).contains(&"kvm") {
        "host"
    } else {
        machine.architecture.emulated_processor()
    }
}

/// KVM if a tiny guest really boots on it, else software emulation. Decided once per boot of the host.
pub fn choose_accel(cache: &Cache, build_root: &DebianRoot, boot: &BootFiles) -> Result<Accel> {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let note = cache.path("accel");
    let _lock = cache.lock("accel")?;
    let noted = fs::read_to_string(&note).unwrap_or_default();
    if let Some(answer) = noted.strip_prefix(boot_id.trim()) {
        return Ok(if answer.trim() == "kvm" { Accel::Kvm } else { Accel::Tcg });
    }
    let accel = probe(build_root, boot)?;
    fs::write(&note, format!("{} {}", boot_id.trim(), if accel == Accel::Kvm { "kvm" } else { "tcg" }))?;
    Ok(accel)
}

fn probe(build_root: &DebianRoot, boot: &BootFiles) -> Result<Accel> {
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/kvm") {
        say(&format!("guests run in software emulation, which is slower: cannot open /dev/kvm: {error}"));
        return Ok(Accel::Tcg);
    }
    if step("probing KVM with a tiny guest", || boots_on_kvm(build_root, boot))? {
        return Ok(Accel::Kvm);
    }
    say("guests run in software emulation, which is slower: /dev/kvm is there but cannot boot a kernel");
    Ok(Accel::Tcg)
}

fn boots_on_kvm(build_root: &DebianRoot, boot: &BootFiles) -> Result<bool> {
    let run_dir = tempfile::tempdir()?;
    let tiny = BootFiles { disk: None, payload: None, ..boot.clone() };
    let machine =
        GuestMachine { nr_cpus: 1, memory_mib: 512, cmdline: PROBE_ARGUMENT.into(), ..GuestMachine::default() };
    let mut qemu = start(build_root, Accel::Kvm, &machine, &tiny, run_dir.path())?;
    let deadline = Instant::now() + PROBE_LIMIT;
    let log = run_dir.path().join(CONSOLE_LOG);
    let says_so = || fs::read(&log).is_ok_and(|text| String::from_utf8_lossy(&text).contains(PROBE_MARKER));
    while Instant::now() < deadline && !says_so() && qemu.try_wait()?.is_none() {
        thread::sleep(Duration::from_millis(100));
    }
    qemu.kill()?;
    qemu.wait()?;
    Ok(says_so())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_never_uses_kvm_and_steady_time_does() {
        assert!(accel_arguments(Accel::Kvm, GuestTime::Virtual).contains(&"tcg,thread=single"));
        assert!(accel_arguments(Accel::Kvm, GuestTime::Steady).contains(&"kvm"));
        assert!(accel_arguments(Accel::Tcg, GuestTime::Steady).contains(&"-icount"));
    }

    #[test]
    fn a_machine_is_described_as_the_command_line_has_it() {
        let machine = GuestMachine {
            time: GuestTime::Steady,
            nr_nodes: 2,
            topology: "sockets=2".into(),
            ..GuestMachine::default()
        };
        assert_eq!(machine.options(), "--cpus 2 --memory 2048 --time steady --topology sockets=2 --nodes 2");
        assert!(GuestTime::NAMES.iter().all(|(time, name)| name.parse::<GuestTime>().unwrap() == *time));
    }

    #[test]
    fn a_machine_of_another_processor_is_emulated_with_its_devices() {
        let machine = GuestMachine { architecture: Architecture::Arm64, ..GuestMachine::default() };
        assert_eq!(machine.options(), "--cpus 2 --memory 2048 --time real --architecture arm64");
        assert_eq!(processor(Accel::Tcg, &machine), "cortex-a76");
        assert_eq!(processor(Accel::Kvm, &GuestMachine::default()), "host");
        let virtual_time = GuestMachine { time: GuestTime::Virtual, ..GuestMachine::default() };
        assert_eq!(processor(Accel::Kvm, &virtual_time), "max");
    }

    #[test]
    fn topology_is_added_to_the_number_of_cpus() {
        let machine = GuestMachine { nr_cpus: 4, topology: "sockets=2,cores=2".into(), ..GuestMachine::default() };
        assert_eq!(smp(&machine), "4,sockets=2,cores=2");
        assert_eq!(smp(&GuestMachine::default()), "2");
    }
}
