//! What can be typed.

#[cfg(test)]
mod documented;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use scherzo_api::types::Seat;

pub(crate) use self::values::{Colour, Format, Switch};
use self::values::{ModeName, SettingKey};
use crate::times;

/// Lines have at most 80 columns, because clap wraps each longer line by itself.
const EXAMPLES: &str = "\
Examples:
  scherzoctl enable                    turn Scherzo on, now and after every start
  scherzoctl status                    what runs, and why
  scherzoctl mode low-power            save energy
  scherzoctl mode fifo --for 2h        first come, first served, for two hours
  scherzoctl mode auto                 let Scherzo decide again
  scherzoctl preemption off            interactive tasks wait for the end of a slice
  scherzoctl engine user               decisions are made in user space
  scherzoctl run --mode fifo -- make   a mode while a command runs
  scherzoctl monitor                   waiting times and more, second by second
  scherzoctl doctor                    what is wrong, and what to do";

const MORE: &str = "\
For scripts:
  scherzoctl --json stats | jq .stats.nr_switches
  cd /var/lib/prometheus/node-exporter &&
    scherzoctl stats --format prometheus >scherzo.new && mv scherzo.new scherzo.prom

Every JSON document is an object whose \"schema\" is 2; docs/json.md lists the fields.

Exit codes:
  0  done
  1  failure
  2  wrong usage, such as an unknown mode
  3  the service is not reachable
  4  not authorized
  5  this kernel does not support it
  6  another scheduler is in the way
  7  the scheduler is not running
  8  loading the scheduler failed
  9  busy, try again
 10  the service is running but does not answer
 11  the scheduler fell back: the kernel's own runs

Questions are given up after 2 seconds, changes after 25, unless a person is
being asked for a password. With --json a failure is an object on standard
error, whose \"error\" has \"id\", \"exit_code\" and \"text\".

`run`, and `hold` with a command, end with the command's own code: 128 + n if
signal n ended it, 126 and 127 if it could not be started.";

/// Show and control Scherzo, the CPU scheduler for the desktop.
#[derive(Debug, Parser)]
#[command(name = "scherzoctl", version, after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{MORE}"))]
pub(crate) struct Options {
    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colour; without this, in a terminal unless NO_COLOR is set
    #[arg(long = "color", global = true, value_enum, value_name = "WHEN", default_value_t = Colour::Auto, hide_default_value = true)]
    pub(crate) colour: Colour,

