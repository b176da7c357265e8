//! Compiles the scheduler's BPF source for the host, over headers that stand in for the kernel's.

fn main() {
    let scheduler = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/src/bpf");
    let wire = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/include");
    let arithmetic = concat!(env!("CARGO_MANIFEST_DIR"), "/../arithmetic/include");
    for path in ["native", scheduler, wire, arithmetic] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".to_owned());
    cc::Build::new()
        .compiler(clang)
        .std("gnu11")
        .include("native/include")
        .include(scheduler)
        .include(wire)
        .include(arithmetic)
        // The kernel's C: comparisons of mixed sign and unused arguments are its style.
        .flags(["-Wno-unused-parameter", "-Wno-sign-compare", "-Wno-unused-function", "-fno-strict-aliasing"])
        .opt_level(2)
        .files(["native/glue.c", "native/maps.c"])
        .compile("scherzo_bpf");
}
