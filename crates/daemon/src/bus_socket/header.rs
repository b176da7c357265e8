//! What matters of a message's header: where a call comes from, and what it calls. The library's own parser takes several times as
//! long and keeps the message, which is too much for calls that are refused by the ten thousand. What this one does not
//! understand is left to the library.

use std::str;

use zbus::message::{Flags, Header, Type};
use zbus::names::{InterfaceName, MemberName};

/// Where a message has its byte order, its kind, its flags, the version of the protocol, its number and the length of its fields.
const ORDER: usize = 0;
const KIND: usize = 1;
pub(super) const FLAGS: usize = 2;
const VERSION: usize = 3;
const SERIAL: usize = 8;
const FIELDS_LENGTH: usize = 12;
const FIELDS: usize = 16;
/// Each field begins at a multiple of this.
const ALIGNMENT: usize = 8;
/// The version of the protocol.
const PROTOCOL: u8 = 1;
/// Fields of a header, by their codes.
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const REPLY_SERIAL: u8 = 5;
const SENDER: u8 = 7;

/// Of a call whose sender is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallHeader<'a> {
    pub(super) sender: &'a str,
    pub(super) serial: u32,
    pub(super) wants_answer: bool,
    pub(super) interface: Option<&'a str>,
    pub(super) member: Option<&'a str>,
}

impl<'a> CallHeader<'a> {
    /// Reads it from a message as it came; `None` if that is no call, or must be left to the library.
    pub(super) fn scan(message: &'a [u8]) -> Option<Self> {
        let is_call = *message.get(KIND)? == Type::MethodCall as u8 && *message.get(VERSION)? == PROTOCOL;
        let mut fields = HeaderFields::of(message).filter(|_| is_call)?;
        let (mut sender, mut interface, mut member) = (None, None, None);
        while !fields.are_over() {
            let field = fields.next()?;
            let known = match field.code {
                SENDER => &mut sender,
                INTERFACE => &mut interface,
                MEMBER => &mut member,
                _ => continue,
            };
            // None of them may come twice.
            if known.replace(field.text?).is_some() {
                return None;
            }
        }
        let serial = fields.number_at(SERIAL).filter(|serial| *serial != 0)?;
        Some(Self { sender: sender?, serial, wants_answer: wants_answer(message[FLAGS]), interface, member })
    }

    /// The same of a call that the library has parsed.
    pub(super) fn of(header: &'a Header<'_>, flags: u8) -> Option<Self> {
        let serial = header.primary().serial_num().get();
        let (interface, member) = (header.interface(), header.member());
        Some(Self {
            sender: header.sender()?.as_str(),
            serial,
            wants_answer: wants_answer(flags),
            interface: interface.map(InterfaceName::as_str),
            member: member.map(MemberName::as_str),
        })
    }
}

fn wants_answer(flags: u8) -> bool {
    flags & Flags::NO_REPLY_EXPECTED.bits() == 0
}

/// Where an answer has the number of the call that it answers.
pub(super) fn reply_serial_offset(answer: &[u8]) -> Option<usize> {
    let mut fields = HeaderFields::of(answer)?;
    while !fields.are_over() {
        let field = fields.next()?;
        if field.code == REPLY_SERIAL {
            return field.number_at;
        }
    }
    None
}

/// Goes through the fields of a header.
struct HeaderFields<'a> {
    message: &'a [u8],
    is_big_endian: bool,
    offset: usize,
    end: usize,
}

/// A field, which holds a text or a number.
struct Field<'a> {
    code: u8,
    text: Option<&'a str>,
    number_at: Option<usize>,
}

impl<'a> HeaderFields<'a> {
    fn of(message: &'a [u8]) -> Option<Self> {
        let is_big_endian = match message.get(ORDER)? {
            b'l' => false,
            b'B' => true,
            _ => return None,
        };
        let mut fields = Self { message, is_big_endian, offset: FIELDS, end: 0 };
        fields.end = FIELDS.checked_add(fields.number_at(FIELDS_LENGTH)? as usize)?;
        (fields.end <= message.len()).then_some(fields)
    }

    fn are_over(&self) -> bool {
        self.offset >= self.end
    }

