//! `cargo xtask demo`: the main job, set up from nothing and shown.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use scherzo_cases::demo;
use scherzo_rig::kernels::Role;
use scherzo_rig::product;
use scherzo_rig::qemu::{Accel, GuestMachine, GuestTime};
use scherzo_rig::rig::{Rig, announce};
use scherzo_rig::shell::{Native, Shell};

const NR_CPUS: u32 = 4;
const INSTALL_LIMIT: Duration = Duration::from_mins(1);

#[derive(Args)]
pub(crate) struct DemoOptions {
    /// Show it on this machine, whose kernel must have sched_ext, instead of in a guest; asks first
    #[arg(long)]
    native: bool,
}

pub(crate) fn run(checkout: &Path, options: &DemoOptions) -> Result<ExitCode> {
    if options.native {
        ensure!(
            Path::new("/sys/kernel/sched_ext").exists(),
            "this machine's kernel has no sched_ext: leave --native out, and a guest with one is made"
        );
    }
    let rig = Rig::prepare(checkout)?;
    let tree = tempfile::tempdir()?;
    product::install(&rig.workspace()?, tree.path())?;
    if options.native {
        show_here(tree.path())?;
    } else {
        show_in_guest(&rig, tree.path())?;
    }
    println!("\nEverything shown above happened and was checked.");
    Ok(ExitCode::SUCCESS)
}

fn show_in_guest(rig: &Rig, tree: &Path) -> Result<()> {
    announce(rig);
    let kernel = rig.kernel(Role::Lts).or_else(|_| rig.kernel(Role::Newest))?;
    let payload = rig.payload(tree)?;
    // In emulation only a clock that counts instructions gives meaningful figures.
    let time = if rig.accel(kernel)? == Accel::Kvm { GuestTime::Real } else { GuestTime::Virtual };
    let machine = GuestMachine { nr_cpus: NR_CPUS, time, ..GuestMachine::default() };
    let mut guest = rig.boot_patiently(kernel, &machine, &payload)?;
    demo::show(&mut guest)?;
    if time == GuestTime::Virtual {
        println!(
            "\nThis guest is emulated: its {NR_CPUS} CPUs take turns, so that a mode that leaves some of them idle loses \
             no throughput here, and no latency is shorter than a turn."
        );
    }
    Ok(())
}

/// Installs, runs the demonstration, and uninstalls even if it failed.
fn show_here(tree: &Path) -> Result<()> {
    let files = files_of(tree, Path::new(""))?;
    let present: Vec<_> = files.iter().map(|file| Path::new("/").join(file)).filter(|file| file.exists()).collect();
    ensure!(present.is_empty(), "Scherzo is installed on this machine already: remove {present:?} first");
    ensure!(agreed(&files)?, "nothing was changed on this machine, and nothing shown");
    let mut shell = Native;
    let shown = install(&mut shell, tree).and_then(|()| demo::show(&mut shell));
    let removed = remove(&mut shell, &files);
    shown.and(removed)
}

fn agreed(files: &[PathBuf]) -> Result<bool> {
    ensure!(std::io::stdin().is_terminal(), "--native asks first, and there is no terminal to ask on");
    println!("This installs on this machine:");
    for file in files {
        println!("  /{}", file.display());
    }
    print!("It runs for about two minutes with two CPU hogs per CPU, and removes the files again. Go on? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// All files below a directory, relative to it.
fn files_of(tree: &Path, below: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in tree.join(below).read_dir()? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(files_of(tree, &path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

const RELOAD: &str =
    "systemctl daemon-reload && busctl --system call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig";

fn install(shell: &mut Native, tree: &Path) -> Result<()> {
    let tree = tree.to_str().context("the temporary directory's name is not UTF-8")?;
    let copy = format!("cd '{tree}' && tar -c --owner=0 --group=0 . | tar -x -C / --no-overwrite-dir");
    shell.check(&format!("{copy} && {RELOAD}"), INSTALL_LIMIT).map(drop)
}

fn remove(shell: &mut Native, files: &[PathBuf]) -> Result<()> {
    let paths: Vec<_> = files.iter().map(|file| format!("'/{}'", file.display())).collect();
    let command = format!("systemctl stop scherzod.service; rm -f {}; {RELOAD}", paths.join(" "));
    shell.check(&command, INSTALL_LIMIT).context("not everything that was installed is removed").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_listed_relative_to_the_tree() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("usr/bin")).unwrap();
        std::fs::write(tree.path().join("usr/bin/scherzoctl"), "").unwrap();
        assert_eq!(files_of(tree.path(), Path::new("")).unwrap(), [PathBuf::from("usr/bin/scherzoctl")]);
    }
}
