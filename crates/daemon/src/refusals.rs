//! What the journal says about refused calls: the first ones as they are, of more than that how many there were. Whoever
//! calls as fast as the bus carries it does not fill the journal.

use std::collections::BTreeMap;
use std::time::Duration;

use scherzo_api::Error;
use zbus::DBusError;

/// So many are told in full in each [`PERIOD`], which begins with the first one.
const NR_TOLD: u32 = 5;
const PERIOD: Duration = Duration::from_mins(1);

/// Counts refused calls. Times are those since the service started.
#[derive(Debug, Default)]
pub struct Refusals {
    /// When this period began, if there is one.
    since: Option<Duration>,
    nr_told: u32,
    /// How many were not told, by the last part of the error's name.
    nr_untold: BTreeMap<String, u64>,
}

impl Refusals {
    /// Counts one; returns the line for the journal, if there is to be one.
    pub fn note(&mut self, now: Duration, error: &Error) -> Option<String> {
        self.since.get_or_insert(now);
        if self.nr_told < NR_TOLD {
            self.nr_told += 1;
            return Some(format!("refused: {error}"));
        }
        let name = error.name();
        let name = name.rsplit('.').next().unwrap_or_default();
        *self.nr_untold.entry(name.to_owned()).or_default() += 1;
        None
    }

    /// When [`Self::sum_up`] has something to say; `None` as long as everything was told.
    #[must_use]
    pub fn due_at(&self) -> Option<Duration> {
        self.since.filter(|_| !self.nr_untold.is_empty()).map(|since| since + PERIOD)
    }

    /// Ends a period that is over, or all of them with `now` being `None`; returns the line about what was not told.
    pub fn sum_up(&mut self, now: Option<Duration>) -> Option<String> {
        let since = self.since?;
        if now.is_some_and(|now| now < since + PERIOD) {
            return None;
        }
        let Self { nr_untold, .. } = std::mem::take(self);
        let parts: Vec<_> = nr_untold.iter().map(|(name, nr_calls)| format!("{name} {nr_calls}")).collect();
        let nr_calls: u64 = nr_untold.values().sum();
        let calls = if nr_calls == 1 { "call" } else { "calls" };
        (nr_calls > 0).then(|| format!("refused {nr_calls} more {calls} within a minute: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn not_running() -> Error {
        Error::NotRunning("Scherzo is not running.".into())
    }

    #[test]
    fn a_few_are_told_and_a_flood_is_summed_up() {
        let mut refusals = Refusals::default();
        let told: Vec<_> = (0..2661).filter_map(|_| refusals.note(at(10), &not_running())).collect();
        assert_eq!(told, vec!["refused: Scherzo is not running."; NR_TOLD as usize]);
        assert_eq!(refusals.note(at(11), &Error::LimitReached("Too many.".into())), None);
        assert_eq!(refusals.due_at(), Some(at(70)));
        assert_eq!(refusals.sum_up(Some(at(69))), None);
        let line = "refused 2657 more calls within a minute: LimitReached 1, NotRunning 2656";
        assert_eq!(refusals.sum_up(Some(at(70))).as_deref(), Some(line));
        assert_eq!((refusals.due_at(), refusals.sum_up(None)), (None, None));
    }

    #[test]
    fn whoever_is_refused_now_and_then_is_told_each_time() {
        let mut refusals = Refusals::default();
        for minute in 0..20 {
            let now = at(minute * 60);
            assert_eq!(refusals.sum_up(Some(now)), None);
            assert!(refusals.note(now, &not_running()).is_some());
            assert_eq!(refusals.due_at(), None, "it wakes nobody");
        }
    }

    #[test]
    fn the_end_of_the_service_is_the_end_of_the_period() {
        let mut refusals = Refusals::default();
        for _ in 0..=NR_TOLD {
            refusals.note(at(1), &not_running());
        }
        assert_eq!(refusals.sum_up(None).as_deref(), Some("refused 1 more call within a minute: NotRunning 1"));
    }
}
