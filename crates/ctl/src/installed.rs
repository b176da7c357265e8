//! The installed kernels that do not run now: which of them Scherzo could run on, before anybody restarts.

use std::fmt::Display;
use std::fs;

use scherzo_host::{Root, Severity, missing_options, quote_names, release};
use scherzo_i18n::{fill, gettext};

use crate::doctor::DoctorLine;
use crate::image;

const ID: &str = "installed-kernel";
/// Where the modules of all kernels lie, a directory for each.
const MODULES: [&str; 2] = ["lib/modules", "usr/lib/modules"];

/// What is known about a kernel that does not run.
enum Verdict {
    Fit,
    /// Its type information could not be looked at.
    Configured(String),
    Lacks(String),
    Malformed(String),
    Unknown,
}

/// A finding for each installed kernel but the one that runs.
pub(crate) fn findings(root: &Root) -> Vec<DoctorLine> {
    let running = release(root).unwrap_or_default();
    let mut releases: Vec<_> = MODULES.iter().flat_map(|place| names(root, place)).collect();
    releases.sort_unstable();
    releases.dedup();
    let others = releases.iter().filter(|release| **release != running && has_image(root, release));
    others.map(|release| finding(release, &look_at(root, release))).collect()
}

fn names(root: &Root, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root.path(directory)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn images(release: &str) -> [String; 3] {
    [
        format!("boot/vmlinuz-{release}"),
        format!("usr/lib/modules/{release}/vmlinuz"),
        format!("lib/modules/{release}/vmlinuz"),
    ]
}

/// Modules may be left of a kernel that was removed.
fn has_image(root: &Root, release: &str) -> bool {
    images(release).iter().any(|image| root.path(image).exists())
}

fn look_at(root: &Root, release: &str) -> Verdict {
    let places = [
        format!("boot/config-{release}"),
        format!("usr/lib/modules/{release}/config"),
        format!("lib/modules/{release}/config"),
    ];
    let Some(config) = places.iter().find_map(|place| fs::read_to_string(root.path(place)).ok()) else {
        return Verdict::Unknown;
    };
    let missing = missing_options(&config);
    if !missing.is_empty() {
        return Verdict::Lacks(missing.join(", "));
    }
    let images = images(release).map(|image| root.path(image));
    let Some(path) = images.iter().find(|path| path.exists()) else { return Verdict::Unknown };
    match image::kernel_types(path) {
        Err(error) => Verdict::Configured(error.to_string()),
        Ok(types) if types.malformed_kfuncs.is_empty() => Verdict::Fit,
        Ok(types) => Verdict::Malformed(quote_names(&types.malformed_kfuncs)),
    }
}

fn finding(release: &str, verdict: &Verdict) -> DoctorLine {
    let release: (&str, &dyn Display) = ("release", &release);
    let (kind, severity, text) = match verdict {
        Verdict::Fit => (
            "fit",
            Severity::Good,
            fill(
                &gettext("The installed kernel {release} has sched_ext, and its type information (BTF) is sound."),
                &[release],
            ),
        ),
        Verdict::Configured(error) => (
            "unchecked",
            Severity::Note,
            fill(
                &gettext(
                    "The installed kernel {release} has sched_ext. Its type information (BTF) could not be checked: {error}.",
                ),
                &[release, ("error", error)],
            ),
        ),
        Verdict::Lacks(missing) => (
            "incomplete",
            Severity::Warning,
            fill(
                &gettext("The installed kernel {release} cannot run Scherzo: it was built without {missing}."),
                &[release, ("missing", missing)],
            ),
        ),
        Verdict::Malformed(functions) => (
            "malformed",
            Severity::Warning,
            fill(
                &gettext(
                    "The installed kernel {release} cannot run Scherzo: its type information (BTF) is malformed; it shows a \
                     hidden argument of {functions}.",
                ),
                &[release, ("functions", functions)],
            ),
        ),
        Verdict::Unknown => (
            "unreadable",
            Severity::Note,
            fill(
                &gettext("The configuration of the installed kernel {release} cannot be read, so it is not checked."),
                &[release],
            ),
        ),
    };
    DoctorLine { id: ID.to_owned(), text_id: format!("{ID}/{kind}"), severity: severity.name().to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::{elf, image};

    const GOOD_CONFIG: &str =
        "CONFIG_SCHED_CLASS_EXT=y\nCONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\nCONFIG_DEBUG_INFO_BTF=y\n";

    #[test]
    fn each_kernel_that_does_not_run_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let put = |path: &str, content: &[u8]| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        put("proc/sys/kernel/osrelease", b"6.18.1\n");
        for release in ["6.18.1", "6.12.1", "7.2.12", "7.3.4", "7.4.0", "7.5.0"] {
            put(&format!("usr/lib/modules/{release}/modules.dep"), b"");
        }
        for release in ["6.18.1", "7.2.12", "7.3.4"] {
            put(&format!("boot/config-{release}"), GOOD_CONFIG.as_bytes());
        }
        put("usr/lib/modules/6.12.1/config", b"CONFIG_BPF_SYSCALL=y\nCONFIG_BPF_JIT=y\nCONFIG_DEBUG_INFO_BTF=y\n");
        put("usr/lib/modules/6.12.1/vmlinuz", b"");
        put("boot/vmlinuz-6.18.1", b"");
        put("boot/vmlinuz-7.2.12", &image(&elf(b"no types")));
        put("boot/vmlinuz-7.3.4", &image(b"\xfd7zXZ\0"));
        put("boot/vmlinuz-7.4.0", b"");
        let found = findings(&root);
        let texts: Vec<_> = found.iter().map(|line| format!("{}: {}", line.severity, line.text)).collect();
        let expected = [
            "warning: The installed kernel 6.12.1 cannot run Scherzo: it was built without CONFIG_SCHED_CLASS_EXT.",
            "note: The installed kernel 7.2.12 has sched_ext. Its type information (BTF) could not be checked: invalid data.",
            "note: The installed kernel 7.3.4 has sched_ext. Its type information (BTF) could not be checked: not compressed \
             with zstd.",
            "note: The configuration of the installed kernel 7.4.0 cannot be read, so it is not checked.",
        ];
        assert_eq!(texts, expected);
        assert!(found.iter().all(|line| line.id == ID));
    }
}
