//! Languages: compiled catalogues, and translations in those files that other programs read.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::layout::{Dir, Layout};
use crate::{Item, Part, names_in};

/// Keys of desktop files that are shown to people, for xgettext and msgfmt.
pub const DESKTOP_KEYS: &str = "--keyword= --keyword=Name --keyword=GenericName --keyword=Comment --keyword=Keywords";

/// A script for `sh -euc SCRIPT sh CHECKOUT OUT`; needs `msgfmt`. Writes `OUT/LANGUAGE.mo`, and files with the names of the
/// checkout's to `OUT/merged`.
#[must_use]
pub fn compile() -> String {
    COMPILE.replace("DESKTOP_KEYS", DESKTOP_KEYS)
}

const COMPILE: &str = r#"
    export GETTEXTDATADIRS="$1/po"
    cd "$1/po"
    mkdir -p "$2/merged"
    for language in $(cat LINGUAS); do
        msgfmt --check --output-file="$2/$language.mo" "$language.po"
    done
    for file in "$1"/crates/app/data/*.desktop "$1"/data/*.desktop; do
        msgfmt --desktop --template="$file" -d . DESKTOP_KEYS --output-file="$2/merged/${file##*/}"
    done
    for file in "$1"/crates/app/data/*.metainfo.xml "$1"/data/*.policy; do
        msgfmt --xml --template="$file" -d . --output-file="$2/merged/${file##*/}"
    done
    # polkit compares with locales: zh_CN where XML says zh-Hans-CN.
    sed -E -i 's/(xml:lang="[a-z]+)-([A-Za-z]+-)?([A-Z]+")/\1_\3/' "$2"/merged/*.policy
"#;

/// Where the translated version of a file is, if there is one.
pub(crate) fn merged(languages: &Path, name: &str) -> PathBuf {
    languages.join("merged").join(name)
}

/// The catalogues.
pub(crate) fn items(languages: &Path, layout: &Layout) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for name in names_in(languages)? {
        if let Some(language) = name.strip_suffix(".mo") {
            let path = layout.dir(Dir::Data("locale")).join(language).join("LC_MESSAGES/scherzo.mo");
            items.push(Item { part: Part::Common, path, content: std::fs::read(languages.join(&name))?, mode: 0o644 });
        }
    }
    Ok(items)
}
