//! `cargo xtask install` and `uninstall`: for this machine, and for packagers.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use scherzo_install::{GENERATOR, Item, Layout, Part, Sources, items, languages, put, record};

/// The service's unit.
const UNIT: &str = "scherzod.service";

#[derive(Args)]
pub(crate) struct Directories {
    /// Everything is below this
    #[arg(long, value_name = "DIRECTORY", default_value = "/usr/local")]
    prefix: PathBuf,
    /// For programs that only programs start [default: PREFIX/libexec]
    #[arg(long, value_name = "DIRECTORY")]
    libexecdir: Option<PathBuf>,
    /// For what does not depend on the processor; set SCHERZO_DATADIR to the same when building [default: PREFIX/share]
    #[arg(long, value_name = "DIRECTORY")]
    datadir: Option<PathBuf>,
    /// For the bus policy, unless the prefix is /usr: the bus looks nowhere else
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc")]
    sysconfdir: PathBuf,
    /// For zsh's completions [default: DATADIR/zsh/site-functions]
    #[arg(long, value_name = "DIRECTORY")]
    zshdir: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct InstallOptions {
    #[command(flatten)]
    directories: Directories,
    /// Write below this directory, which stands for /, without a record
    #[arg(long, value_name = "DIRECTORY")]
    destdir: Option<PathBuf>,
    /// Only what belongs to this package, such as scherzo-daemon; with --destdir
    #[arg(long, value_name = "PACKAGE", value_parser = parse_part, requires = "destdir")]
    part: Option<Part>,
    /// Where the programs have been built [default: release in cargo's target directory]
    #[arg(long, value_name = "DIRECTORY")]
    programs: Option<PathBuf>,
}

impl Directories {
    fn layout(&self) -> Layout {
        let mut layout = Layout::below(&self.prefix);
        layout.sysconf.clone_from(&self.sysconfdir);
        if let Some(dir) = &self.datadir {
            layout.data.clone_from(dir);
            layout.zsh_completions = dir.join("zsh/site-functions");
        }
        if let Some(dir) = &self.libexecdir {
            layout.libexec.clone_from(dir);
        }
        if let Some(dir) = &self.zshdir {
            layout.zsh_completions.clone_from(dir);
        }
        layout
    }
}

pub(crate) fn install(checkout: &Path, options: &InstallOptions) -> Result<ExitCode> {
    let layout = options.directories.layout();
    let programs = options.programs.clone().unwrap_or_else(|| target(checkout).join("release"));
    let [generated, compiled] = [tempfile::tempdir()?, tempfile::tempdir()?];
    let (program, argument) = GENERATOR;
    let program = programs.join(program);
    ensure!(program.exists(), "{} has not been built: cargo build --release --workspace", program.display());
    run(Command::new(&program).arg(argument).arg(generated.path()))?;
    run(Command::new("sh").args(["-euc", &languages::compile(), "sh"]).arg(checkout).arg(compiled.path()))
        .context("compiling translations, which needs msgfmt (in the package gettext)")?;
    let sources = Sources { checkout, programs: &programs, generated: generated.path(), languages: compiled.path() };
    let mut items = items(&sources, &layout)?;
    items.retain(|item| options.part.is_none_or(|part| item.part == part));
    if let Some(destdir) = &options.destdir {
        put(&items, destdir)?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure_not_of_a_package(&items, &layout)?;
    record::install(&items, &layout, Path::new("/")).map_err(|error| explain(error, "install"))?;
    println!("{} files are installed below {}. What is left to do, as root:\n", items.len(), layout.prefix.display());
    println!("    systemctl daemon-reload");
    println!("    systemctl reload dbus.service");
    // Not "enable --now", which leaves an earlier version running.
    println!("    systemctl reenable scherzod");
    println!("    systemctl restart scherzod\n");
    println!("Then: scherzoctl enable");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn uninstall(options: &Directories) -> Result<ExitCode> {
    let layout = options.layout();
    let record = record::path(&layout);
    ensure!(record.exists(), "nothing was installed from here: there is no {}", record.display());
    // While its unit is there: without it older versions of systemd disable and stop nothing.
    let is_stopped = run(Command::new("systemctl").args(["--no-ask-password", "disable", "--now", UNIT]));
    let nr_files = record::uninstall(&layout, Path::new("/")).map_err(|error| explain(error, "uninstall"))?;
    match is_stopped {
        Ok(()) => println!("The service is stopped, and {nr_files} files are removed. What is left to do, as root:\n"),
        Err(error) => println!("{nr_files} files are removed. The service was not stopped: {error:#}.\n"),
    }
    println!("    systemctl daemon-reload");
    println!("    systemctl reload dbus.service\n");
    println!("What was chosen and set is left in /var/lib/scherzo, the administrator's settings in /etc/scherzo.");
    Ok(ExitCode::SUCCESS)
}

/// Files of a package are its own: what is written over them, `uninstall` would take away from it.
fn ensure_not_of_a_package(items: &[Item], layout: &Layout) -> Result<()> {
    let is_ours = record::path(layout).exists();
    match items.iter().find(|item| !is_ours && item.path.exists()) {
        Some(item) => bail!(
            "{} is there, and was not installed from a checkout: if a package has brought Scherzo, remove that first, else this file",
            item.path.display()
        ),
        None => Ok(()),
    }
}

/// Cargo's target directory, which does not depend on where this is run.
pub(crate) fn target(checkout: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout.join("target"), |dir| checkout.join(dir))
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("cannot run {name}"))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

/// Root often has no Rust toolchain, and should not write into a user's checkout.
fn explain(error: anyhow::Error, verb: &str) -> anyhow::Error {
    let denied =
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::PermissionDenied);
    match std::env::current_exe() {
        Ok(program) if denied => error.context(format!("root can do this: sudo {} {verb} …", program.display())),
        _ => error,
    }
}

fn parse_part(name: &str) -> Result<Part, String> {
    Part::of_package(name).ok_or_else(|| {
        let names: Vec<_> = scherzo_install::PARTS.iter().map(|part| part.package()).collect();
        format!("there is no such package; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_were_not_installed_from_here_are_left_to_whoever_has_brought_them() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::below(dir.path());
        let path = dir.path().join("org.scherzo.policy");
        let items = [Item { part: Part::Daemon, path: path.clone(), content: Vec::new(), mode: 0o644 }];
        ensure_not_of_a_package(&items, &layout).unwrap();
        fs::write(&path, "of a package").unwrap();
        let problem = ensure_not_of_a_package(&items, &layout).unwrap_err().to_string();
        assert!(problem.contains("org.scherzo.policy"), "{problem}");
        let record = record::path(&layout);
        fs::create_dir_all(record.parent().unwrap()).unwrap();
        fs::write(&record, path.to_str().unwrap()).unwrap();
        ensure_not_of_a_package(&items, &layout).unwrap();
    }
}
