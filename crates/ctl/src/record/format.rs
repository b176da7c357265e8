//! What the kernel says about the layout of its events.

use std::collections::BTreeMap;

/// Where a field is in an event, or in a page of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// The content of a `format` file, or of `events/header_page`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventFormat {
    /// The event's number; `header_page` has none.
    pub(crate) id: Option<u64>,
    fields: BTreeMap<String, FieldPlace>,
}

impl EventFormat {
    pub(crate) fn parse(text: &str) -> Self {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        Self { id, fields: text.lines().filter_map(field).collect() }
    }

    /// A field of at least so many bytes.
    pub(crate) fn field(&self, name: &str, min_size: usize) -> Option<FieldPlace> {
        self.fields.get(name).copied().filter(|place| place.size >= min_size)
    }
}

/// Such as `field:char prev_comm[16]; offset:8; size:16; signed:0;`, with tabs.
fn field(line: &str) -> Option<(String, FieldPlace)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let name = declaration.split_whitespace().last()?.split('[').next()?;
    let number = |part: Option<&str>, key: &str| part?.strip_prefix(key)?.trim().parse().ok();
    let place = FieldPlace { offset: number(parts.next(), "offset:")?, size: number(parts.next(), "size:")? };
    Some((name.to_owned(), place))
}

impl FieldPlace {
    /// Its bytes.
    pub(crate) fn bytes(self, of: &[u8]) -> Option<&[u8]> {
        of.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes.
    pub(crate) fn number(self, of: &[u8]) -> Option<u64> {
        let bytes = self.bytes(of)?;
        Some(match bytes.len() {
            1 => bytes[0].into(),
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// A signed number of 4 bytes.
    pub(crate) fn signed(self, of: &[u8]) -> Option<i32> {
        Some(i32::from_ne_bytes(self.bytes(of)?.try_into().ok()?))
    }
}
