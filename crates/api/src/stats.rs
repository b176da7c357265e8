//! What `GetStats` carries: one key, one field.
//!
//! Counters start at zero when the scheduler is loaded. Keys may be added in later versions; a client ignores keys it
//! does not know and reads 0 for keys it misses.

use scherzo_model::statistics::{self, RENAMED};
use zbus::{OwnedVariant, Variant};

/// The dictionary on the bus.
pub use crate::details::Wire;

macro_rules! stats {
    (
        per_cpu { $($variant:ident = $number:literal, $counter:ident, $counter_text:literal;)+ }
        control { $($control:ident, $control_kind:ident, $control_text:literal, $word:ident;)+ }
        service { $($service:ident, $service_kind:ident, $service_text:literal;)+ }
    ) => {
        stats! {
            $($counter, $counter_text;)+
            $($control, $control_text;)+
            $($service, $service_text;)+
        }
    };
    ($($field:ident, $text:literal;)+) => {
        /// Statistics of the loaded scheduler, as `scherzo-model` lists them.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Stats {
            $(#[doc = $text] pub $field: u64,)+
            /// Part of the contended batch work that was submitted to user space, 0 to 1; 1 if there was none.
            pub user_share: f64,
        }

        impl Stats {
            /// Every whole-number key, in order.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field),)+];

            /// The field of that key.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<u64> {
                match key {
                    $(stringify!($field) => Some(self.$field),)+
                    _ => None,
                }
            }

            /// The field of that key, for writing.
            pub fn get_mut(&mut self, key: &str) -> Option<&mut u64> {
                match key {
                    $(stringify!($field) => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}

scherzo_model::for_each_statistic!(stats);

const USER_SHARE: &str = statistics::USER_SHARE.0;

/// The current name of a statistic that an earlier version of the service sends under its old name.
fn current_key(key: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new)
}

impl Stats {
    /// Packs them for the bus. Renamed statistics are sent under both names, for clients of the previous version.
    #[must_use]
    pub fn to_wire(&self) -> Wire {
        let number = |key: &&str| ((*key).to_owned(), OwnedVariant::from(self.get(key).unwrap_or_default()));
        let mut wire: Wire = Self::KEYS.iter().map(number).collect();
        for (old, new) in RENAMED {
            wire.insert((*old).to_owned(), OwnedVariant::from(self.get(new).unwrap_or_default()));
        }
        wire.insert(USER_SHARE.to_owned(), OwnedVariant::from(self.user_share));
        wire
    }

    /// Reads the dictionary that came from the bus.
    #[must_use]
    pub fn from_wire(wire: &Wire) -> Self {
        let mut stats = Self::default();
        for (key, value) in wire {
            match &**value {
                Variant::U64(number) => {
                    if let Some(field) = stats.get_mut(current_key(key)) {
                        *field = *number;
                    }
                }
                Variant::F64(share) if key == USER_SHARE => stats.user_share = *share,
                _ => {}
            }
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_model::Class;

    #[test]
    fn statistics_survive_the_bus() {
        let mut stats = Stats { user_share: 0.75, ..Stats::default() };
        for (value, key) in Stats::KEYS.iter().enumerate() {
            *stats.get_mut(key).unwrap() = value as u64 + 1;
        }
        assert_eq!(Stats::from_wire(&stats.to_wire()), stats);
        assert_eq!(stats.to_wire().len(), Stats::KEYS.len() + RENAMED.len() + 1);
    }

    #[test]
    fn clients_and_services_of_the_version_before_are_understood() {
        let stats = Stats { nr_in_flight: 3, higher_class_ns: 5, ..Stats::default() };
        let wire = stats.to_wire();
        assert_eq!((&wire["nr_custody"], &wire["held_ns"]), (&OwnedVariant::from(3u64), &OwnedVariant::from(5u64)));
        let old = Wire::from([("nr_custody".to_owned(), OwnedVariant::from(3u64))]);
        assert_eq!(Stats::from_wire(&old).nr_in_flight, 3);
    }

    #[test]
    fn strange_values_are_ignored() {
        let wire = Wire::from([
            ("nr_user".to_owned(), OwnedVariant::from(-1i32)),
            ("unheard_of".to_owned(), OwnedVariant::from(1u64)),
        ]);
        assert_eq!(Stats::from_wire(&wire), Stats::default());
    }

    #[test]
    fn every_class_has_keys() {
        for class in Class::ALL {
            for percentile in ["p50", "p99"] {
                let key = format!("wait_{}_{percentile}_us", class.name());
                assert!(Stats::KEYS.contains(&key.as_str()), "{key}");
            }
        }
    }
}
