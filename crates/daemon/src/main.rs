//! `scherzod`.

use std::process::ExitCode;

use clap::Parser;
use scherzo_daemon::cli;

fn main() -> ExitCode {
    cli::main(&cli::Options::parse())
}
