//! What is typed for each tool.

use super::{FrameLoad, GameShape, STRESS_SECONDS, Tool};

/// Programs that are started one after the other.
pub(super) const NR_STARTS: u32 = 24;
/// The same where time passes between two, as where a person starts them.
pub(super) const NR_STARTS_APART: u32 = 10;
/// That time, in seconds.
const START_PAUSE: &str = "0.4";

/// Plays and listens; its head says how.
const AUDIO: &str = include_str!("../../guest/audio.sh");
/// What is built, of the program whose source the guest has: files that take about as long as each other.
const BUILT: &str =
    "lapi.o lctype.o ldump.o lfunc.o linit.o llex.o lmem.o lobject.o lopcodes.o lstring.o ltable.o ltm.o lzio.o";

/// Longer than any measurement beside them.
const HOG_SECONDS: u32 = 300;
/// For the hogs to begin, in seconds.
const HOGS_SETTLE: u32 = 3;

impl Tool {
    /// The command for a POSIX shell; a floor is the tool as SCHED_FIFO, the load beside it as ever.
    pub(super) fn command(self, seconds: u32, is_floor: bool) -> String {
        match self {
            Self::Hackbench => "hackbench -l 300 -g 2 -f 10".to_owned(),
            Self::HackbenchPipes => "hackbench -p -l 300 -g 2 -f 10".to_owned(),
            Self::Messaging => "perf bench sched messaging -g 2 -l 200".to_owned(),
            Self::PerfPipe => "perf bench sched pipe -l 20000".to_owned(),
            Self::Switch => format!("stress-ng --switch 0 --timeout {STRESS_SECONDS} --metrics-brief 2>&1"),
            Self::ProgramStart => beside_hogs(&starts(is_floor)),
            Self::ProgramStartApart => beside_hogs(&starts_apart(is_floor)),
            Self::Cyclictest => {
                let policy = if is_floor { "fifo --priority=1" } else { "other" };
                beside_hogs(&format!("cyclictest --policy={policy} -t 2 -i 5000 -l 1000 -q"))
            }
            Self::Requests => format!("scherzo-bench requests --json --seconds {seconds} --messengers 2 --workers 8"),
            Self::RequestsBesideHogs => format!(
                "scherzo-bench requests --json --seconds {seconds} --messengers 1 {}{}",
                FrameLoad::Hog2.options(),
                real_time(is_floor)
            ),
            Self::Build => build(&format!(
                "scherzo-bench frames --json --seconds {seconds} {}{}",
                GameShape::Light.options(),
                real_time(is_floor)
            )),
            Self::Audio(load) => audio(seconds, load, is_floor),
            Self::Shares(case) => case.command(),
            Self::Frames(game, load) => {
                let (game, load, rt) = (game.options(), load.options(), real_time(is_floor));
                format!("scherzo-bench frames --json --seconds {seconds} {game} {load}{rt}")
            }
        }
    }
}

/// Runs a command beside two hogs per CPU, which must outlast it.
fn beside_hogs(command: &str) -> String {
    format!(
        "scherzo-bench shares --seconds {HOG_SECONDS} --group name=hogs,count=2/cpu >/dev/null & hogs=$!; \
         sleep {HOGS_SETTLE}; {command}; status=$?; kill $hogs || status=1; wait $hogs; exit $status"
    )
}

/// For our own programs.
const fn real_time(is_floor: bool) -> &'static str {
    if is_floor { " --rt" } else { "" }
}

/// Prints what the game says, and how long the build took that began with it, in ms. The build must outlast the game.
fn build(game: &str) -> String {
    format!(
        "cd /run/built/src && rm -f *.o /run/build-ms && begin=$(date +%s%N) && \
         {{ make -s -j8 {BUILT} >/dev/null && echo $((($(date +%s%N) - begin) / 1000000)) >/run/build-ms; }} & \
         {game} && if [ -e /run/build-ms ]; then echo 'the build was over before the game' >&2; exit 1; fi; \
         wait $! && cat /run/build-ms"
    )
}

fn audio(seconds: u32, load: FrameLoad, is_floor: bool) -> String {
    let policy = if is_floor { "chrt --fifo 1" } else { "" };
    // It is ended when the sound is.
    let load = match load {
        FrameLoad::Fork => format!("scherzo-bench probe --load fork --seconds {HOG_SECONDS}"),
        _ => format!("scherzo-bench shares --seconds {HOG_SECONDS} {}", load.options()),
    };
    format!("cat >/run/audio.sh <<'END_OF_SCRIPT'\n{AUDIO}END_OF_SCRIPT\nsh /run/audio.sh {seconds} {policy} -- {load}")
}

const fn starter_policy(is_floor: bool) -> &'static str {
    if is_floor { "chrt --fifo --pid 1 $$; " } else { "" }
}

