//! How CPU time is shared between classes.

use anyhow::{Context, Result, bail, ensure};

use scherzo_rig::guest::Guest;
use scherzo_rig::service::{MOMENT, call, end_load, ensure_loaded, ensure_undisturbed};
use scherzo_rig::shell::Shell;

/// What must be left to a hog that may run on every CPU, and to one that may run on one only. A third of
/// what 6.18 was seen to give them on four CPUs: 8.9 and 2.6 %. With a starvation bound of 1 s they got 1.6 and 1.2 %.
const MIN_FREE_PERCENT: f64 = 3.0;
const MIN_PINNED_PERCENT: f64 = 0.85;

/// Pairs that pass a byte back and forth, one per CPU, are interactive and go first, and each side wakes the other
/// before it sleeps, so that a CPU never runs out of them. Hogs still get a share, even one that may run on a single
/// CPU only.
pub(super) fn hogs_beside_message_passing(guest: &mut Guest) -> Result<()> {
    let loaded = ensure_loaded(guest)?;
    call(guest, "SetMode", "s interactive")?;
    // It ends with its input. What calibration and seed say is for other loads.
    let pairs = "scherzo-bench background --load pipe --hogs-per-cpu 1 --calibration 1 --seed 1";
    let load = guest.spawn(&format!("sleep infinity | {pairs}"))?;
    let hog = "sh -c 'while :; do :; done'";
    let hogs = format!(
        "{hog} & free=$!; taskset -c 1 {hog} & pinned=$!; sleep 8; cat /proc/$free/schedstat /proc/$pinned/schedstat; \
         kill $free $pinned"
    );
    let lines = guest.check(&hogs, MOMENT * 6);
    end_load(guest, &load)?;
    let lines = lines?;
    let shares = lines.lines().map(share_percent).collect::<Option<Vec<_>>>();
    let [free, pinned] = shares.as_deref().with_context(|| format!("not two lines of schedstat: {lines}"))? else {
        bail!("not two hogs: {lines}");
    };
    ensure!(*free >= MIN_FREE_PERCENT, "a hog got {free:.2} % of a CPU");
    ensure!(*pinned >= MIN_PINNED_PERCENT, "a hog that may run on one CPU only got {pinned:.2} % of it");
    call(guest, "SetMode", "s auto")?;
    ensure_undisturbed(guest, &loaded)
}

/// Of the time in which a task that never sleeps ran or waited, the part in which it ran: the first two numbers, in ns.
fn share_percent(schedstat: &str) -> Option<f64> {
    let mut times_ns = schedstat.split_whitespace().map(str::parse::<f64>);
    let (ran_ns, waited_ns) = (times_ns.next()?.ok()?, times_ns.next()?.ok()?);
    Some(100.0 * ran_ns / (ran_ns + waited_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_the_time_that_a_task_wanted_to_run() {
        assert_eq!(share_percent("1000 3000 17"), Some(25.0));
        assert_eq!(share_percent("0 5 1"), Some(0.0));
        assert_eq!(share_percent("1000"), None);
    }
}
