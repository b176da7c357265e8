//! The commands for contributors: `cargo xtask …`.

mod bench;
mod codegen;
mod demo;
mod deny;
mod docs;
mod guest;
mod install;
mod lint;
mod native;
mod package;
mod po;
mod release_check;
mod screenshots;
mod sim;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, test and show Scherzo")]
struct Arguments {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Show the main job on a real kernel: load, change mode while it runs, measure, unload
    Demo(demo::DemoOptions),
    /// Test everything, or the parts that are named; ends with one line "N passed, N failed, N skipped"
    Test(test::TestOptions),
    /// Gather messages for translation, and bring the languages up to date
    Po(po::PoOptions),
    /// Fail unless a release can be made: every language is complete
    ReleaseCheck,
    /// Write the generated pages and tables of the documentation
    Docs(docs::Options),
    /// Write the files that repeat what crates/model says: C, JavaScript, the shipped settings file, tables in documents
    Codegen(codegen::CodegenOptions),
    /// Boot a guest and run a command in it
    Guest(guest::GuestOptions),
    /// Compare with the kernel default, other schedulers, and real-time threads
    ///
    /// Boots guests on a clock that counts instructions, and measures the contenders in turns. In software emulation a
    /// guest with 4 CPUs takes 60 s to boot and 2.2 s for every second that it measures. On both kernels, on two free
    /// cores, the core set and the peers take about 80 minutes each, and the tools 2 hours; building the four peers, once,
    /// 20 minutes more. A run that is interrupted goes on where it was. A quick look, of about 3 minutes: --kernel 6.18
    /// --load hog1,fork --who default,scherzo,floor --rounds 1 --seconds 5
    Bench(bench::BenchOptions),
    /// Run a scenario in the simulator: the scheduler's own source over an emulated kernel
    Sim(sim::SimOptions),
    /// Install what `cargo build --release --workspace` has made
    Install(install::InstallOptions),
    /// Remove what `cargo xtask install` has installed; with the same directories
    Uninstall(install::Directories),
    /// Make packages for Debian, Fedora or Arch Linux, in a Debian root and without a network
    Package(package::PackageOptions),
    /// Take the pictures in docs/screenshots again
    Screenshots,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: XtaskCommand) -> Result<ExitCode> {
    match task {
        XtaskCommand::Demo(options) => demo::run(&checkout()?, &options),
        XtaskCommand::Test(options) => test::run(&checkout()?, &options),
        XtaskCommand::Po(options) => po::run(&checkout()?, &options),
        XtaskCommand::ReleaseCheck => release_check::run(&checkout()?),
        XtaskCommand::Codegen(options) => codegen::run(&checkout()?, &options),
        XtaskCommand::Docs(options) => docs::run(&checkout()?, &options),
        XtaskCommand::Guest(options) => guest::run(&checkout()?, &options),
        XtaskCommand::Bench(options) => bench::run(&checkout()?, &options),
        XtaskCommand::Sim(options) => sim::run(&checkout()?, &options),
        XtaskCommand::Install(options) => install::install(&checkout()?, &options),
        XtaskCommand::Uninstall(options) => install::uninstall(&options),
        XtaskCommand::Package(options) => package::run(&checkout()?, &options),
        XtaskCommand::Screenshots => screenshots::run(&checkout()?),
    }
}

/// The top of this checkout.
fn checkout() -> Result<PathBuf> {
    // Cargo says where it runs this from; without cargo it is where this was built.
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.ancestors().nth(2).map(std::path::Path::to_owned).context("xtask is not in crates/xtask")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Lines of the documentation that call `cargo xtask`, as words after it.
    fn commands() -> Vec<Vec<String>> {
        let top = checkout().unwrap();
        let pages =
            ["docs", "packaging/fedora", ""].into_iter().flat_map(|folder| top.join(folder).read_dir().unwrap());
        let pages =
            pages.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
        let texts: Vec<_> = pages.map(|page| std::fs::read_to_string(page).unwrap()).collect();
        let calls = texts.iter().flat_map(|text| text.split("cargo xtask ").skip(1));
        let line = |call: &str| call.split(['\n', '`', '#', '(', '|']).next().unwrap_or_default().to_owned();
        calls.map(|call| line(call).split_whitespace().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn commands_in_the_documentation_exist() {
        let program = Arguments::command();
        let mut nr_checked = 0;
        for words in
            commands().iter().filter(|words| words.first().is_some_and(|word| word.starts_with(char::is_alphabetic)))
        {
            let command = program.find_subcommand(&words[0]);
            let command =
                command.unwrap_or_else(|| panic!("the documentation names `cargo xtask {}`", words.join(" ")));
            let options = words.iter().take_while(|word| *word != "--").filter_map(|word| word.strip_prefix("--"));
            for option in options {
                let name = option.split('=').next().unwrap_or_default();
                let known = command.get_arguments().any(|argument| argument.get_long() == Some(name));
                assert!(known, "the documentation names `cargo xtask {}`", words.join(" "));
            }
            nr_checked += 1;
        }
        assert!(nr_checked >= 10, "only {nr_checked} commands were found");
    }
}
