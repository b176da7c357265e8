//! What the tools print.

use anyhow::{Context, Result};
use serde_json::Value;

use scherzo_rig::measure::number;

/// `Time: 1.234`: seconds.
pub(super) fn hackbench(text: &str) -> Result<Vec<f64>> {
    Ok(vec![after(text, "Time:")?])
}

/// `     Total time: 0.231 [sec]`: seconds.
pub(super) fn perf_time(text: &str) -> Result<Vec<f64>> {
    Ok(vec![after(text, "Total time:")?])
}

/// `         348608 ops/sec`.
pub(super) fn perf_rate(text: &str) -> Result<Vec<f64>> {
    let line = text.lines().find_map(|line| line.trim().strip_suffix(" ops/sec"));
    Ok(vec![line.context("there is no ops/sec")?.trim().parse()?])
}

/// Of stress-ng's line of a stressor: bogo operations, real, user and system time, and operations per second of real time.
pub(super) fn stress_rate(text: &str, stressor: &str) -> Result<Vec<f64>> {
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = text.lines().filter(|line| line.contains("metrc:")).map(fields);
    // "stress-ng:", "metrc:" and the process precede the name.
    let line = lines.find(|fields| fields.get(3).is_some_and(|name| name == stressor));
    let line = line.with_context(|| format!("there is no line of {stressor}"))?;
    Ok(vec![line.get(8).context("its line is too short")?.parse()?])
}

/// Two clocks in ns: milliseconds for each of `nr` starts.
pub(super) fn starts(text: &str, nr: u32) -> Result<Vec<f64>> {
    // What the hogs or chrt say comes before.
    let line = text.lines().last().context("there is nothing")?;
    let (begin, end) = line.split_once(' ').context("there are no two clocks")?;
    let (begin, end): (u64, u64) = (begin.parse()?, end.trim().parse()?);
    Ok(vec![end.checked_sub(begin).context("the clock went back")? as f64 / 1e6 / f64::from(nr)])
}

/// `T: 0 (  123) P: 0 I:5000 C:   1000 Min:      5 Act:   10 Avg:   12 Max:     200`, a line for each thread: the mean of the
/// averages, the longest of all.
pub(super) fn cyclictest(text: &str) -> Result<Vec<f64>> {
    let threads: Vec<_> = text.lines().filter(|line| line.starts_with("T:")).collect();
    let of = |name: &str| threads.iter().map(|line| after(line, name)).collect::<Result<Vec<_>>>();
    let (averages, longest) = (of("Avg:")?, of("Max:")?);
    let max = longest.into_iter().reduce(f64::max).context("there is no thread")?;
    Ok(vec![averages.iter().sum::<f64>() / averages.len() as f64, max])
}

/// The JSON of `scherzo-bench frames`: percent missed, µs from the timer to the game running that 95 and 99 of 100 keep.
pub(super) fn frames(text: &str) -> Result<Vec<f64>> {
    let value: Value = serde_json::from_str(text)?;
    let (nr_frames, nr_missed) = (number(&value, "/nr_frames")?, number(&value, "/nr_missed")?);
    Ok(vec![100.0 * nr_missed / nr_frames, number(&value, "/wake_us/p95")?, number(&value, "/wake_us/p99")?])
}

/// The JSON of `scherzo-bench requests`: requests a second, µs from the call to the worker running, and to the request being served,
/// that 99 of 100 keep.
pub(super) fn requests(text: &str) -> Result<Vec<f64>> {
    let value: Value = serde_json::from_str(text)?;
    Ok(vec![number(&value, "/requests_per_s")?, number(&value, "/wake_us/p99")?, number(&value, "/done_us/p99")?])
}

/// The JSON of `scherzo-bench frames`, and on a line of its own how many ms the build took: percent missed, µs from the timer to the game
/// running that 99 of 100 keep, and seconds.
pub(super) fn build(text: &str) -> Result<Vec<f64>> {
    let (game, build_ms) = text.trim().rsplit_once('\n').context("there is only one line")?;
    let build_ms: f64 = build_ms.trim().parse().context("how long the build took")?;
    match frames(game)?[..] {
        [missed, _, wake_p99_us] => Ok(vec![missed, wake_p99_us, build_ms / 1e3]),
        _ => unreachable!("frames() has three figures"),
    }
}

/// The percentage that `audio.sh` prints last.
pub(super) fn audio(text: &str) -> Result<Vec<f64>> {
    let line = text.lines().last().context("there is nothing")?;
    Ok(vec![line.trim().parse().with_context(|| format!("{line:?} is no percentage"))?])
}

