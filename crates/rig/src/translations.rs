//! Translations: the template is gathered from all sources, catalogues are brought up to date with it, checked,
//! compiled.
//!
//! Rust is read by `xtr`, because the xgettext of today's distributions does not know it; everything else by xgettext.
//! The gettext tools are those of the build root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use scherzo_install::languages::DESKTOP_KEYS;

use crate::build::Workspace;
use crate::cache::Cache;
use crate::roots::{Bind, DebianRoot, run};

const XTR_VERSION: &str = "0.1.11";

/// The template, and the list of files that it was gathered from.
const TEMPLATE: &str = "po/scherzo.pot";
const FILE_LIST: &str = "po/POTFILES";

/// Header of the template. It has no date, so that it changes when a message does.
const HEADER: &str = r#"# Messages of Scherzo. `cargo xtask po` writes this file.
msgid ""
msgstr ""
"Project-Id-Version: Scherzo\n"
"PO-Revision-Date: YEAR-MO-DA HO:MI+ZONE\n"
"Last-Translator: FULL NAME <EMAIL@ADDRESS>\n"
"Language-Team: LANGUAGE\n"
"Language: \n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"#;

/// Folders that hold messages for people.
const SOURCE_FOLDERS: &[&str] = &["crates", "data"];
/// What a file of each kind contains if there is something to translate in it.
const KINDS: &[(&str, &[&str])] = &[
    (".rs", &["gettext(\"", "gettext(\n", "gettext_noop("]),
    (".js", &["gettext(", "_(", "gettext`"]),
    (".ui", &["translatable="]),
    (".desktop", &["Name="]),
    (".metainfo.xml", &["<component"]),
    (".policy", &["<message>"]),
];

/// Run in the build root, with the checkout, what xtr wrote, and the list of the other files. The headers of the parts
/// only say that they are UTF-8; the first counts.
const GATHER: &str = r#"
    export GETTEXTDATADIRS=/source/po
    gather() {
        files=$(grep -E "$1" /work/files || true)
        shift
        [ -z "$files" ] || xgettext --from-code=UTF-8 --add-location=file --add-comments=Translators "$@" \
            --output=/work/part.pot $files
        [ ! -e /work/part.pot ] || { mv /work/part.pot /work/part-$nr.pot; nr=$((nr + 1)); }
    }
    cd /source
    nr=1
    gather '\.ui$'
    gather '\.js$'
    gather '\.desktop$' --language=Desktop DESKTOP_KEYS
    gather '\.metainfo\.xml$'
    gather '\.policy$'
    msgcat --use-first --add-location=file --width=100 --output=/work/all.pot /work/header.pot /work/rust.pot \
        $(ls /work/part-*.pot)
"#;

/// Gathers the template and merges it into every language. New messages are left to translators.
pub fn update(cache: &Cache, build_root: &DebianRoot, checkout: &Path) -> Result<()> {
    let gathered = Gathered::from(cache, build_root, checkout)?;
    fs::write(checkout.join(TEMPLATE), &gathered.template)?;
    fs::write(checkout.join(FILE_LIST), &gathered.files)?;
    for language in languages(checkout)? {
        let merge = format!(
            "cd /source/po; msgmerge --quiet --update --backup=none --previous --add-location=file --width=100 \
             {language}.po scherzo.pot"
        );
        build_root.shell(&[source(checkout)], &merge).with_context(|| format!("merging {language}"))?;
    }
    Ok(())
}

/// Fails if the template is not what the sources say, or a translation is wrong: placeholders, plurals, and the marks
/// of keys (`_`). What is not translated yet is printed by [`print_missing`]; it is shown in English.
pub fn check(cache: &Cache, build_root: &DebianRoot, checkout: &Path) -> Result<()> {
    let gathered = Gathered::from(cache, build_root, checkout)?;
    for (file, expected) in [(TEMPLATE, &gathered.template), (FILE_LIST, &gathered.files)] {
        let committed = fs::read_to_string(checkout.join(file)).with_context(|| format!("cannot read {file}"))?;
        let difference = first_difference(&committed, expected);
        ensure!(difference.is_none(), "{file} is stale: run `cargo xtask po` ({})", difference.unwrap_or_default());
    }
    for language in languages(checkout)? {
        let check = format!("msgfmt --check --check-accelerators=_ --output-file=/dev/null /source/po/{language}.po");
        build_root
            .shell(&[source(checkout)], &check)
            .with_context(|| format!("something in po/{language}.po is not as in the template"))?;
    }
    print_missing(build_root, checkout)
}

