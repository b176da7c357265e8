//! The kernel's report on why it let go of the scheduler.
//!
//! Its message and its dump name tasks, and a task's name is up to 15 bytes cut anywhere: it need not be UTF-8, and may hold
//! control characters. scx_utils takes the report for UTF-8 and panics where it is not, so it is read here.

use std::ffi::CStr;

/// Bytes of the report as they lie in the memory shared with BPF, up to the first NUL. BPF's characters have a sign, whatever those of
/// the processor have.
fn bytes(field: &[i8]) -> Vec<u8> {
    field.iter().map(|&byte| byte.cast_unsigned()).take_while(|&byte| byte != 0).collect()
}

/// Text that is fit for a terminal, a journal and a screen: what is not UTF-8, and every control character but the end of a
/// line, becomes a replacement character.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The reason, with the message if there is one.
pub(crate) fn describe(reason: &[i8], message: &[i8]) -> String {
    let [reason, message] = [reason, message].map(|field| printable(&bytes(field)));
    match (reason.is_empty(), message.is_empty()) {
        (true, true) => "the kernel gives no reason".to_owned(),
        (true, false) => message,
        (false, true) => reason,
        (false, false) => format!("{reason} ({message})"),
    }
}

/// The kernel's dump of run queues and tasks; empty if there is none.
pub(crate) fn dump() -> String {
    let Ok(dump) = scx_utils::UEI_DUMP_PTR_MUTEX.lock() else { return String::new() };
    if dump.ptr.is_null() {
        return String::new();
    }
    // SAFETY: `scx_ops_open!` has set the pointer to the start of a map that lives as long as the object, and BPF ends what it
    // copies there with a NUL.
    printable(unsafe { CStr::from_ptr(dump.ptr) }.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &[u8]) -> Vec<i8> {
        let mut field: Vec<_> = text.iter().map(|byte| byte.cast_signed()).collect();
        field.resize(128, 0);
        field
    }

    #[test]
    fn reason_and_message_make_one_sentence() {
        let described = |reason: &[u8], message: &[u8]| describe(&field(reason), &field(message));
        assert_eq!(described(b"runnable task stall", b"dd[7] waited"), "runnable task stall (dd[7] waited)");
        assert_eq!(described(b"unregistered", b""), "unregistered");
        assert_eq!(described(b"", b""), "the kernel gives no reason");
    }

    #[test]
    fn names_of_tasks_are_bytes() {
        // A Cyrillic name of eight letters, cut after 15 bytes; and one that would colour a terminal.
        let cut = &"планировщик".as_bytes()[..15];
        assert_eq!(printable(cut), "планиро\u{fffd}");
        assert_eq!(printable(b"\x1b[31mred\x07\nnext"), "\u{fffd}[31mred\u{fffd}\nnext");
    }

    #[test]
    fn a_field_without_an_end_is_read_to_its_end() {
        assert_eq!(describe(&[b'x'.cast_signed(); 128], &field(b"")).len(), 128);
    }
}
