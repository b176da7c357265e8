//! Arguments of reasons as the bus carries them: the `a{sv}` beside a stable id.

use std::collections::HashMap;

pub use scherzo_catalogue::details::{Detail, Details};
use zbus::{OwnedVariant, Variant};

/// What the bus carries for arguments.
pub type Wire = HashMap<String, OwnedVariant>;

/// Packs arguments for the bus.
#[must_use]
pub fn to_wire(details: &Details) -> Wire {
    let pack = |detail: &Detail| match detail {
        Detail::Number(number) => OwnedVariant::from(*number),
        Detail::Text(text) => OwnedVariant::from(zbus::Str::from(text.clone())),
    };
    details.iter().map(|(name, detail)| (name.clone(), pack(detail))).collect()
}

/// Reads arguments from the bus; values of a type that no argument has are left out.
#[must_use]
pub fn from_wire(wire: &Wire) -> Details {
    wire.iter().filter_map(|(name, value)| Some((name.clone(), unpack(value)?))).collect()
}

fn unpack(value: &Variant<'_>) -> Option<Detail> {
    Some(match value {
        Variant::I64(number) => Detail::Number(*number),
        Variant::U32(number) => Detail::Number((*number).into()),
        Variant::Str(text) => Detail::Text(text.to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_survive_the_bus() {
        let details = Details::from([("code".into(), Detail::from(-3)), ("text".into(), Detail::from("why"))]);
        assert_eq!(from_wire(&to_wire(&details)), details);
    }

    #[test]
    fn other_types_are_left_out() {
        assert!(from_wire(&Wire::from([("flag".into(), OwnedVariant::from(true))])).is_empty());
    }
}