/// The number that follows a word.
fn after(text: &str, word: &str) -> Result<f64> {
    let (_, rest) = text.split_once(word).with_context(|| format!("there is no {word}"))?;
    let number = rest.split_whitespace().next().with_context(|| format!("nothing follows {word}"))?;
    number.parse().with_context(|| format!("{number:?} follows {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hackbench_and_perf_are_understood() {
        let text = "Running in process mode with 2 groups using 20 file descriptors each (== 40 tasks)\n\
                    Each sender will pass 300 messages of 100 bytes\nTime: 0.074\n";
        assert_eq!(hackbench(text).unwrap(), [0.074]);
        let text = "# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n\
                    # 2 groups == 80 processes run\n\n     Total time: 0.231 [sec]\n";
        assert_eq!(perf_time(text).unwrap(), [0.231]);
        let text = "# Running 'sched/pipe' benchmark:\n# Executed 20000 pipe operations between two processes\n\n     \
                    Total time: 0.057 [sec]\n\n       2.868550 usecs/op\n         348608 ops/sec\n";
        assert_eq!(perf_rate(text).unwrap(), [348_608.0]);
        assert!(hackbench("hackbench: fork failed").unwrap_err().to_string().contains("Time:"));
        assert!(perf_time("Total time: soon").unwrap_err().to_string().contains("\"soon\" follows"));
        assert!(perf_rate("").is_err());
    }

    #[test]
    fn stress_ng_is_understood() {
        let text = "stress-ng: info:  [528] dispatching hogs: 2 switch\n\
            stress-ng: metrc: [528] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s\n\
            stress-ng: metrc: [528]                           (secs)    (secs)    (secs)   (real time) (usr+sys time)\n\
            stress-ng: metrc: [528] switch          1695709      2.00      0.60      3.38    848161.62      425787.73\n\
            stress-ng: info:  [528] successful run completed in 2.01 secs\n";
        assert_eq!(stress_rate(text, "switch").unwrap(), [848_161.62]);
        assert!(stress_rate(text, "pipe").unwrap_err().to_string().contains("no line of pipe"));
    }

    #[test]
    fn starts_take_their_part_of_the_time() {
        let found = starts("1700000000000000000 1700000004640000000\n", 40).unwrap();
        assert_eq!(found, [116.0]);
        assert!(starts("2 1", 40).is_err());
        assert!(starts("", 40).is_err());
    }

    #[test]
    fn both_threads_of_cyclictest_count() {
        let text = "# /dev/cpu_dma_latency set to 0us\n\
            T: 0 (  812) P: 0 I:5000 C:   1000 Min:     13 Act:   57 Avg:  300 Max:    4436\n\
            T: 1 (  813) P: 0 I:5500 C:    909 Min:     12 Act:   40 Avg:  330 Max:    4001\n";
        assert_eq!(cyclictest(text).unwrap(), [315.0, 4_436.0]);
        assert!(cyclictest("FATAL: no such policy").is_err());
    }

    #[test]
    fn frames_are_understood() {
        let text = r#"{"schema":1,"nr_frames":480,"nr_missed":6,"missed_percent":1.3,
            "wake_us":{"p50":20.1,"p95":812.4,"p99":1204.0,"max":2000.0},
            "done_us":{"p50":9600.0,"p95":10100.0,"p99":11000.5,"max":17000.0},"groups":[]}"#;
        assert_eq!(frames(text).unwrap(), [1.25, 812.4, 1_204.0]);
        assert!(frames("scherzo-bench: too few CPUs").is_err());
        assert!(frames("{}").unwrap_err().to_string().contains("/nr_frames"));
        assert_eq!(build(&format!("{text}\n8450\n")).unwrap(), [1.25, 1_204.0, 8.45]);
        assert!(build(text).is_err(), "the build did not end");
    }

    #[test]
    fn requests_and_sound_are_understood() {
        let text = r#"{"schema":1,"messengers":1,"workers":4,"nr_requests":8000,"requests_per_s":1000.0,
            "wake_us":{"p50":20.1,"p95":300.4,"p99":904.0,"max":2000.0},
            "done_us":{"p50":600.0,"p95":1010.0,"p99":1900.5,"max":7000.0}}"#;
        assert_eq!(requests(text).unwrap(), [1_000.0, 904.0, 1_900.5]);
        assert!(requests("{}").unwrap_err().to_string().contains("/requests_per_s"));
        assert_eq!(audio("0.27\n").unwrap(), [0.27]);
        assert!(audio("waited in vain").unwrap_err().to_string().contains("no percentage"));
    }
}
