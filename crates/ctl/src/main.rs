//! `scherzoctl`, the command line of Scherzo: a client of the D-Bus service and nothing else.

mod cli;
mod client;
mod failure;
mod monitor;
mod output;
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
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::new(failure::FAILURE, error.to_string()).report(),
    };
    match runtime.block_on(run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn run(options: &Options) -> Result<(), Failure> {
    let output = Output::new(options.json);
    let client = Client::connect(options.session).await?;
    match &options.command {
        Command::Status => status::show(&client, &output).await,
        Command::Enable => {
            client.scheduler().await?.set_enabled(true).await?;
            status::confirm(&client, &output).await
        }
        Command::Disable => {
            client.scheduler().await?.set_enabled(false).await?;
            status::confirm(&client, &output).await
        }
        Command::Mode { mode: None } => status::show_mode(&client, &output).await,
        Command::Mode { mode: Some(mode) } => {
            client.scheduler().await?.set_mode(mode).await?;
            status::confirm(&client, &output).await
        }
        Command::Preemption { preemption: None } => status::show_preemption(&client, &output).await,
        Command::Preemption { preemption: Some(switch) } => {
            client.scheduler().await?.set_preemption(*switch == Switch::On).await?;
            status::confirm(&client, &output).await
        }
        Command::Stats => stats::show(&client, &output).await,
        Command::Monitor => monitor::run(&client, &output).await,
    }
}
