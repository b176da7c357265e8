//! The guest's loads as scenarios.

use std::fmt::Write;

use crate::guest::Metric::{self, DoneP99, Missed, PipeP50, PipeP99, Start, WakeMean, WakeP50, WakeP99, Work};

/// A load of `cargo xtask bench`: its name there, what is measured, what runs beside that, and what is compared.
pub struct Load {
    pub name: &'static str,
    probe: &'static [&'static str],
    beside: &'static str,
    /// Its work is counted in pieces, else in CPU time.
    pub counts_pieces: bool,
    starts_programs: bool,
    pub metrics: &'static [Metric],
}

pub const DURATION_MS: u64 = 8_000;

/// Three threads that sleep for 2.5 to 7.5 ms and work for 200 us, and one that is woken through a pipe.
const PROBE: &[&str] = &[
    "name = \"probe\"\nkind = \"napper\"\ncount = 3\ncompute_us = 200\nsleep_us = 5000\njitter_percent = 50",
    "name = \"pipe\"\nkind = \"chain\"\nperiod_us = 5000\nstages_us = [10, 10]",
];
const AUDIO: &[&str] =
    &["name = \"probe\"\nkind = \"periodic\"\ncompute_us = 1000\nperiod_us = 5000\ngoes_by_cpu_time = true"];
const CYCLIC: &[&str] = &["name = \"probe\"\nkind = \"periodic\"\ncount = 2\ncompute_us = 20\nperiod_us = 5000"];
const HEAVY: &[&str] =
    &["name = \"probe\"\nkind = \"chain\"\nperiod_us = 16667\nstages_us = [8000, 1500]\ngoes_by_cpu_time = true"];
const LIGHT: &[&str] =
    &["name = \"probe\"\nkind = \"chain\"\nperiod_us = 16667\nstages_us = [3000, 1000]\ngoes_by_cpu_time = true"];
const FAST: &[&str] =
    &["name = \"probe\"\nkind = \"chain\"\nperiod_us = 6944\nstages_us = [2000, 500]\ngoes_by_cpu_time = true"];

const HOG1: &str = "kind = \"hog\"\ncount = 4";
const HOG2: &str = "kind = \"hog\"\ncount = 8";
const NICED: &str = "kind = \"hog\"\ncount = 8\nnice = 19";
/// What fork, exec, page faults and exit take beside the work of 0.5 to 3 ms, an emulated CPU has to do as well.
const FORK: &str = "kind = \"fork-wait\"\ncount = 8\ncompute_us = 7400\njitter_percent = 17";
const PAIRS: &str = "kind = \"ping-pong\"\ncount = 4\ncompute_us = 12";
const NAPPERS: &str = "kind = \"napper\"\ncount = 8\ncompute_us = 4000\nsleep_us = 100\ngoes_by_cpu_time = true";

const LATENCIES: &[Metric] = &[WakeP50, WakeP99, PipeP50, PipeP99, DoneP99];
const LATENCIES_AND_WORK: &[Metric] = &[WakeP50, WakeP99, PipeP50, PipeP99, DoneP99, Work];
const FRAMES: &[Metric] = &[Missed, WakeP99];

const fn load(
    name: &'static str,
    probe: &'static [&'static str],
    beside: &'static str,
    metrics: &'static [Metric],
) -> Load {
    Load { name, probe, beside, counts_pieces: false, starts_programs: false, metrics }
}