    /// The next one; `None` if it is not as it should be, or of a type that no field of the protocol has.
    fn next(&mut self) -> Option<Field<'a>> {
        self.offset = self.offset.next_multiple_of(ALIGNMENT);
        let &[code, signature_length, signature, signature_end] = self.take(4)?.first_chunk()?;
        if (signature_length, signature_end) != (1, 0) {
            return None;
        }
        let mut field = Field { code, text: None, number_at: None };
        match signature {
            b's' | b'o' => {
                let length = self.take_number()? as usize;
                field.text = Some(self.take_text(length)?);
            }
            b'g' => {
                let length = usize::from(*self.take(1)?.first()?);
                field.text = Some(self.take_text(length)?);
            }
            b'u' => {
                field.number_at = Some(self.offset);
                self.take_number()?;
            }
            _ => return None,
        }
        Some(field)
    }

    fn take(&mut self, nr_bytes: usize) -> Option<&'a [u8]> {
        let end = self.offset.checked_add(nr_bytes).filter(|end| *end <= self.end)?;
        let taken = self.message.get(self.offset..end)?;
        self.offset = end;
        Some(taken)
    }

    /// Numbers and the lengths of texts follow on a code and a signature, which together have their alignment.
    fn take_number(&mut self) -> Option<u32> {
        let number = self.number_at(self.offset)?;
        self.take(size_of::<u32>())?;
        Some(number)
    }

    fn take_text(&mut self, length: usize) -> Option<&'a str> {
        let (end, text) = self.take(length.checked_add(1)?)?.split_last()?;
        str::from_utf8(text).ok().filter(|_| *end == 0)
    }

    fn number_at(&self, offset: usize) -> Option<u32> {
        let bytes = *self.message.get(offset..)?.first_chunk()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use futures_util::FutureExt;
    use zbus::Message;
    use zbus::message::Builder;
    use zbus::wire::Endian;

    use super::super::parse;
    use super::*;
    use crate::fuzz::{cases, changed};

    /// Calls as a bus passes them on: of both byte orders, with and without flags and interface.
    fn calls() -> Vec<Message> {
        let mut calls = Vec::new();
        for order in [Endian::Little, Endian::Big] {
            for flags in [None, Some(Flags::NO_REPLY_EXPECTED), Some(Flags::ALLOW_INTERACTIVE_AUTH)] {
                for interface in [None, Some("org.example.Interface")] {
                    let call = Message::method_call("/org/example", "Method").destination("org.example").sender(":1.7");
                    let call = interface.into_iter().fold(call.endian(order), Builder::interface);
                    let call = flags.into_iter().fold(call, Builder::with_flags);
                    calls.push(call.build(&("text", 7u32)).unwrap());
                }
            }
        }
        calls
    }

    fn parsed(message: &[u8]) -> Option<Message> {
        parse(message.to_vec(), 0).now_or_never().unwrap().ok()
    }

    #[test]
    fn calls_are_read_as_the_library_reads_them() {
        for call in calls() {
            let (header, flags) = (call.header(), call.data()[FLAGS]);
            let expected = CallHeader::of(&header, flags).unwrap();
            assert_eq!(expected.wants_answer, !call.primary_header().flags().contains(Flags::NO_REPLY_EXPECTED));
            assert_eq!(CallHeader::scan(call.data()), Some(expected));
        }
    }

    #[test]
    fn what_is_no_call_of_a_sender_is_left_to_the_library() {
        let calls = calls();
        let nobody = Message::method_call("/", "Method").build(&()).unwrap();
        let signal = Message::signal("/", "org.example", "Signal").sender(":1.7").build(&()).unwrap();
        let answer = Message::method_return(&calls[0].header()).sender(":1.7").build(&()).unwrap();
        for message in [nobody, signal, answer] {
            assert_eq!(CallHeader::scan(message.data()), None, "{message:?}");
        }
        let call = calls[0].data();
        for (offset, byte) in [(ORDER, b'x'), (KIND, 4), (VERSION, 2), (FIELDS + 1, 2), (FIELDS + 2, b'y')] {
            let mut call = call.to_vec();
            call[offset] = byte;
            assert_eq!(CallHeader::scan(&call), None, "{offset}");
        }
        let mut unnumbered = call.to_vec();
        unnumbered[SERIAL..SERIAL + 4].fill(0);
        assert_eq!(CallHeader::scan(&unnumbered), None);
    }

    #[test]
    fn a_field_that_comes_twice_is_left_to_the_library() {
        let call = calls()[0].data().to_vec();
        let length = HeaderFields::of(&call).unwrap().end - FIELDS;
        let sender = b"\x07\x01s\0\x04\0\0\0:1.8\0";
        let fields = [&call[FIELDS..FIELDS + length], &[0; ALIGNMENT][..length.next_multiple_of(ALIGNMENT) - length]];
        let mut twice = [&call[..FIELDS], &fields.concat(), sender].concat();
        let length = u32::try_from(twice.len() - FIELDS).unwrap();
        twice[FIELDS_LENGTH..FIELDS].copy_from_slice(&length.to_le_bytes());
        let mut fields = HeaderFields::of(&twice).unwrap();
        while !fields.are_over() {
            fields.next().expect("a field");
        }
        assert_eq!(CallHeader::scan(&twice), None);
    }

    #[test]
    fn an_answer_has_the_number_of_its_call_where_it_is_found() {
        for call in calls() {
            let answer = Message::error(&call.header(), "org.example.Error").build(&"text").unwrap();
            let offset = reply_serial_offset(answer.data()).unwrap();
            let number = HeaderFields::of(answer.data()).unwrap().number_at(offset);
            assert_eq!(number, Some(call.primary_header().serial_num().get()));
            assert_eq!(reply_serial_offset(call.data()), None);
        }
    }

    #[test]
    fn headers_that_are_not_whole_are_left_to_the_library() {
        for call in calls() {
            let end = HeaderFields::of(call.data()).unwrap().end;
            for length in 0..end {
                assert_eq!(CallHeader::scan(&call.data()[..length]), None, "{length}");
                assert_eq!(reply_serial_offset(&call.data()[..length]), None, "{length}");
            }
        }
    }

    /// Bytes from the bus: whatever they are, nothing panics, and the library never reads another call in them.
    #[test]
    fn headers_from_the_bus() {
        let corpus: Vec<_> = calls().iter().map(|call| call.data().to_vec()).collect();
        cases(
            || (),
            |(), random: &mut Rng| {
                let message = changed(&corpus, random);
                let scanned = CallHeader::scan(&message);
                reply_serial_offset(&message);
                let parsed = parsed(&message);
                if let (Some(scanned), Some(parsed)) = (scanned, parsed) {
                    assert_eq!(Some(scanned), CallHeader::of(&parsed.header(), message[FLAGS]), "{message:?}");
                }
            },
        );
    }
}
