//! A disk that may be full.

use super::super::*;
use super::world::World;

impl World {
    pub(super) fn store(&mut self, action: FileAction) -> Option<Event> {
        let fails = |what| self.disk_is_full && matches!(what, Stored::Desired | Stored::History);
        match action.stored() {
            None if action == FileAction::StoreAgain => {
                if !self.disk_is_full {
                    for action in std::mem::take(&mut self.not_stored).into_values() {
                        self.write(action);
                    }
                }
            }
            Some(what) if fails(what) => drop(self.not_stored.insert(what, action)),
            Some(what) if self.not_stored.remove(&what).is_some() => self.write(action),
            _ => {
                self.write(action);
                return None;
            }
        }
        let why = |what: &Stored| (*what, "it is full".to_owned());
        Some(Event::NotStored(self.not_stored.keys().map(why).collect()))
    }
}
