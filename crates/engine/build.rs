//! Compiles the BPF object and generates its skeleton.

fn main() {
    let wire = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/include");
    let arithmetic = concat!(env!("CARGO_MANIFEST_DIR"), "/../arithmetic/include");
    for path in ["src/bpf", wire, arithmetic] {
        println!("cargo:rerun-if-changed={path}");
    }
    scx_cargo::BpfBuilder::new()
        .expect("a BPF toolchain: clang 17 or newer")
        .add_include_path(wire)
        .add_include_path(arithmetic)
        .enable_skel("src/bpf/main.bpf.c", "bpf")
        .build()
        .expect("the BPF object compiles");
}
