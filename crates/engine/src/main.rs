//! `scherzo-engine`: the process that schedules.
//!
//! Started by `scherzod` with a socket as standard input; of no use alone. It loads the scheduler into the kernel, runs
//! the policy over what the kernel hands up, and unloads when the socket closes. See `docs/architecture.md` for how the
//! two processes divide the work, and [`session`] for one life of this one.

#![allow(unsafe_code)]

mod arena;
mod bpf_skel;
mod exit;
mod filter;
mod filter_trial;
mod kernel;
mod kernel_file;
mod memory;
mod name;
mod privileges;
mod rings;
mod scheduler;
mod session;
mod signal;
mod topology;

use std::os::fd::AsFd;
use std::process::ExitCode;

const USAGE: &str = "scherzo-engine is started by scherzod, with a control socket as its standard input.\n\
                     To turn Scherzo on, run `scherzoctl enable`.";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--version") => {
            println!("scherzo-engine {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some("--help" | "-h") => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        // For the tests; see there.
        Some("--try-filters") => return end(filter_trial::run(std::env::args().nth(2).as_deref())),
        Some(_) => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
        None => {}
    }
    let stdin = std::io::stdin();
    if rustix::net::sockopt::socket_type(stdin.as_fd()).ok() != Some(rustix::net::SocketType::SEQPACKET) {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let served = stdin.as_fd().try_clone_to_owned().map_err(Into::into).and_then(|socket| session::run(&socket));
    end(served.map(|()| ExitCode::SUCCESS))
}

fn end(served: anyhow::Result<ExitCode>) -> ExitCode {
    served.unwrap_or_else(|error| {
        eprintln!("<3>{error:#}");
        ExitCode::FAILURE
    })
}
