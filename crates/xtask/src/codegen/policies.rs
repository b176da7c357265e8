//! The names of policies for the completions of `scherzoctl`, which is not built from `scherzo-policy`.

use scherzo_policy::POLICIES;

/// The whole file.
pub(super) fn text() -> String {
    let names: Vec<_> = POLICIES.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "//! `cargo xtask codegen` writes this file from crates/policy: change that.\n\n\
         /// What the setting `policy` takes.\n\
         pub(crate) const POLICIES: &[&str] = &[{}];\n",
        names.join(", ")
    )
}
