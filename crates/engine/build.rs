//! Compiles the BPF object and generates its skeleton.

fn main() {
    let wire = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/include");
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed={wire}");
    scx_cargo::BpfBuilder::new()
        .expect("a BPF toolchain: clang 17 or newer")
        .add_include_path(wire)
        .enable_skel("src/bpf/main.bpf.c", "bpf")
        .build()
        .expect("the BPF object compiles");
}
