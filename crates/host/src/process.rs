use crate::stat::ticks_to_ns;
use crate::{Error, Root};

/// What one process has used, as the kernel accounts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Page faults that needed no input or output.
    pub nr_minor_faults: u64,
    /// Page faults that did.
    pub nr_major_faults: u64,
    /// CPU time in user and kernel mode, in whole clock ticks.
    pub cpu_ns: u64,
    /// Memory that is in RAM.
    pub resident_bytes: u64,
}

/// Reads `/proc/PID/stat`.
pub fn process_stats(root: &Root, pid: u32) -> Result<ProcessStats, Error> {
    let file = format!("proc/{pid}/stat");
    let text = root.read(&file)?;
    parse(&text).ok_or_else(|| root.unexpected(&file, &text, "the statistics of a process"))
}

/// The numbers in `/proc/PID/stat`, from the fourth on, by their place as in proc(5), counted from 1.
pub(crate) fn numbers(text: &str) -> Option<impl Fn(usize) -> Option<u64>> {
    // The second field is the command in parentheses and may itself hold both spaces and parentheses.
    let (_, after_command) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after_command.split_ascii_whitespace().collect();
    Some(move |place: usize| fields.get(place - 3)?.parse().ok())
}

fn parse(text: &str) -> Option<ProcessStats> {
    let field = numbers(text)?;
    Some(ProcessStats {
        nr_minor_faults: field(10)?,
        nr_major_faults: field(12)?,
        cpu_ns: ticks_to_ns(field(14)?.checked_add(field(15)?)?),
        resident_bytes: field(24)?.checked_mul(rustix::param::page_size() as u64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    const STAT: &str = "42 (odd) name (x)) S 1 42 42 0 -1 4194560 1200 7 3 9 50 25 1 2 20 0 1 0 900 9000000 256 \
                        18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0";

    #[test]
    fn the_command_may_hold_anything() {
        let (_dir, root) = tree(&[("proc/42/stat", STAT)]);
        let stats = process_stats(&root, 42).unwrap();
        assert_eq!((stats.nr_minor_faults, stats.nr_major_faults), (1200, 3));
        assert_eq!(stats.cpu_ns, ticks_to_ns(75));
        assert_eq!(stats.resident_bytes, 256 * rustix::param::page_size() as u64);
    }

    #[test]
    fn a_real_process_has_memory() {
        assert!(process_stats(&Root::default(), std::process::id()).unwrap().resident_bytes > 0);
    }

    #[test]
    fn short_lines_are_errors() {
        for length in 0..STAT.find("256").unwrap() {
            assert_eq!(parse(&STAT[..length]), None, "{length} characters");
        }
    }
}
