//! The skeleton that the build generates from `src/bpf/main.bpf.c`.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    dead_code,
    unsafe_op_in_unsafe_fn
)]

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
