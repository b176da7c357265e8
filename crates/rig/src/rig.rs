//! The prepared rig: roots, disks, kernels and agent, ready to boot guests.

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow};
use tempfile::TempDir;

use crate::arm64;
use crate::build::Workspace;
use crate::cache::Cache;
use crate::guest::Guest;
use crate::image::{self, RigFiles};
use crate::kernels::every::{self, ArchivedKernel};
use crate::kernels::{self, GuestKernel, Role};
use crate::progress::{say, step};
use crate::qemu::{self, Accel, BootFiles, GuestMachine};
use crate::roots::{self, DebianRoot, System};

const AGENT: &str = "scherzo-guest-agent";

/// Both roots, the guest's disk, its kernels, and the agent.
#[derive(Debug)]
pub struct Rig {
    cache: Cache,
    build_root: DebianRoot,
    guest_root: DebianRoot,
    kernels: Vec<GuestKernel>,
    disk: PathBuf,
    system: System,
    checkout: PathBuf,
    scratch: TempDir,
}

impl Rig {
    /// Makes what is not in the cache yet: the two roots side by side, then the disk.
    pub fn prepare(checkout: &Path) -> Result<Self> {
        Self::prepare_with(checkout, System::Small)
    }

    /// The same with a certain guest.
    pub fn prepare_with(checkout: &Path, system: System) -> Result<Self> {
        let cache = Cache::open()?;
        let (build_root, guest_root) = thread::scope(|scope| {
            let guest = scope.spawn(|| roots::guest_root(&cache, system));
            let build = roots::build_root_for(&cache, system.architecture());
            let guest = guest.join().unwrap_or_else(|_| Err(anyhow!("making the guest root panicked")));
            Ok::<_, anyhow::Error>((build?, guest?))
        })?;
        let kernels = kernels::installed(&guest_root)?;
        let disk = match system {
            System::Arm64 => arm64::root_disk(&cache, &build_root, &guest_root, kernels.first().context("no kernel")?)?,
            _ => image::root_disk(&cache, &build_root, &guest_root, system)?,
        };
        if system != System::Arm64 {
            kernels::say_what_is_missing(&kernels);
        }
        let scratch = tempfile::Builder::new().prefix("scherzo-").tempdir()?;
        let checkout = checkout.to_owned();
        let rig = Self { cache, build_root, guest_root, kernels, disk, system, checkout, scratch };
        rig.workspace()?.build(&["scherzo-rig"], &[AGENT], rig.scratch.path())?;
        Ok(rig)
    }

    /// The checkout, to be compiled inside the build root.
    pub fn workspace(&self) -> Result<Workspace<'_>> {
        let workspace = Workspace::open(&self.cache, &self.build_root, &self.checkout)?;
        Ok(workspace.for_architecture(self.system.architecture()))
    }

    /// Where finished work is kept.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The root in which the checkout is compiled.
    #[must_use]
    pub fn build_root(&self) -> &DebianRoot {
        &self.build_root
    }

    /// All kernels that the guest has.
    #[must_use]
    pub fn kernels(&self) -> &[GuestKernel] {
        &self.kernels
    }

    /// What the archive has; for a rig of [`System::EveryKernel`].
    pub fn archive(&self) -> Result<Vec<ArchivedKernel>> {
        every::catalogue(&self.guest_root)
    }

    /// The kernel for a role.
    pub fn kernel(&self, role: Role) -> Result<&GuestKernel> {
        let found = self.kernels.iter().find(|kernel| kernel.role == role);
        found.with_context(|| format!("the archive offers no kernel for the role \"{role}\""))
    }

    /// The kernel whose release starts so.
    pub fn kernel_by_prefix(&self, prefix: &str) -> Result<&GuestKernel> {
        let found = self.kernels.iter().find(|kernel| kernel.release.starts_with(prefix));
        let all = || self.kernels.iter().map(|kernel| kernel.release.as_str()).collect::<Vec<_>>().join(", ");
        found.with_context(|| format!("no kernel {prefix}; there are {}", all()))
    }

    /// A disk with the rig's own files and a tree laid out as installed.
    pub fn payload(&self, tree: &Path) -> Result<PathBuf> {
        let files = RigFiles {
            agent: self.scratch.path().join(AGENT),
            foreign_scheduler: image::foreign_scheduler(&self.cache, &self.build_root)?,
            no_directory_sync: image::no_directory_sync(&self.cache, &self.build_root, self.system)?,
        };
        let path = self.scratch.path().join("payload.img");
        image::payload_disk(&self.build_root, &files, tree, &path)?;
        Ok(path)
    }

    /// Boots a kernel with a payload disk, once.
    pub fn boot(&self, kernel: &GuestKernel, machine: &GuestMachine, payload: &Path) -> Result<Guest> {
        let accel = self.accel(kernel)?;
        let boot = BootFiles { payload: Some(payload.to_owned()), ..self.bare_boot(kernel)? };
        let what = format!("booting {} with {} CPUs", kernel.release, machine.nr_cpus);
        step(&what, || Guest::boot(&self.build_root, accel, kernel, machine, &boot))
    }

    /// The same, with a second attempt: emulated kernels sometimes hang before their first process.
    pub fn boot_patiently(&self, kernel: &GuestKernel, machine: &GuestMachine, payload: &Path) -> Result<Guest> {
        self.boot(kernel, machine, payload).or_else(|error| {
            say(&format!("trying once more, since {error:#}"));
            self.boot(kernel, machine, payload)
        })
    }

    /// How guests run on this machine; found out by booting a tiny one if it is not known yet.
    pub fn accel(&self, kernel: &GuestKernel) -> Result<Accel> {
        if !self.system.architecture().is_of_host() {
            return Ok(Accel::Tcg);
        }
        qemu::choose_accel(&self.cache, &self.build_root, &self.bare_boot(kernel)?)
    }

    fn bare_boot(&self, kernel: &GuestKernel) -> Result<BootFiles> {
        Ok(BootFiles {
            kernel: kernel.image(&self.guest_root),
            initramfs: image::initramfs(&self.cache, &self.build_root, &self.guest_root, kernel)?,
            disk: Some(self.disk.clone()),
            ..BootFiles::default()
        })
    }
}

/// A line for each kernel that is there.
pub fn announce(rig: &Rig) {
    for GuestKernel { role, release } in rig.kernels() {
        say(&format!("kernel for \"{role}\": {release}"));
    }
}
