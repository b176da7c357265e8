//! Spelling, by codespell: it knows common mistakes, not words, so that names and other languages pass.

use std::path::Path;

use anyhow::{Context, Result};
use scherzo_rig::roots::{Bind, DebianRoot};

/// Fails if a file holds a common mistake. `.codespellrc` says where to look, `.codespell-words` what is none.
pub(super) fn check(build_root: &DebianRoot, checkout: &Path) -> Result<()> {
    let binds = [Bind::new(checkout, "/source")];
    build_root.shell(&binds, "cd /source; codespell").context("correct it, or add the word to .codespell-words")
}
