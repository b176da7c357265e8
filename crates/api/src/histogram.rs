//! Wait times in log2 buckets: bucket 0 counts waits below 1 µs, bucket *b* those from 2^(b−1) to below 2^b µs, and
//! the last bucket everything longer.

use std::collections::HashMap;

use scherzo_wire::layout::{Class, NR_CLASSES, NR_WAIT_BUCKETS};

/// Counts per bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Waits per bucket.
    pub counts: [u64; NR_WAIT_BUCKETS],
}

impl Histogram {
    /// Reads an array from the bus; counts beyond the last bucket are added to the last one.
    #[must_use]
    pub fn from_slice(counts: &[u64]) -> Self {
        let mut histogram = Self::default();
        for (bucket, count) in counts.iter().enumerate() {
            let slot = &mut histogram.counts[bucket.min(NR_WAIT_BUCKETS - 1)];
            *slot = slot.saturating_add(*count);
        }
        histogram
    }

    /// Waits in all buckets.
    #[must_use]
    pub fn nr_total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self { counts: std::array::from_fn(|b| self.counts[b].saturating_sub(earlier.counts[b])) }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self { counts: std::array::from_fn(|b| self.counts[b].saturating_add(other.counts[b])) }
    }

    /// The wait that `per_mille` of all waits do not exceed, in µs, interpolated within its bucket and rounded up;
    /// 0 if nothing was counted. The last bucket has no upper bound and answers with its lower one.
    #[must_use]
    pub fn percentile_us(&self, per_mille: u64) -> u64 {
        let total = u128::from(self.nr_total());
        let rank = (total * u128::from(per_mille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = u128::from(*count);
            if seen + count >= rank {
                return within_bucket_us(bucket, rank - seen, count);
            }
            seen += count;
        }
        0
    }
}

/// A histogram per task class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([Histogram; NR_CLASSES]);

impl Waits {
    /// Reads the reply of `GetWaitHistogram`; a class that is missing has no waits.
    #[must_use]
    pub fn from_wire(wire: &HashMap<String, Vec<u64>>) -> Self {
        let of =
            |class: Class| wire.get(class.name()).map_or_else(Histogram::default, |all| Histogram::from_slice(all));
        Self(Class::ALL.map(of))
    }

    /// The waits of a class.
    #[must_use]
    pub fn of(&self, class: Class) -> &Histogram {
        &self.0[class as usize]
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|class| self.0[class].since(&earlier.0[class])))
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|class| self.0[class].plus(&other.0[class])))
    }
}

/// Lower bound (inclusive) and upper bound (exclusive) of a bucket in µs; the last bucket has no upper bound.
#[must_use]
pub fn bounds_us(bucket: usize) -> (u64, Option<u64>) {
    let low = if bucket == 0 { 0 } else { 1 << (bucket - 1) };
    (low, (bucket + 1 < NR_WAIT_BUCKETS).then(|| 1 << bucket))
}

fn within_bucket_us(bucket: usize, rank: u128, count: u128) -> u64 {
    let (low, high) = bounds_us(bucket);
    let width = high.map_or(0, |high| high - low);
    low + (u128::from(width) * rank).div_ceil(count) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(pairs: &[(usize, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (bucket, count) in pairs {
            histogram.counts[*bucket] = *count;
        }
        histogram
    }

    #[test]
    fn nothing_counted_is_zero() {
        assert_eq!(Histogram::default().percentile_us(990), 0);
    }

    #[test]
    fn percentiles_lie_in_their_bucket() {
        // 90 waits of 4 to 8 µs, 10 of 512 to 1024 µs.
        let histogram = with(&[(3, 90), (10, 10)]);
        assert_eq!(histogram.percentile_us(500), 7);
        assert_eq!(histogram.percentile_us(900), 8);
        assert_eq!(histogram.percentile_us(990), 512 + 461);
        assert_eq!(histogram.percentile_us(1000), 1024);
    }

    #[test]
    fn the_last_bucket_is_open() {
        assert_eq!(with(&[(NR_WAIT_BUCKETS - 1, 1)]).percentile_us(990), 1 << (NR_WAIT_BUCKETS - 2));
    }

    #[test]
    fn long_arrays_fold() {
        assert_eq!(Histogram::from_slice(&[1; NR_WAIT_BUCKETS + 2]).counts[NR_WAIT_BUCKETS - 1], 3);
    }

    #[test]
    fn classes_find_their_waits() {
        let wire = |count| HashMap::from([("batch".to_owned(), vec![0, count]), ("unheard_of".to_owned(), vec![9])]);
        let waits = Waits::from_wire(&wire(7)).since(&Waits::from_wire(&wire(3)));
        assert_eq!(*waits.of(Class::Batch), with(&[(1, 4)]));
        assert_eq!(*waits.plus(&waits).of(Class::Batch), with(&[(1, 8)]));
        assert_eq!(*waits.of(Class::Interactive), Histogram::default());
    }

    proptest! {
        #[test]
        fn percentiles_grow(counts: [u64; NR_WAIT_BUCKETS], low in 0u64..=1000, high in 0u64..=1000) {
            let histogram = Histogram { counts };
            let (low, high) = (low.min(high), low.max(high));
            prop_assert!(histogram.percentile_us(low) <= histogram.percentile_us(high));
        }
    }
}
