//! Compiles the arithmetic for user space.

fn main() {
    for path in ["include", "src/arithmetic.c"] {
        println!("cargo:rerun-if-changed={path}");
    }
    cc::Build::new().std("gnu11").include("include").file("src/arithmetic.c").compile("scherzo_arithmetic");
}
