//! Who may depend on whom. The lines of this table are the architecture; `docs/architecture.md` explains them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Every crate of the workspace, and which others it may be built from directly. What is not listed is not allowed: a new
/// edge is a line here and a reason in the code map. Tests may use more.
const ALLOWED: &[(&str, &[&str])] = &[
    ("scherzo-api", &["scherzo-catalogue", "scherzo-model", "scherzo-wire"]),
    ("scherzo-app", &["scherzo-api", "scherzo-i18n", "scherzo-rules", "scherzo-wire"]),
    ("scherzo-arithmetic", &[]),
    ("scherzo-bench", &[]),
    ("scherzo-cases", &["scherzo-model", "scherzo-packaging", "scherzo-rig"]),
    ("scherzo-catalogue", &["scherzo-model"]),
    ("scherzo-compare", &["scherzo-rig"]),
    ("scherzo-ctl", &["scherzo-api", "scherzo-host", "scherzo-i18n", "scherzo-model", "scherzo-rules", "scherzo-wire"]),
    ("scherzo-daemon", &["scherzo-api", "scherzo-host", "scherzo-model", "scherzo-supervisor", "scherzo-wire"]),
    ("scherzo-engine", &["scherzo-engine-loop", "scherzo-host", "scherzo-policy", "scherzo-wire"]),
    ("scherzo-engine-loop", &["scherzo-policy", "scherzo-wire"]),
    ("scherzo-host", &[]),
    ("scherzo-i18n", &["scherzo-api"]),
    ("scherzo-install", &[]),
    ("scherzo-model", &[]),
    ("scherzo-packaging", &["scherzo-install", "scherzo-rig", "scherzo-scenarios"]),
    ("scherzo-policy", &["scherzo-arithmetic", "scherzo-model"]),
    ("scherzo-rig", &["scherzo-host", "scherzo-install"]),
    ("scherzo-rules", &["scherzo-api", "scherzo-i18n"]),
    ("scherzo-scenarios", &["scherzo-rig"]),
    ("scherzo-sim", &["scherzo-engine-loop", "scherzo-policy", "scherzo-wire"]),
    ("scherzo-supervisor", &["scherzo-catalogue", "scherzo-model", "scherzo-policy"]),
    ("scherzo-test-bus", &[]),
    ("scherzo-tray", &["scherzo-api", "scherzo-i18n"]),
    ("scherzo-wire", &["scherzo-arithmetic", "scherzo-model"]),
    (
        "xtask",
        &[
            "scherzo-cases",
            "scherzo-compare",
            "scherzo-install",
            "scherzo-model",
            "scherzo-packaging",
            "scherzo-policy",
            "scherzo-rig",
            "scherzo-scenarios",
        ],
    ),
];

/// A crate, and what must appear nowhere in the tree of what it is built from.
const FORBIDDEN_IN_TREE: &[(&str, &[&str])] = &[
    ("scherzo-catalogue", &["zbus", "tokio", "rustix", "libc"]),
    ("scherzo-wire", &["libbpf-rs", "libbpf-sys", "zbus", "tokio"]),
    ("scherzo-engine", &["tokio", "zbus", "gtk4", "libadwaita"]),
    ("scherzo-engine-loop", &["libbpf-rs", "libbpf-sys", "tokio", "zbus"]),
    ("scherzo-api", &["gtk4", "libadwaita", "libbpf-rs", "libbpf-sys"]),
    ("scherzo-supervisor", &["zbus", "tokio", "rustix", "libc", "tracing", "serde"]),
    ("scherzo-daemon", &["gtk4", "libadwaita", "libbpf-rs", "libbpf-sys"]),
    ("scherzo-ctl", &["gtk4", "libadwaita", "libbpf-rs", "libbpf-sys"]),
    ("scherzo-tray", &["gtk4", "libadwaita", "libbpf-rs", "libbpf-sys"]),
    ("scherzo-app", &["libbpf-rs", "libbpf-sys"]),
    ("xtask", &["libbpf-sys", "libelf-sys", "openssl-sys", "zbus", "tokio"]),
];

/// A crate, and what it must not name itself, though something that it names may.
const FORBIDDEN_DIRECTLY: &[(&str, &[&str])] =
    &[("scherzo-engine", &["serde"]), ("scherzo-engine-loop", &["rustix", "libc"]), ("scherzo-app", &["tokio"])];

/// What is built may depend on the processor.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Package names and what they are built from on a target, tests and build scripts left out.
fn edges(target: &str) -> Edges {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform"];
    let output = Command::new(cargo).args(arguments).arg(target).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let names: BTreeMap<_, _> = packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let is_normal = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let mut edges = Edges::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let deps = list(&node["deps"]).into_iter().filter(is_normal).map(|dep| names[&text(&dep["pkg"])].clone());
        edges.entry(names[&text(&node["id"])].clone()).or_default().extend(deps);
    }
    edges
}

fn tree<'a>(edges: &'a Edges, of: &'a str, seen: &mut BTreeSet<&'a str>) {
    for dependency in &edges[of] {
        if seen.insert(dependency) {
            tree(edges, dependency, seen);
        }
    }
}

#[test]
fn nobody_depends_on_what_the_architecture_forbids() {
    for edges in TARGETS.map(edges) {
        ensure_nothing_forbidden(&edges);
    }
}

fn ensure_nothing_forbidden(edges: &Edges) {
    for (package, forbidden) in FORBIDDEN_IN_TREE {
        let mut seen = BTreeSet::new();
        tree(edges, package, &mut seen);
        let found: Vec<_> = forbidden.iter().filter(|name| seen.contains(*name)).collect();
        assert!(found.is_empty(), "{package} is built from {found:?}");
    }
    for (package, forbidden) in FORBIDDEN_DIRECTLY {
        let found: Vec<_> = forbidden.iter().filter(|name| edges[*package].contains(**name)).collect();
        assert!(found.is_empty(), "{package} names {found:?}");
    }
}

fn is_ours(package: &str) -> bool {
    package.starts_with("scherzo-") || package == "xtask"
}

#[test]
fn every_internal_edge_is_allowed_and_every_allowed_edge_is_there() {
    for edges in TARGETS.map(edges) {
        ensure_as_allowed(&edges);
    }
}

fn ensure_as_allowed(edges: &Edges) {
    let ours = |names: &BTreeSet<String>| names.iter().filter(|name| is_ours(name)).cloned().collect::<BTreeSet<_>>();
    let real: Edges =
        edges.iter().filter(|(name, _)| is_ours(name)).map(|(name, to)| (name.clone(), ours(to))).collect();
    let allowed: Edges = ALLOWED
        .iter()
        .map(|(name, to)| ((*name).to_owned(), to.iter().map(|name| (*name).to_owned()).collect()))
        .collect();
    for (name, to) in &real {
        let expected = allowed.get(name).unwrap_or_else(|| panic!("{name} is not in the list"));
        assert_eq!(to, expected, "{name}: what it is built from, and what it may be built from");
    }
    assert!(real.keys().eq(allowed.keys()), "the list names a crate that is gone");
}

#[test]
fn the_policy_is_built_from_nothing_but_the_model_and_the_arithmetic() {
    for edges in TARGETS.map(edges) {
        let both = ["scherzo-arithmetic", "scherzo-model"].map(str::to_owned);
        assert_eq!(edges["scherzo-policy"], BTreeSet::from(both));
        assert_eq!(edges["scherzo-arithmetic"], BTreeSet::new());
        assert_eq!(edges["scherzo-model"], BTreeSet::new());
    }
}
