//! Compiling the checkout inside the build root with the host's Rust toolchain.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::architecture::Architecture;
use crate::arm64::CROSS_ENVIRONMENT;
use crate::cache::{Cache, hash};
use crate::progress::say;
use crate::roots::{Bind, DebianRoot};

/// A checkout that can be compiled inside the build root.
#[derive(Debug)]
pub struct Workspace<'a> {
    cache: &'a Cache,
    build_root: &'a DebianRoot,
    checkout: PathBuf,
    toolchain: PathBuf,
    cargo_home: PathBuf,
    target: &'static str,
    architecture: Architecture,
}

impl<'a> Workspace<'a> {
    /// Finds the toolchain, and downloads what the lock file names: the root has no certificates of its own.
    pub fn open(cache: &'a Cache, build_root: &'a DebianRoot, checkout: &Path) -> Result<Self> {
        let sysroot = host_output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(checkout))?;
        let cargo_home = cargo_home()?;
        let fetch = Command::new("cargo").args(["fetch", "--locked", "--quiet"]).current_dir(checkout).status()?;
        ensure!(fetch.success(), "cargo fetch --locked failed");
        let checkout = checkout.canonicalize()?;
        let (toolchain, architecture) = (sysroot.into(), Architecture::default());
        Ok(Self { cache, build_root, checkout, toolchain, cargo_home, target: "target", architecture })
    }

    /// Compiled for that processor, in the root for it and with that root's compiler if it is not this machine's.
    #[must_use]
    pub fn for_architecture(self, architecture: Architecture) -> Self {
        let target = if architecture.cross_target().is_some() { "cross-target" } else { self.target };
        Self { target, architecture, ..self }
    }

    /// With a target directory of that name, so that nobody waits for this build.
    #[must_use]
    pub fn with_target(self, name: &'static str) -> Self {
        Self { target: name, ..self }
    }

    /// The checkout's directory on the host.
    #[must_use]
    pub fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// The root that it is compiled in.
    #[must_use]
    pub fn build_root(&self) -> &DebianRoot {
        self.build_root
    }

    /// `cargo ARGUMENTS` inside the build root, with a target directory that all checkouts share, so that dependencies
    /// are compiled once.
    ///
    /// Cargo does not distinguish the same package in two checkouts, and would use artefacts of one for the other. It
    /// does distinguish compiler wrappers for workspace members by their path, so each checkout has a wrapper of its
    /// own. `cargo clippy` uses its driver as that wrapper, so the toolchain's path differs too.
    pub fn cargo(&self, arguments: &[&str]) -> Result<Command> {
        let target = self.target();
        fs::create_dir_all(&target)?;
        let id = format!("{:016x}", hash(&self.checkout.display().to_string()));
        let (source, toolchain, wrapper) = (format!("/src-{id}"), format!("/toolchain-{id}"), format!("/wrapper-{id}"));
        let mut binds = vec![
            Bind::new(&self.checkout, &source),
            Bind::new(&self.toolchain, &toolchain),
            Bind::new(target, "/target"),
        ];
        // Not the whole directory: it holds rustup's proxies for cargo's subcommands, and credentials.
        let needed = ["registry", "git", "config.toml"].map(|name| (self.cargo_home.join(name), name));
        let existing = needed.into_iter().filter(|(path, _)| path.exists());
        binds.extend(existing.map(|(path, name)| Bind::new(path, Path::new("/cargo-home").join(name))));
        let path = if self.is_cross() { "$PATH" } else { &format!("{toolchain}/bin:$PATH") };
        let script = format!("ln -sfn /usr/bin/env {wrapper}; cd {source}; PATH={path}; exec cargo \"$@\"");
        let mut command = self.build_root.command(&binds, "sh");
        command.args(["-euc", &script, "cargo"]).args(arguments);
        command.envs([("CARGO_HOME", "/cargo-home"), ("CARGO_TARGET_DIR", "/target"), ("CARGO_NET_OFFLINE", "true")]);
        command.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
        if self.is_cross() {
            command.envs(CROSS_ENVIRONMENT);
        }
        Ok(command)
    }

    /// Whether it is compiled for another processor, with the root's compiler.
    fn is_cross(&self) -> bool {
        self.architecture.cross_target().is_some()
    }

    /// Held while cargo runs: finished binaries of two checkouts have the same names in the shared target directory.
    pub fn lock(&self) -> Result<File> {
        self.cache.lock(self.target)
    }

    /// Builds packages for release and copies the named binaries into `to`.
    pub fn build(&self, packages: &[&str], binaries: &[&str], to: &Path) -> Result<()> {
        let _lock = self.lock()?;
        say(&format!("building {}", packages.join(", ")));
        let mut arguments = vec!["build", "--offline", "--locked", "--release", "--bins"];
        arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
        let cross_target = self.architecture.cross_target();
        arguments.extend(cross_target.iter().flat_map(|target| ["--target", target]));
        let status = self.cargo(&arguments)?.status()?;
        ensure!(status.success(), "the build failed");
        fs::create_dir_all(to)?;
        let built = self.target().join(cross_target.unwrap_or_default()).join("release");
        for binary in binaries {
            let from = built.join(binary);
            fs::copy(&from, to.join(binary)).with_context(|| format!("{} was not built", from.display()))?;
        }
        Ok(())
    }

    /// Runs `PROGRAM ARGUMENT DIRECTORY` with a program that was built here, for what it writes into the directory.
    pub fn run(&self, program: &Path, argument: &str, directory: &Path) -> Result<()> {
        let binds = [Bind::new(program, "/mnt/program"), Bind::new(directory, "/mnt/out")];
        let emulator = self.architecture.program_emulator();
        self.build_root.shell(&binds, &format!("{emulator}/mnt/program {argument} /mnt/out"))
    }

    fn target(&self) -> PathBuf {
        self.cache.path(self.target)
    }
}

/// Where the host's cargo keeps what it downloads.
pub fn cargo_home() -> Result<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    set.or_else(home).context("neither CARGO_HOME nor HOME is set")
}

fn host_output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
