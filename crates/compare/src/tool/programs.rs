//! Which programs each tool needs.

use super::Tool;
use crate::program::OtherProgram;

const HACKBENCH: OtherProgram =
    OtherProgram { name: "hackbench", debian: "rt-tests", fedora: "realtime-tests", trial: "hackbench -l 1 -g 1" };
const PERF: OtherProgram = OtherProgram {
    name: "perf",
    debian: "linux-perf",
    fedora: "perf",
    trial: "perf bench sched messaging -g 1 -l 1 && perf bench sched pipe -l 10",
};
const STRESS_NG: OtherProgram = OtherProgram {
    name: "stress-ng",
    debian: "stress-ng",
    fedora: "stress-ng",
    trial: "stress-ng --switch 1 --timeout 1",
};
const CYCLICTEST: OtherProgram = OtherProgram {
    name: "cyclictest",
    debian: "rt-tests",
    fedora: "realtime-tests",
    trial: "cyclictest --policy=other -l 10 -q",
};
const CHRT: OtherProgram =
    OtherProgram { name: "chrt", debian: "util-linux", fedora: "util-linux", trial: "chrt --max" };
const BASH: OtherProgram = OtherProgram { name: "bash", debian: "bash", fedora: "bash", trial: "bash -c true" };

/// With the source that is built.
const MAKE: OtherProgram = OtherProgram {
    name: "make",
    debian: "make",
    fedora: "make",
    trial: "rm -rf /run/built && cp -r /usr/src/lua /run/built && make -s -C /run/built/src lapi.o",
};
const PW_TOP: OtherProgram =
    OtherProgram { name: "pw-top", debian: "pipewire-bin", fedora: "pipewire-utils", trial: "pw-top --version" };
const WIREPLUMBER: OtherProgram =
    OtherProgram { name: "wireplumber", debian: "wireplumber", fedora: "wireplumber", trial: "wireplumber --version" };
const PYTHON: OtherProgram =
    OtherProgram { name: "python3", debian: "python3", fedora: "python3", trial: "python3 -c 'import wave'" };

/// Reads from the disk what every system has, so that whoever is first does not pay for it.
const WARM_UP: &str = "ls / | sed s/a/b/ && scherzo-bench frames --seconds 1";

impl Tool {
    pub(super) const fn other_programs(self) -> &'static [OtherProgram] {
        match self {
            Self::Hackbench | Self::HackbenchPipes => &[HACKBENCH],
            Self::Messaging | Self::PerfPipe => &[PERF],
            Self::Switch => &[STRESS_NG],
            Self::ProgramStart => &[CHRT],
            Self::ProgramStartApart => &[CHRT, BASH],
            Self::Cyclictest => &[CYCLICTEST],
            Self::Build => &[MAKE],
            Self::Audio(_) => &[PW_TOP, WIREPLUMBER, PYTHON, CHRT],
            Self::Requests | Self::RequestsBesideHogs | Self::Shares(_) | Self::Frames(..) => &[],
        }
    }
}

/// A command that uses everything once that these tools need.
pub(super) fn warm_up(tools: &[Tool]) -> String {
    let mut commands = vec![WARM_UP];
    for program in tools.iter().flat_map(|tool| tool.other_programs()) {
        if !commands.contains(&program.trial) {
            commands.push(program.trial);
        }
    }
    commands.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurable;

    #[test]
    fn what_is_needed_is_used_once_before_and_nothing_else() {
        let command = warm_up(&[Tool::Hackbench, Tool::HackbenchPipes, Tool::Cyclictest]);
        assert_eq!(command, format!("{WARM_UP} && {} && {}", HACKBENCH.trial, CYCLICTEST.trial));
    }

    #[test]
    fn a_tool_names_the_program_that_its_command_calls() {
        for tool in [Tool::Hackbench, Tool::Messaging, Tool::Switch, Tool::Cyclictest, Tool::Build] {
            let [program] = tool.other_programs() else { panic!("{tool}") };
            assert!(tool.command(8, false).contains(&format!("{} ", program.name)), "{tool}");
        }
        for tool in Tool::all() {
            assert!(tool.command(8, true).contains(CHRT.name) == tool.other_programs().contains(&CHRT), "{tool}");
        }
    }
}
