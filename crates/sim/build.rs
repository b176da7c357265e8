//! Compiles the scheduler's BPF source for the host, over headers that stand in for the kernel's.
//!
//! A copy of it is compiled, in which a few lines can be broken on purpose: `native/broken.txt` says how. As long as nobody asks for
//! that at run time, the copy does what the source does.

use std::fs;
use std::path::Path;

fn main() {
    let scheduler = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/src/bpf");
    let wire = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/include");
    let arithmetic = concat!(env!("CARGO_MANIFEST_DIR"), "/../arithmetic/include");
    for path in ["native", scheduler, wire, arithmetic] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let copy = Path::new(&std::env::var("OUT_DIR").expect("cargo sets it")).join("bpf");
    let unfit = copy_with_faults(Path::new(scheduler), &copy);
    println!("cargo:rustc-env=SIM_UNFIT_FAULTS={unfit}");
    println!("cargo:rustc-check-cfg=cfg(instrumented)");
    let mut compiler = cc::Build::new();
    compiler
        .compiler(std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".to_owned()))
        .std("gnu11")
        .include("native/include")
        .include(&copy)
        .include(wire)
        .include(arithmetic)
        // The kernel's C: comparisons of mixed sign and unused arguments are its style.
        .flags(["-Wno-unused-parameter", "-Wno-sign-compare", "-Wno-unused-function", "-fno-strict-aliasing"])
        .opt_level(2);
    let mut scheduler = compiler.clone();
    scheduler
        .flag("-fsanitize=integer-divide-by-zero,shift-exponent,null,array-bounds")
        .flag("-fno-sanitize-recover=all");
    compiler.files(["native/coroutine.c", "native/error.c", "native/instrument.c", "native/maps.c", "native/traps.c"]);
    // The tests' build is instrumented, what is measured is not.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo:rustc-cfg=instrumented");
        scheduler.flag("-fsanitize=thread").flag("-fsanitize-coverage=inline-bool-flag,pc-table");
        compiler.file("native/coverage.c");
    }
    // What the scheduler calls stands behind it in the library.
    scheduler.file("native/glue.c").compile("scherzo_bpf");
    compiler.compile("scherzo_shims");
}

/// Copies the source, with each fault behind its condition. The faults whose lines are not there any more: a test names them.
fn copy_with_faults(from: &Path, to: &Path) -> String {
    // Files that are gone from the source must not stay in the copy, where they would hide others of their name.
    if to.exists() {
        fs::remove_dir_all(to).expect("the last copy can be deleted");
    }
    fs::create_dir_all(to).expect("a directory for the copy");
    let faults = fs::read_to_string("native/broken.txt").expect("the list of faults");
    let faults: Vec<Vec<&str>> = faults.split("\n\n").skip(1).map(|fault| fault.lines().collect()).collect();
    let mut unfit: Vec<&str> = faults.iter().map(|fault| fault[0]).collect();
    for file in fs::read_dir(from).expect("the source").map(|entry| entry.expect("a file").path()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let mut text = fs::read_to_string(&file).expect("a text");
        for fault in faults.iter().filter(|fault| fault[1] == name) {
            if text.matches(fault[2]).count() == 1 {
                text = text.replace(fault[2], fault[3]);
                unfit.retain(|name| *name != fault[0]);
            }
        }
        fs::write(to.join(name), text).expect("the copy");
    }
    unfit.join(" ")
}