/// Prints the clock in ns before the first start and after the last.
fn starts(is_floor: bool) -> String {
    format!(
        "{}i=0; begin=$(date +%s%N); while [ $i -lt {NR_STARTS} ]; do i=$((i + 1)); \
         sh -c 'ls / | sed s/a/b/' >/dev/null; done; \
         echo $begin $(date +%s%N)",
        starter_policy(is_floor)
    )
}

/// Prints 0 and the sum of what they took, in ns. Bash has a clock of its own: a program that tells the time would be started, too.
fn starts_apart(is_floor: bool) -> String {
    format!(
        "{}bash -c 'i=0; sum=0; while [ $i -lt {NR_STARTS_APART} ]; do i=$((i + 1)); sleep {START_PAUSE}; \
         begin=${{EPOCHREALTIME/./}}; sh -c \"ls / | sed s/a/b/\" >/dev/null; sum=$((sum + ${{EPOCHREALTIME/./}} - begin)); \
         done; echo 0 $((sum * 1000))'",
        starter_policy(is_floor)
    )
}

impl GameShape {
    const fn options(self) -> &'static str {
        match self {
            Self::Heavy => "--rate 60 --game-ms 8 --compositor-ms 1.5",
            Self::Light => "--rate 60 --game-ms 3 --compositor-ms 1",
            Self::Fast => "--rate 144 --game-ms 2 --compositor-ms 0.5",
            Self::Threaded => "--rate 60 --game-ms 12 --threads 3 --compositor-ms 1",
        }
    }
}

impl FrameLoad {
    const fn options(self) -> &'static str {
        match self {
            Self::Hog1 => "--group name=load,count=1/cpu",
            Self::Hog2 => "--group name=load,count=2/cpu",
            Self::Niced => "--group name=load,count=2/cpu,nice=19",
            Self::Fork => "--load fork",
            Self::Nappers => "--group name=load,count=2/cpu,work=4ms,sleep=100us",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::output;
    use super::*;

    #[test]
    fn a_floor_is_the_tool_in_real_time_and_not_its_load() {
        let frames = Tool::Frames(GameShape::Heavy, FrameLoad::Hog2);
        let expected = "scherzo-bench frames --json --seconds 8 --rate 60 --game-ms 8 --compositor-ms 1.5 \
                        --group name=load,count=2/cpu";
        assert_eq!(frames.command(8, false), expected);
        assert_eq!(frames.command(8, true), format!("{expected} --rt"));
        let cyclictest = Tool::Cyclictest.command(8, true);
        assert!(cyclictest.find("shares") < cyclictest.find("cyclictest --policy=fifo"), "{cyclictest}");
        for tool in [Tool::ProgramStart, Tool::ProgramStartApart] {
            let start = tool.command(8, true);
            assert!(start.find("sleep") < start.find("chrt --fifo --pid 1 $$;"), "{start}");
            assert!(!tool.command(8, false).contains("chrt"));
        }
    }

    #[test]
    fn sound_and_builds_are_real_time_in_the_floor_and_their_loads_are_not() {
        let audio = Tool::Audio(FrameLoad::Nappers);
        let end = "sh /run/audio.sh 8 chrt --fifo 1 -- scherzo-bench shares --seconds 300 \
                   --group name=load,count=2/cpu,work=4ms,sleep=100us";
        assert!(audio.command(8, true).ends_with(end), "{}", audio.command(8, true));
        assert!(audio.command(8, false).contains("sh /run/audio.sh 8  -- scherzo-bench"));
        assert!(
            Tool::Audio(FrameLoad::Fork)
                .command(8, false)
                .ends_with("-- scherzo-bench probe --load fork --seconds 300")
        );
        let build = Tool::Build.command(8, true);
        assert!(build.find("make -s -j8") < build.find("--compositor-ms 1 --rt && if"), "{build}");
        assert!(!Tool::Build.command(8, false).contains("--rt"));
    }

    /// The commands that are more than a program and its options are run, with other hogs.
    #[test]
    fn programs_are_started_while_the_hogs_last() {
        let run = |tool: Tool, hogs: &str| {
            let command = tool.command(8, false).replace("sleep 3;", "sleep 0.1;").replace("sleep 0.4;", "sleep 0.01;");
            let (_, rest) = command.split_once(" & ").unwrap();
            Command::new("sh").args(["-c", &format!("{hogs} & {rest}")]).output().unwrap()
        };
        for (tool, nr) in [(Tool::ProgramStart, NR_STARTS), (Tool::ProgramStartApart, NR_STARTS_APART)] {
            let lasting = run(tool, "sleep 100");
            assert!(lasting.status.success(), "{lasting:?}");
            assert!(output::starts(&String::from_utf8(lasting.stdout).unwrap(), nr).unwrap()[0] > 0.0);
            assert_eq!(run(tool, "true").status.code(), Some(1), "there were no hogs");
        }
    }
}