/// Prints how many messages each language lacks.
pub fn print_missing(build_root: &DebianRoot, checkout: &Path) -> Result<()> {
    for (language, nr_missing) in missing(build_root, checkout)? {
        println!(
            "{language}: {}",
            if nr_missing == 0 { "complete".into() } else { format!("{nr_missing} not translated") }
        );
    }
    Ok(())
}

/// Fails if a language lacks a message.
pub fn check_complete(build_root: &DebianRoot, checkout: &Path) -> Result<()> {
    let mut missing = missing(build_root, checkout)?;
    missing.retain(|(_, nr_missing)| *nr_missing > 0);
    let lacking: Vec<_> = missing.iter().map(|(language, nr_missing)| format!("{language} ({nr_missing})")).collect();
    ensure!(
        lacking.is_empty(),
        "messages are not translated: {}; run `cargo xtask po`, then translate",
        lacking.join(", ")
    );
    Ok(())
}

/// Each language with the number of messages that it lacks: those that are not there, and those that wait for review.
fn missing(build_root: &DebianRoot, checkout: &Path) -> Result<Vec<(String, usize)>> {
    let count = |language: String| {
        let merge =
            format!("msgmerge --quiet --no-fuzzy-matching --output-file=/tmp/merged.po {language}.po scherzo.pot");
        let script = format!(
            "cd /source/po; export LC_ALL=C; {merge}; msgfmt --statistics --output-file=/dev/null /tmp/merged.po 2>&1"
        );
        let statistics = build_root.output(&[source(checkout)], &script)?;
        let nr_missing = nr_missing(&statistics).with_context(|| format!("msgfmt says {statistics:?}"))?;
        Ok((language, nr_missing))
    };
    languages(checkout)?.into_iter().map(count).collect()
}

/// `12 translated messages, 1 fuzzy translation, 3 untranslated messages.`: what is not translated.
fn nr_missing(statistics: &str) -> Option<usize> {
    let mut nr_missing = 0;
    for part in statistics.trim_end().strip_suffix('.')?.split(", ") {
        let (number, what) = part.split_once(' ')?;
        nr_missing += if what.starts_with("translated") { 0 } else { number.parse::<usize>().ok()? };
    }
    Some(nr_missing)
}

/// What the languages add to an installation, for [`scherzo_install::items`].
pub fn compile(workspace: &Workspace<'_>, to: &Path) -> Result<()> {
    let binds = [source(workspace.checkout()), Bind::new(to, "/languages")];
    let script = format!("set -- /source /languages\n{}", scherzo_install::languages::compile());
    workspace.build_root().shell(&binds, &script).context("compiling translations")
}

fn source(checkout: &Path) -> Bind {
    Bind::new(checkout, "/source")
}

/// The languages, as `po/LINGUAS` lists them.
fn languages(checkout: &Path) -> Result<Vec<String>> {
    let list = fs::read_to_string(checkout.join("po/LINGUAS")).context("cannot read po/LINGUAS")?;
    Ok(list.split_whitespace().map(str::to_owned).collect())
}

/// What the sources say.
struct Gathered {
    template: String,
    files: String,
}

impl Gathered {
    fn from(cache: &Cache, build_root: &DebianRoot, checkout: &Path) -> Result<Self> {
        let files = files(checkout)?;
        let work = tempfile::tempdir()?;
        let list = files.join("\n") + "\n";
        fs::write(work.path().join("files"), &list)?;
        fs::write(work.path().join("header.pot"), HEADER)?;
        extract_rust(cache, checkout, &files, &work.path().join("rust.pot"))?;
        let binds = [source(checkout), Bind::new(work.path(), "/work")];
        build_root.shell(&binds, &GATHER.replace("DESKTOP_KEYS", DESKTOP_KEYS))?;
        let template = with_flags(&fs::read_to_string(work.path().join("all.pot"))?);
        Ok(Self { template, files: list })
    }
}

/// Every file with something to translate, in order.
fn files(checkout: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in SOURCE_FOLDERS {
        collect(checkout, Path::new(folder), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn collect(checkout: &Path, folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in checkout.join(folder).read_dir()? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(checkout, &path, found)?;
        } else if has_messages(&checkout.join(&path))? {
            found.push(path.to_str().context("a file's name is not UTF-8")?.to_owned());
        }
    }
    Ok(())
}

fn has_messages(path: &Path) -> Result<bool> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((_, marks)) = KINDS.iter().find(|(ending, _)| name.ends_with(ending)) else { return Ok(false) };
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(marks.iter().any(|mark| text.contains(mark)))
}

