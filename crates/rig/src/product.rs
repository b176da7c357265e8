//! The product as it is installed, for the rig: built, with its languages, laid out by the one list in
//! `scherzo-install`.

use std::path::Path;

use anyhow::Result;
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
    put(&items(&sources, &Layout::default())?, tree)
}
