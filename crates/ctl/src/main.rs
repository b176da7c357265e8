//! `scherzoctl`, the command line of Scherzo: a client of the D-Bus service, and what records tasks for the simulator.

mod applications;
mod cli;
mod client;
mod config;
mod doctor;
mod failure;
mod foreground;
mod generate;
mod groups;
mod held;
mod history;
mod hold;
mod image;
mod installed;
mod monitor;
mod openmetrics;
mod output;
mod patience;
mod policies;
mod record;
mod screen;
mod signals;
mod stats;
mod status;
mod times;

use std::process::ExitCode;

use clap::Parser;
use scherzo_api::SchedulerProxy;

use cli::{Colour, Command, Options, Switch};
use client::CommandClient;
use failure::{Failure, Kind};
use output::Output;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => return misused(&error),
    };
    if !options.json {
        scherzo_i18n::init();
    }
    let output = Output::new(options.json, options.colour);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::from(error).report(&output),
    };
    runtime.block_on(run(&options, &output)).unwrap_or_else(|failure| failure.report(&output))
}

/// Says what is wrong with the arguments, or prints the help that was asked for.
fn misused(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if !(is_json && error.use_stderr()) {
        error.exit();
    }
    let text = error.to_string();
    let sentence = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    Failure::new(Kind::Usage, sentence).report(&Output::new(true, Colour::Never))
}

async fn run(options: &Options, output: &Output) -> Result<ExitCode, Failure> {
    match &options.command {
        Command::Run(run) => return hold::run(options.session, output, run).await,
        Command::Hold(hold) => return hold::hold(&CommandClient::connect(options.session).await?, output, hold).await,
        Command::Foreground { group } => {
            return foreground::keep(&CommandClient::connect(options.session).await?, group).await;
        }
        Command::Generate { directory } => generate::write(directory)?,
        Command::Record(options) => record::run(output, options).await?,
        Command::Doctor => doctor::run(options.session, output).await?,
        Command::IsRunning { quiet } => status::is_running(options.session, output, *quiet).await?,
        Command::Applications { action } => applications::run(options.session, output, action.as_ref()).await?,
        command => talk(&CommandClient::connect(options.session).await?, output, command).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn talk(client: &CommandClient, output: &Output, command: &Command) -> Result<(), Failure> {
    match command {
        // `run` has handled these.
        Command::Run(_)
        | Command::Hold(_)
        | Command::Foreground { .. }
        | Command::Applications { .. }
        | Command::Doctor
        | Command::Record(_)
        | Command::IsRunning { .. }
        | Command::Generate { .. } => Ok(()),
        Command::Status => status::show(client, output).await,
        Command::Enable => enable(client, output, true).await,
        Command::Disable => enable(client, output, false).await,
        Command::Mode { mode: None, .. } => status::show_mode(client, output).await,
        Command::Mode { mode: Some(mode), seconds } => {
            let choose = |scheduler: SchedulerProxy<'static>| async move {
                match seconds {
                    Some(seconds) => scheduler.set_mode_for(mode, *seconds).await,
                    None => scheduler.set_mode(mode).await,
                }
            };
            client.change(choose).await?;
            status::confirm(client, output).await
        }
        Command::Preemption { preemption: None } => status::show_preemption(client, output).await,
        Command::Preemption { preemption: Some(switch) } => {
            client.change(|scheduler| async move { scheduler.set_preemption(*switch == Switch::On).await }).await?;
            status::confirm(client, output).await
        }
        Command::Engine { engine: None } => status::show_engine(client, output).await,
        Command::Engine { engine: Some(engine) } => {
            client.change(|scheduler| async move { scheduler.set_engine(engine).await }).await?;
            status::confirm(client, output).await
        }
        Command::Stats { format } => stats::show(client, output, *format).await,
        Command::Config { action } => config::run(client, output, action.as_ref()).await,
        Command::History(options) => history::show(client, output, options).await,
        Command::Monitor => monitor::run(client, output).await,
    }
}

async fn enable(client: &CommandClient, output: &Output, enabled: bool) -> Result<(), Failure> {
    client.change(|scheduler| async move { scheduler.set_enabled(enabled).await }).await?;
    status::confirm(client, output).await
}