    /// Talk to a simulated service on the session bus, for developers: `scherzod --simulate`
    #[arg(long, global = true)]
    pub(crate) session: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what runs, and why
    Status,
    /// Say by the exit code whether Scherzo's scheduler is loaded, and print the state
    ///
    /// 0: running, or degraded (loaded, but its user-space part does not answer). 9: starting, ask again. 7: turned off.
    /// 11: it fell back, so the kernel's own scheduler runs. 6: another scheduler is loaded (foreign). 5: this kernel
    /// cannot run it. 3: the service is not running. 10: the service does not answer.
    ///
    /// In a script: `if scherzoctl is-running --quiet; then …`
    IsRunning {
        /// Print nothing
        #[arg(long, short)]
        quiet: bool,
    },
    /// Turn Scherzo on, now and after every start of the system
    Enable,
    /// Turn Scherzo off for good, and hand the machine back to the kernel's own scheduler
    Disable,
    /// Show the mode, or choose one
    ///
    /// auto: let Scherzo choose, by power source, power profile and what programs ask for.
    ///
    /// interactive: what you use comes first, however busy the machine is.
    ///
    /// fifo: in order of arrival, with the least overhead, for work where only throughput counts.
    ///
    /// low-power: background work keeps to a few CPUs, so that the others sleep.
    ///
    /// A choice lasts until the next one, until the computer is plugged in or unplugged, or as long as --for says.
    Mode {
        /// auto, interactive, fifo or low-power; without it, the mode in effect is shown
        #[arg(value_parser = ModeName { or_auto: true }, hide_possible_values = true)]
        mode: Option<String>,
        /// Choose it for so long only, then auto again: 30min, 2h, 3d
        #[arg(long = "for", value_name = "TIME", value_parser = times::parse_span, requires = "mode")]
        seconds: Option<u32>,
    },
    /// Show or choose whether interactive tasks may take a CPU from batch tasks at once
    Preemption {
        /// Without it, what is in effect is shown
        #[arg(value_enum, value_name = "SWITCH")]
        preemption: Option<Switch>,
    },
    /// Show or choose where the policy is applied
    ///
    /// kernel: by the kernel side itself.
    ///
    /// user: by the engine in user space.
    ///
    /// The scheduler stays loaded. A choice lasts until the setting kernel_seat, which is the default, is changed.
    Engine {
        /// user or kernel; without it, what is in effect is shown
        #[arg(value_parser = PossibleValuesParser::new(Seat::ALL.map(Seat::name)), hide_possible_values = true)]
        engine: Option<String>,
    },
    /// Run a command, and hold a mode while it runs
    ///
    /// The command starts within a second: if the mode cannot be held, or the service does not answer, that is said on
    /// standard error and the command runs all the same. Nobody is asked for a password without --ask. The exit code is
    /// the command's. `hold` is for scripts that would rather fail.
    ///
    /// SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the command. What a terminal sends to
    /// both, by Ctrl-C for instance, is not passed on once more.
    Run(RunOptions),
    /// Hold a mode until Ctrl-C, for a time, or while a command runs
    ///
    /// Fails if the mode cannot be held; may ask for a password. Signals are passed on to the command as by `run`.
    ///
    /// The newest hold decides, but low-power comes before all; a choice of mode by a person releases all holds.
    Hold(HoldOptions),
    /// Have an application count as the one in front until Ctrl-C
    ///
    /// A desktop can do this by itself, with SetForeground on D-Bus; none does so yet. The application is named by its control group: its
    /// tasks weigh four times as much as otherwise, or what the setting foreground_percent says.
    ///
    /// A group is named by its path, as /proc/PID/cgroup shows it after "0::". It must be one of your own session's, but
    /// root may name any.
    ///
    /// For a program that runs: `scherzoctl foreground "$(sed -n s/^0:://p /proc/PID/cgroup)"`
    Foreground {
        /// Such as /user.slice/user-1000.slice/user@1000.service/app.slice/app-game.scope
        #[arg(value_name = "PATH", value_parser = NonEmptyStringValueParser::new(), value_hint = ValueHint::Other)]
        group: String,
    },
    /// Print the statistics since the scheduler was loaded
    Stats {
        /// How; prometheus is for the textfile collector of its node exporter
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Write man pages and shell completions into a directory
    #[command(hide = true)]
    Generate {
        /// The directory, which exists
        directory: PathBuf,
    },
    /// Show all settings, or change one
    ///
    /// `get KEY` prints one, `set KEY VALUE` changes it for good, `unset KEY` returns to its default.
    ///
    /// The scherzo.toml that comes with the program explains each. What files in /etc/scherzo say cannot be changed here.
    Config {
        #[command(subcommand)]
        action: Option<ConfigAction>,
    },
    /// Show or change which applications decide the mode while they run, or are in front
    ///
    /// Rules are kept in ~/.config/scherzo/applications.toml, and for everyone in /etc/scherzo/applications.toml. They
    /// are followed while `scherzoctl applications watch` runs in the session:
    /// `systemctl --user enable --now scherzo-applications`.
    Applications {
        #[command(subcommand)]
        action: Option<ApplicationsAction>,
    },
    /// Look for what is wrong, and say what to do; works without the service, too
    Doctor,
    /// Print what has happened, the newest last
    ///
    /// Times are local. The service keeps the newest entries, also across restarts.
    History(HistoryOptions),
    /// Show what happens, second by second, until Ctrl-C: a picture in a terminal, else a line per second
    Monitor,
    /// Record what tasks do, for the simulator; only root may do this
    ///
    /// When each task ran and slept, who woke whom, nice levels, policies and names of threads are written to a file, a
    /// scenario in TOML; no command lines, files or data. `cargo xtask sim FILE` replays it, in Scherzo's source code, with
    /// any scheduler. docs/simulator.md says what differs then.
    ///
    /// Works whichever scheduler is loaded. It is done with the kernel's tracing, in an instance of its own, which is removed
    /// at the end. At most 4096 tasks and 200,000 of their steps are kept. Ctrl-C ends it early.
    Record(RecordOptions),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print the value of a setting
    Get {
        /// Its name, as `scherzoctl config` lists it
        #[arg(value_parser = SettingKey, hide_possible_values = true)]
        key: String,
    },
    /// Change a setting; partial, per_node_idle, watchdog_s and policy load the scheduler anew
    Set {
        /// Its name, as `scherzoctl config` lists it
        #[arg(value_parser = SettingKey, hide_possible_values = true)]
        key: String,
        /// Its new value
        #[arg(allow_negative_numbers = true)]
        value: String,
    },
    /// Take back what `set` has changed: the default counts again, also that of a later version
    Unset {
        /// Names, as `scherzoctl config` lists them
        #[arg(required = true, value_parser = SettingKey, hide_possible_values = true)]
        keys: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApplicationsAction {
    /// Make a rule of your own
    Set {
        /// A desktop id such as org.gnome.Builder, or the absolute path of an executable
        application: String,
        /// interactive, fifo or low-power; auto sets a rule of the administrator's aside
        #[arg(value_parser = ModeName { or_auto: true }, hide_possible_values = true)]
        mode: String,
        /// Have the application count as the one in front while it runs: it weighs more, as with `scherzoctl foreground`
        #[arg(long)]
        foreground: bool,
    },
    /// Remove a rule of your own
    Unset {
        /// The desktop id or path
        application: String,
    },
    /// Follow the rules until Ctrl-C; a service of the session does this
    Watch {
        /// Take the applications of this control group
        #[arg(long, hide = true)]
        slice: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HistoryOptions {
    /// How many entries, the newest; 0 for all that are kept. Without it 20, or with --since all
    pub(crate) entries: Option<u32>,
    /// Leave out what was before: "2026-03-01 17:05", "17:05", today, yesterday, 30min, 2h, 3d, @SECONDS since 1970
    #[arg(long, value_name = "TIME", value_parser = times::parse, allow_hyphen_values = true)]
    pub(crate) since: Option<u64>,
    /// Go on with what happens from now on, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print times in UTC
    #[arg(long)]
    pub(crate) utc: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// For how long, at most 60
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// Where to
    #[arg(long, short, value_name = "FILE", default_value = "scherzo-recording.toml", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// interactive, fifo or low-power
    #[arg(long, short, value_parser = ModeName { or_auto: false }, hide_possible_values = true)]
    pub(crate) mode: String,
    /// Why, in a few words for people
    #[arg(long, short, default_value = "it is running")]
    pub(crate) reason: String,
    /// Ask for a password if holding the mode needs one; the command starts meanwhile
    #[arg(long)]
    pub(crate) ask: bool,
    /// Have the control group that the command starts in count as the application in front meanwhile
    ///
    /// Or the one of this path: see `scherzoctl foreground`. Mode and group are held together, or neither is. Whatever else
    /// runs in the group is in front with it, such as the shell. In a group of its own:
    /// `systemd-run --user --scope scherzoctl run --foreground …`
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = OWN_GROUP)]
    #[arg(value_parser = NonEmptyStringValueParser::new(), value_hint = ValueHint::Other)]
    pub(crate) foreground: Option<String>,
    /// The command with its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct HoldOptions {
    /// interactive, fifo or low-power
    #[arg(long, short, value_parser = ModeName { or_auto: false }, hide_possible_values = true)]
    pub(crate) mode: String,
    /// Why, in a few words for people
    #[arg(long, short)]
    pub(crate) reason: String,
    /// Hold it for so long at most: 30min, 2h, 3d
    #[arg(long = "for", value_name = "TIME", value_parser = times::parse_span)]
    pub(crate) seconds: Option<u32>,
    /// Have the control group of this path, or the one that the command starts in, count as the application in front meanwhile
    ///
    /// See `scherzoctl foreground`. Mode and group are held together, or neither is. Whatever else runs in the group is in
    /// front with it, such as the shell.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = OWN_GROUP)]
    #[arg(value_parser = NonEmptyStringValueParser::new(), value_hint = ValueHint::Other)]
    pub(crate) foreground: Option<String>,
    /// The command with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

/// What stands for the control group that this program is in, and what it starts.
pub(crate) const OWN_GROUP: &str = "self";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_may_follow_the_command() {
        let options = Options::try_parse_from(["scherzoctl", "mode", "fifo", "--json"]).unwrap();
        assert!(options.json && matches!(options.command, Command::Mode { mode: Some(mode), .. } if mode == "fifo"));
    }
}