/// xtr follows a crate's modules from their root.
fn extract_rust(cache: &Cache, checkout: &Path, files: &[String], template: &Path) -> Result<()> {
    let crates: BTreeSet<_> = files.iter().filter_map(|file| crate_of(file)).collect();
    let roots = crates.iter().flat_map(|package| ["lib.rs", "main.rs"].map(|root| format!("{package}/src/{root}")));
    let roots: Vec<_> = roots.filter(|root| checkout.join(root).exists()).collect();
    let mut extract = Command::new(xtr(cache)?);
    extract.args(["--add-location", "file", "--package-name", "Scherzo", "--output"]).arg(template);
    let output = extract.args(&roots).current_dir(checkout).output().context("cannot run xtr")?;
    ensure!(output.status.success(), "xtr failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// `crates/ctl` for `crates/ctl/src/main.rs`; `None` for files that are not Rust.
fn crate_of(file: &str) -> Option<&str> {
    let is_rust = Path::new(file).extension().is_some_and(|extension| extension == "rs");
    file.split_once("/src/").filter(|_| is_rust).map(|(package, _)| package)
}

/// The program, compiled once: no distribution has it.
fn xtr(cache: &Cache) -> Result<PathBuf> {
    let dir = cache.artefact("xtr", XTR_VERSION, |dir| {
        let mut install = Command::new("cargo");
        install.args(["install", "--quiet", "--locked", "--debug", "--version", XTR_VERSION, "xtr", "--root"]).arg(dir);
        // What is set for the checkout's own builds is not meant for others.
        install.env_remove("CARGO_TARGET_DIR").env_remove("RUSTC_WORKSPACE_WRAPPER");
        run(&mut install)
    })?;
    Ok(dir.join("bin/xtr"))
}

/// Flags messages with `{name}` in them, so that msgfmt checks that translations have the same names. The flag of this
/// syntax is Python's; gettext has one for Rust from 0.24.
fn with_flags(template: &str) -> String {
    let entries = template.split("\n\n").map(|entry| {
        let message = entry.find("\nmsgctxt ").or_else(|| entry.find("\nmsgid "));
        match message {
            Some(at) if entry[at..].contains('{') && !entry.contains("-format") => {
                format!("{}\n#, python-brace-format{}", &entry[..at], &entry[at..])
            }
            _ => entry.to_owned(),
        }
    });
    entries.collect::<Vec<_>>().join("\n\n")
}

/// The first line that differs, as committed and as it should be.
fn first_difference(committed: &str, expected: &str) -> Option<String> {
    if committed == expected {
        return None;
    }
    let lines = committed.lines().zip(expected.lines()).find(|(committed, expected)| committed != expected);
    Some(lines.map_or_else(
        || "one is longer".to_owned(),
        |(committed, expected)| format!("it says {committed:?} where the sources say {expected:?}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_arguments_are_flagged() {
        let template = "msgid \"\"\nmsgstr \"\"\n\n#: a.rs\nmsgid \"By {name}\"\nmsgstr \"\"\n\n#: b.rs\nmsgid \"No\"\nmsgstr \"\"\n";
        let flagged = with_flags(template);
        assert!(flagged.contains("#: a.rs\n#, python-brace-format\nmsgid \"By {name}\""), "{flagged}");
        assert_eq!(flagged.matches("python-brace-format").count(), 1);
    }

    #[test]
    fn differences_are_shown() {
        assert_eq!(first_difference("a\nb", "a\nb"), None);
        assert_eq!(first_difference("a\nb", "a\nc").unwrap(), "it says \"b\" where the sources say \"c\"");
    }

    #[test]
    fn files_with_messages_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("crates/one/src");
        fs::create_dir_all(&source).unwrap();
        fs::create_dir_all(dir.path().join("data")).unwrap();
        fs::write(source.join("main.rs"), "gettext(\"Hello\")").unwrap();
        fs::write(source.join("silent.rs"), "nothing").unwrap();
        fs::write(dir.path().join("data/a.desktop"), "Name=A\n").unwrap();
        assert_eq!(files(dir.path()).unwrap(), ["crates/one/src/main.rs", "data/a.desktop"]);
        assert_eq!(crate_of("crates/one/src/main.rs"), Some("crates/one"));
    }

    #[test]
    fn what_is_fuzzy_or_not_there_is_missing() {
        assert_eq!(nr_missing("12 translated messages, 1 fuzzy translation, 3 untranslated messages.\n"), Some(4));
        assert_eq!(nr_missing("444 translated messages.\n"), Some(0));
        assert_eq!(nr_missing("msgfmt: error"), None);
    }
}
