//! Compiles `policy.h` and compares the types and constants that Rust mirrors.

#![allow(missing_docs)]

use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use scherzo_arithmetic::{INCLUDE_DIR, SLICE_MAX_NS, TURN_NS, TaskAccount, TaskTurn};

/// (expression in C, value in Rust)
fn expectations() -> Vec<(String, u64)> {
    let mut all = vec![("POLICY_SLICE_MAX_NS".to_owned(), SLICE_MAX_NS), ("POLICY_TURN_NS".to_owned(), TURN_NS)];
    macro_rules! fields {
        ($c:literal, $rust:ty, $($field:ident),+) => {
            all.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as u64));
            $(
                let offset = offset_of!($rust, $field) as u64;
                all.push((format!("__builtin_offsetof(struct {}, {})", $c, stringify!($field)), offset));
            )+
        };
    }
    fields!(
        "policy_account",
        TaskAccount,
        vruntime,
        credit_ns,
        due_ns,
        max_lag,
        weight,
        nr_others,
        prompt,
        asked_slice_us
    );
    fields!("policy_turn", TaskTurn, vtime, slice_ns, first, timed);
    all
}

#[test]
fn rust_mirrors_the_header() {
    let mut program = String::from("#include \"policy.h\"\n");
    for (expression, value) in expectations() {
        writeln!(program, "_Static_assert(({expression}) == {value}, \"{expression}\");").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("layout.c");
    std::fs::write(&source, program).unwrap();
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-Wno-unused-function", "-fsyntax-only", "-I", INCLUDE_DIR])
        .arg(&source)
        .status()
        .expect("a C compiler, as Rust itself needs one to link");
    assert!(status.success(), "the header and its mirror differ");
}