pub const LOADS: [Load; 23] = [
    load("idle", PROBE, "", LATENCIES),
    load("hog1", PROBE, HOG1, LATENCIES_AND_WORK),
    load("hog2", PROBE, HOG2, LATENCIES_AND_WORK),
    Load { counts_pieces: true, ..load("fork", PROBE, FORK, LATENCIES_AND_WORK) },
    load("pipe", PROBE, PAIRS, LATENCIES),
    load("audio", AUDIO, HOG2, &[WakeP50, WakeP99, DoneP99, Work]),
    Load { starts_programs: true, ..load("start", &[], HOG2, &[Start]) },
    load("cyclictest", CYCLIC, HOG2, &[WakeMean]),
    load("frames-60x8+1.5-hog1", HEAVY, HOG1, FRAMES),
    load("frames-60x8+1.5-hog2", HEAVY, HOG2, FRAMES),
    load("frames-60x8+1.5-niced", HEAVY, NICED, FRAMES),
    load("frames-60x8+1.5-fork", HEAVY, FORK, FRAMES),
    load("frames-60x8+1.5-nappers", HEAVY, NAPPERS, FRAMES),
    load("frames-60x3+1-hog1", LIGHT, HOG1, FRAMES),
    load("frames-60x3+1-hog2", LIGHT, HOG2, FRAMES),
    load("frames-60x3+1-niced", LIGHT, NICED, FRAMES),
    load("frames-60x3+1-fork", LIGHT, FORK, FRAMES),
    load("frames-60x3+1-nappers", LIGHT, NAPPERS, FRAMES),
    load("frames-144x2+0.5-hog1", FAST, HOG1, FRAMES),
    load("frames-144x2+0.5-hog2", FAST, HOG2, FRAMES),
    load("frames-144x2+0.5-niced", FAST, NICED, FRAMES),
    load("frames-144x2+0.5-fork", FAST, FORK, FRAMES),
    load("frames-144x2+0.5-nappers", FAST, NAPPERS, FRAMES),
];

/// More than there is time for.
const NR_STARTS: u32 = 300;

/// A shell that starts `sh -c 'ls / | sed s/a/b/'` again and again: each is a shell that waits for two programs, one of which waits for what
/// the other writes. The times are guesses.
fn starts() -> String {
    let mut outer = String::new();
    let mut programs = String::new();
    for nth in 0..NR_STARTS {
        let (shell, ls, sed) = (10 + 3 * nth, 11 + 3 * nth, 12 + 3 * nth);
        let _ = write!(outer, "{{ run_us = 500 }}, {{ fork = {shell} }}, \"wait\", ");
        let _ = write!(
            programs,
            "[[group.task]]\nid = {shell}\nsteps = [{{ run_us = 3000 }}, {{ fork = {ls} }}, {{ run_us = 300 }}, {{ fork = {sed} }}, \
             {{ run_us = 100 }}, \"wait\", {{ run_us = 500 }}, {{ wake = 1 }}, \"exit\"]\n\
             [[group.task]]\nid = {ls}\nsteps = [{{ run_us = 4000 }}, {{ wake = {sed} }}, \"exit\"]\n\
             [[group.task]]\nid = {sed}\nsteps = [{{ run_us = 4000 }}, \"wait\", {{ run_us = 300 }}, {{ wake = {shell} }}, \"exit\"]\n"
        );
    }
    format!(
        "[[group]]\nname = \"probe\"\nkind = \"recorded\"\n[[group.task]]\nid = 1\nsteps = [{outer}]\n\
         [[group]]\nname = \"programs\"\nkind = \"recorded\"\n{programs}"
    )
}

impl Load {
    /// On the guest's machine.
    pub fn scenario(&self) -> String {
        let mut text = format!(
            "about = \"\"\nduration_ms = {DURATION_MS}\nwarmup_ms = 1000\n\
             [machine]\ncpus = 4\nkernel = \"6.18\"\nshared_stream = true\n"
        );
        for group in self.probe {
            let _ = writeln!(text, "[[group]]\n{group}");
        }
        if !self.beside.is_empty() {
            let _ = writeln!(text, "[[group]]\nname = \"load\"\n{}", self.beside);
        }
        if self.starts_programs {
            text.push_str(&starts());
        }
        text
    }

    /// Frames that were due.
    pub fn nr_frames(&self) -> f64 {
        let period_us = self.probe[0].lines().find_map(|line| line.strip_prefix("period_us = ")?.parse::<f64>().ok());
        DURATION_MS as f64 * 1e3 / period_us.expect("a period")
    }
}
