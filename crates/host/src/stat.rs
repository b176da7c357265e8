use crate::{Error, Root};

const FILE: &str = "proc/stat";

/// Time that the CPUs together have spent idle since the kernel started, waiting for input and output included.
pub fn idle_ns(root: &Root) -> Result<u64, Error> {
    let text = root.read(FILE)?;
    parse(&text).map(ticks_to_ns).ok_or_else(|| root.unexpected(FILE, &text, "the line \"cpu\""))
}

fn parse(text: &str) -> Option<u64> {
    let mut fields = text.lines().find_map(|line| line.strip_prefix("cpu "))?.split_ascii_whitespace().skip(3);
    let idle: u64 = fields.next()?.parse().ok()?;
    let waiting: u64 = fields.next()?.parse().ok()?;
    idle.checked_add(waiting)
}

pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::tree;

    #[test]
    fn idle_is_the_fourth_and_fifth_number() {
        let (_dir, root) = tree(&[(FILE, "cpu  10 20 30 400 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n")]);
        assert_eq!(idle_ns(&root).unwrap(), ticks_to_ns(405));
    }

    #[test]
    fn other_content_is_an_error() {
        let (_dir, root) = tree(&[(FILE, "intr 5\n")]);
        assert!(idle_ns(&root).unwrap_err().to_string().contains("proc/stat"));
    }
}
