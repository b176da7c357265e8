//! `scherzoctl`, the command line of Scherzo: a client of the D-Bus service and nothing else.

mod applications;
mod cli;
mod client;
mod config;
mod doctor;
mod failure;
mod generate;
mod history;
mod hold;
mod monitor;
mod openmetrics;
mod output;
mod screen;
mod stats;
mod status;

use std::process::ExitCode;

use clap::Parser;

use cli::{Command, Options, Switch};
use client::Client;
use failure::Failure;
use output::Output;

fn main() -> ExitCode {
    let options = Options::parse();
    if !options.json {
        scherzo_i18n::init();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::new(failure::FAILURE, error.to_string()).report(),
    };
    match runtime.block_on(run(&options)) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

async fn run(options: &Options) -> Result<ExitCode, Failure> {
    let output = Output::new(options.json);
    if let Command::Run(options_of_run) = &options.command {
        return hold::run(options.session, options_of_run).await;
    }
    if let Command::Generate { directory } = &options.command {
        return generate::write(directory).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Doctor = &options.command {
        return doctor::run(options.session, &output).await.map(|()| ExitCode::SUCCESS);
    }
    if let Command::Applications { action } = &options.command {
        return applications::run(options.session, &output, action.as_ref()).await.map(|()| ExitCode::SUCCESS);
    }
    let client = Client::connect(options.session).await?;
    if let Command::Hold(hold) = &options.command {
        return hold::hold(&client, hold).await;
    }
    talk(&client, &output, &options.command).await.map(|()| ExitCode::SUCCESS)
}

async fn talk(client: &Client, output: &Output, command: &Command) -> Result<(), Failure> {
    match command {
        // They have ways of their own.
        Command::Run(_)
        | Command::Hold(_)
        | Command::Applications { .. }
        | Command::Doctor
        | Command::Generate { .. } => Ok(()),
        Command::Status => status::show(client, output).await,
        Command::Enable => {
            client.scheduler().await?.set_enabled(true).await?;
            status::confirm(client, output).await
        }
        Command::Disable => {
            client.scheduler().await?.set_enabled(false).await?;
            status::confirm(client, output).await
        }
        Command::Mode { mode: None } => status::show_mode(client, output).await,
        Command::Mode { mode: Some(mode) } => {
            client.scheduler().await?.set_mode(mode).await?;
            status::confirm(client, output).await
        }
        Command::Preemption { preemption: None } => status::show_preemption(client, output).await,
        Command::Preemption { preemption: Some(switch) } => {
            client.scheduler().await?.set_preemption(*switch == Switch::On).await?;
            status::confirm(client, output).await
        }
        Command::Stats { format } => stats::show(client, output, *format).await,
        Command::Config { action } => config::run(client, output, action.as_ref()).await,
        Command::History { entries } => history::show(client, output, *entries).await,
        Command::Monitor => monitor::run(client, output).await,
    }
}
