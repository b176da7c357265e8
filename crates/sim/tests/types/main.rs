//! The headers that stand in for the kernel's declare only what the kernels declare as well, with the same types and values.
//!
//! `6.18.txt` and `7.3.txt` are extracts from the type information of such kernels. To make one anew, where that kernel runs:
//!
//!     SCHERZO_BTF=6.18=/sys/kernel/btf/vmlinux cargo test -p scherzo-sim --test types

mod btf;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use btf::Btf;

/// The kernels.
const VERSIONS: [&str; 2] = ["6.18", "7.3"];
/// Fields and structures of the simulator's own: the kernel keeps tasks elsewhere, and does not say what is in the last three.
const OWN: [&str; 5] =
    ["task_struct.sim_id", "task_struct.sim_storage", "bpf_timer.", "bpf_dynptr.", "bpf_iter_scx_dsq."];
/// Smaller here: the emulated machine has fewer CPUs.
const SMALLER: &str = "cpumask.bits";
/// Macros of the kernel, of which its type information does not know: include/linux/sched.h, include/uapi/linux/time.h.
const MACROS: [&str; 2] = ["PF_", "CLOCK_MONOTONIC"];
/// The loader asks the kernel for it, as it was changed: the emulated kernel keeps the older one in all versions.
const CHANGED: (&str, &str) = ("7.3", "SCX_ENQ_HEAD is 16, in the kernel 65536");

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn header(name: &str) -> String {
    std::fs::read_to_string(here("native/include/scx").join(name)).expect("a header")
}

/// What the headers declare: fields with their types, and values. A compiler for BPF writes it down as the kernel's does.
fn declared() -> (BTreeMap<String, String>, BTreeMap<String, u64>) {
    let mut source =
        "typedef unsigned char u8;\ntypedef unsigned short u16;\ntypedef unsigned int u32;\ntypedef int s32;\n\
                      typedef unsigned long u64;\ntypedef long s64;\ntypedef _Bool bool;\n\
                      #include \"constants.h\"\n#include \"types.h\"\n"
            .to_owned();
    for name in header("types.h").lines().filter_map(|line| line.strip_prefix("struct ")?.strip_suffix(" {")) {
        let _ = writeln!(source, "struct {name} has_{name};");
    }
    let constants = header("constants.h");
    let macros = constants.lines().filter_map(|line| line.strip_prefix("#define "));
    for name in macros.filter_map(|line| line.split_once(' ')).map(|(name, _)| name) {
        let _ = writeln!(source, "enum {{ is_{name} = {name} }} has_{name};");
    }
    let _ = writeln!(source, "enum scx_cpu_preempt_reason has_reason;");
    // Each test has a file of its own.
    let name = std::thread::current().name().unwrap_or("types").to_owned();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("c");
    let object = file.with_extension("o");
    std::fs::write(&file, source).expect("a file");
    let compiler = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(compiler);
    command
        .args(["-target", "bpf", "-g", "-c", "-I"])
        .arg(here("native/include/scx"))
        .arg(&file)
        .arg("-o")
        .arg(&object);
    assert!(command.status().expect("a compiler").success(), "the headers compile");
    let object = std::fs::read(object).expect("an object file");
    let btf = Btf::parse(btf::section(&object, ".BTF").expect("type information"));
    let values = btf.values();
    let plain = |(name, value): (String, u64)| (name.strip_prefix("is_").unwrap_or(&name).to_owned(), value);
    (btf.fields(), values.into_iter().map(plain).collect())
}

fn is_own(field: &str) -> bool {
    OWN.iter().any(|own| field.starts_with(own))
}

fn is_macro(name: &str) -> bool {
    MACROS.iter().any(|prefix| name.starts_with(prefix))
}

/// What a kernel has of that, a line each: `field task_struct.pid s32`, `value SCX_ENQ_HEAD 16`.
fn extract_from(kernel: &Btf, fields: &BTreeMap<String, String>, values: &BTreeMap<String, u64>) -> String {
    let (all_fields, all_values) = (kernel.fields(), kernel.values());
    let mut text = String::new();
    for (field, described) in all_fields.iter().filter(|(field, _)| fields.contains_key(*field) && !is_own(field)) {
        let _ = writeln!(text, "field {field} {described}");
    }
    for (name, value) in all_values.iter().filter(|(name, _)| values.contains_key(*name)) {
        let _ = writeln!(text, "value {name} {value}");
    }
    text
}

/// In what the headers differ from an extract.
fn differences(extract: &str, fields: &BTreeMap<String, String>, values: &BTreeMap<String, u64>) -> Vec<String> {
    let lines = extract.lines().filter_map(|line| line.split_once(' ')?.1.split_once(' '));
    let known: BTreeMap<&str, &str> = lines.collect();
    let mut wrong = Vec::new();
    let mut compare = |name: &str, here: &str| match known.get(name) {
        Some(there) if *there == here => {}
        Some(there) => wrong.push(format!("{name} is {here}, in the kernel {there}")),
        None => wrong.push(format!("{name} is not in the kernel")),
    };
    for (field, described) in fields.iter().filter(|(field, _)| !is_own(field) && *field != SMALLER) {
        compare(field, described);
    }
    for (name, value) in values.iter().filter(|(name, _)| !is_macro(name)) {
        compare(name, &value.to_string());
    }
    wrong
}

#[test]
fn the_headers_say_what_the_kernels_say() {
    let (fields, values) = declared();
    assert!(fields.len() > 60 && values.len() > 40, "{} fields and {} values say little", fields.len(), values.len());
    let anew = std::env::var("SCHERZO_BTF").ok();
    for version in VERSIONS {
        let file = here(&format!("tests/types/{version}.txt"));
        if let Some((_, source)) = anew.as_ref().and_then(|text| text.split_once('=')).filter(|(of, _)| *of == version)
        {
            let kernel = Btf::parse(&std::fs::read(source).expect("the kernel's type information"));
            std::fs::write(&file, extract_from(&kernel, &fields, &values)).expect("the extract can be written");
        }
        let extract = std::fs::read_to_string(&file).expect("an extract");
        let wrong = differences(&extract, &fields, &values);
        let expected = if version == CHANGED.0 { vec![CHANGED.1] } else { Vec::new() };
        assert_eq!(wrong, expected, "Linux {version}");
    }
}

#[test]
fn what_the_kernel_has_not_is_noticed() {
    let (mut fields, mut values) = declared();
    fields.retain(|name, _| name.starts_with("task_struct."));
    values.retain(|name, _| name.starts_with("SCX_ENQ_"));
    let extract = std::fs::read_to_string(here("tests/types/6.18.txt")).expect("an extract");
    fields.insert("task_struct.gone".to_owned(), "s32".to_owned());
    fields.insert("task_struct.pid".to_owned(), "u32".to_owned());
    values.insert("SCX_ENQ_HEAD".to_owned(), 17);
    let wrong = differences(&extract, &fields, &values);
    assert_eq!(
        wrong,
        [
            "task_struct.gone is not in the kernel",
            "task_struct.pid is u32, in the kernel s32",
            "SCX_ENQ_HEAD is 17, in the kernel 16"
        ]
    );
}
