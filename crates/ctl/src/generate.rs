//! Man pages and shell completions, out of the same definitions as the command line itself.

use std::io;
use std::path::Path;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use scherzo_i18n::{fill, gettext};

use crate::cli::Options;
use crate::failure::{FAILURE, Failure};

/// Writes all of them into a directory.
pub(crate) fn write(directory: &Path) -> Result<(), Failure> {
    try_write(directory).map_err(|error| {
        Failure::new(
            FAILURE,
            fill(
                &gettext("Cannot write into {directory}: {error}."),
                &[("directory", &directory.display()), ("error", &error)],
            ),
        )
    })
}

fn try_write(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Options::command(), directory)?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Options::command(), "scherzoctl", directory)?;
    }
    Ok(())
}
