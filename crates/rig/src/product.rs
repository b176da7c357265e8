//! The product as it is installed, for the rig: built, with its languages, laid out by the one list in
//! `scherzo-install`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};
use scherzo_install::{GENERATOR, Layout, Sources, items, programs, put};

use crate::build::Workspace;
use crate::translations;

/// Builds the checkout in the build root and lays it out under `tree` as its packages would on a real system.
pub fn install(workspace: &Workspace<'_>, tree: &Path) -> Result<()> {
    let [built, generated, languages] = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let (packages, names) = programs();
    workspace.build(&packages, &names, built.path())?;
    let (program, argument) = GENERATOR;
    workspace.run(&built.path().join(program), argument, generated.path())?;
    translations::compile(workspace, languages.path())?;
    let sources = Sources {
        checkout: workspace.checkout(),
        programs: built.path(),
        generated: generated.path(),
        languages: languages.path(),
    };
    put(&items(&sources, &Layout::default())?, tree)?;
    enable_activation(tree)
}

/// The part of `systemctl enable` that has the bus start the service when somebody calls it. It does not start with the system.
fn enable_activation(tree: &Path) -> Result<()> {
    let alias = tree.join("etc/systemd/system/dbus-org.scherzo.Scheduler1.service");
    fs::create_dir_all(alias.parent().context("no parent")?)?;
    symlink("/usr/lib/systemd/system/scherzod.service", alias).context("cannot make the alias of the unit")
}
