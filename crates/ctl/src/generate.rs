//! Man pages and shell completions, out of the same definitions as the command line itself.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use scherzo_api::types::RequestedMode;
use scherzo_i18n::{fill, gettext};

use crate::cli::Options;
use crate::failure::{Failure, Kind};

/// For fish only values of options are generated.
fn fish_positionals() -> String {
    let complete = |command: &str, values: &str| {
        format!("complete -c scherzoctl -n '__fish_scherzoctl_using_subcommand {command}' -f -a '{values}'\n")
    };
    complete("mode", &RequestedMode::ALL.map(RequestedMode::name).join(" ")) + &complete("preemption", "on off")
}

/// Writes all of them into a directory.
pub(crate) fn write(directory: &Path) -> Result<(), Failure> {
    try_write(directory).map_err(|error| {
        Failure::new(
            Kind::Failure,
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
        let file = clap_complete::generate_to(*shell, &mut Options::command(), "scherzoctl", directory)?;
        if *shell == Shell::Fish {
            fs::OpenOptions::new().append(true).open(file)?.write_all(fish_positionals().as_bytes())?;
        }
    }
    Ok(())
}
