//! Settings as the bus carries them. What can be set, and where it goes, is in `scherzo-supervisor`.

use zbus::{OwnedVariant, Variant};

pub use scherzo_supervisor::settings::*;

/// A value from the bus, before it is checked.
#[must_use]
pub fn from_variant(value: &Variant<'_>) -> Raw {
    match value {
        Variant::Bool(flag) => Raw::Flag(*flag),
        Variant::U8(number) => Raw::Number((*number).into()),
        Variant::I16(number) => Raw::Number((*number).into()),
        Variant::U16(number) => Raw::Number((*number).into()),
        Variant::I32(number) => Raw::Number((*number).into()),
        Variant::U32(number) => Raw::Number((*number).into()),
        Variant::I64(number) => Raw::Number(*number),
        Variant::U64(number) => i64::try_from(*number).map_or(Raw::Other, Raw::Number),
        Variant::Str(text) => Raw::Text(text.to_string()),
        _ => Raw::Other,
    }
}

/// A value for the bus.
#[must_use]
pub fn to_variant(value: Value) -> OwnedVariant {
    match value {
        Value::Number(number) => number.into(),
        Value::Flag(flag) => flag.into(),
        Value::Mode(mode) => zbus::Str::from(mode.name()).into(),
        Value::SliceTimer(choice) => zbus::Str::from(choice.name()).into(),
        Value::Policy(policy) => zbus::Str::from(policy_name(policy)).into(),
    }
}
