//! Which kernels the guest boots: chosen at run time from what the archive offers, because versions come and go.

pub mod every;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fmt, fs};

use anyhow::{Context, Result};

use crate::progress::say;
use crate::roots::{Bind, DebianRoot};

/// What a kernel is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A long-term kernel with sched_ext: the cases run on it, measurements too.
    Lts,
    /// The newest kernel with sched_ext and sound BTF: the cases run on it.
    Newest,
    /// sched_ext is compiled in, but no scheduler can load: the BTF is wrong.
    MalformedBtf,
    /// No sched_ext at all.
    WithoutSchedExt,
    /// A scheduler can be loaded; the cases run on it when all kernels are asked for.
    Further,
}

/// All of them.
const ALL_ROLES: &[Role] = &[Role::Lts, Role::Newest, Role::MalformedBtf, Role::WithoutSchedExt, Role::Further];

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lts => "long-term",
            Self::Newest => "newest",
            Self::MalformedBtf => "malformed BTF",
            Self::WithoutSchedExt => "no sched_ext",
            Self::Further => "further",
        })
    }
}

/// Prefixes and build tags of the versions of a role, most wanted first. An empty prefix fits every version.
const PREFERENCES: &[(Role, &[(&str, &str)])] = &[
    (Role::Lts, &[("6.18.", "+deb13"), ("6.17.", "+deb13"), ("6.16.", "+deb13")]),
    (Role::Newest, &[("", "")]),
    (Role::MalformedBtf, &[("7.2.", "+deb13"), ("7.1.", "+deb13")]),
    (Role::WithoutSchedExt, &[("6.12.", "+deb13")]),
];

/// Suites that are asked besides the guest's own.
const FURTHER_SUITES: &[&str] = &["trixie-backports", "sid"];
const PACKAGE_PREFIX: &str = "linux-image-";
const PACKAGE_SUFFIX: &str = "-cloud-amd64";
/// Which kernel of the guest root is there for what: a line of role and release each.
const ROLES: &str = "boot/scherzo-kernels";

/// A kernel in the guest root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestKernel {
    /// What it is there for.
    pub role: Role,
    /// As `uname -r` says it.
    pub release: String,
}

impl GuestKernel {
    /// The image that QEMU boots, as the host sees it.
    #[must_use]
    pub fn image(&self, guest_root: &DebianRoot) -> PathBuf {
        guest_root.dir().join("boot").join(format!("vmlinuz-{}", self.release))
    }
}

/// What a kernel's type information says about schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeInformation {
    /// It describes sched_ext's functions as they are called.
    Sound,
    /// It describes them so that no scheduler can be loaded.
    Malformed,
    /// It does not describe them.
    WithoutSchedExt,
}

impl Role {
    /// Whether a kernel with this type information serves the role.
    fn is_served_by(self, found: TypeInformation) -> bool {
        found
            == match self {
                Self::Lts | Self::Newest | Self::Further => TypeInformation::Sound,
                Self::MalformedBtf => TypeInformation::Malformed,
                Self::WithoutSchedExt => TypeInformation::WithoutSchedExt,
            }
    }
}

/// What the choice depends on, for artefacts that contain kernels.
#[must_use]
pub fn recipe() -> String {
    format!("{PREFERENCES:?}{FURTHER_SUITES:?}{ROLES}{UNPACK}{EXTRACT_BTF}")
}

/// Asks the archive, and unpacks for each role the most wanted kernel whose type information serves it: image, modules and
/// configuration. No version and no build tag says whether that is sound, so every candidate is looked at.
pub fn install(root: &DebianRoot, build_root: &DebianRoot) -> Result<()> {
    let sources = FURTHER_SUITES.iter().fold(String::from("set --"), |all, suite| all + " " + suite);
    let offered = root.output(&[], &format!("{sources}\n{ASK}")).context("cannot ask the archive for kernels")?;
    let offered: Vec<_> = offered.lines().collect();
    let mut known = BTreeMap::new();
    let mut look = |release: &str| -> Result<TypeInformation> {
        if let Some(found) = known.get(release) {
            return Ok(*found);
        }
        root.shell(&[], &format!("set -- {release}\n{UNPACK}")).with_context(|| format!("cannot unpack {release}"))?;
        let found = type_information(root, build_root, release)?;
        say(&format!("{release}: {}", found.describe()));
        known.insert(release.to_owned(), found);
        Ok(found)
    };
    let chosen = choose(&offered, &mut look)?;
    for release in known.keys().filter(|release| !chosen.iter().any(|kernel| kernel.release == **release)) {
        root.shell(&[], &format!("rm -rf /boot/*-{release} /usr/lib/modules/{release}"))?;
    }
    fs::write(root.dir().join(ROLES), written(&chosen)).context("cannot note the kernels' roles")?;
    root.shell(&[], "rm -rf /var/tmp/*")
}

/// The kernels of a guest root, with their roles.
pub fn installed(root: &DebianRoot) -> Result<Vec<GuestKernel>> {
    let path = root.dir().join(ROLES);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(read(&text))
}

/// Says loudly for which roles [`install`] has found no kernel.
pub fn say_what_is_missing(kernels: &[GuestKernel]) {
    for (role, _) in PREFERENCES {
        if !kernels.iter().any(|kernel| kernel.role == *role) {
            say(&format!("NOTE: the archive offers no kernel for the role \"{role}\": what needs it cannot run"));
        }
    }
}

fn written(kernels: &[GuestKernel]) -> String {
    kernels.iter().fold(String::new(), |all, GuestKernel { role, release }| format!("{all}{release} {role}\n"))
}

fn read(text: &str) -> Vec<GuestKernel> {
    let kernel = |line: &str| {
        let (release, name) = line.split_once(' ')?;
        let role = ALL_ROLES.iter().find(|role| role.to_string() == name)?;
        Some(GuestKernel { role: *role, release: release.to_owned() })
    };
    text.lines().filter_map(kernel).collect()
}

fn choose(packages: &[&str], look: &mut impl FnMut(&str) -> Result<TypeInformation>) -> Result<Vec<GuestKernel>> {
    let mut chosen = Vec::new();
    for (role, wishes) in PREFERENCES {
        for release in candidates(wishes, packages) {
            if role.is_served_by(look(release)?) {
                chosen.push(GuestKernel { role: *role, release: release.to_owned() });
                break;
            }
        }
    }
    Ok(chosen)
}

/// Releases that fit one of the wishes: the most wanted series first, and within each the newest version.
fn candidates<'a>(wishes: &[(&str, &str)], packages: &[&'a str]) -> Vec<&'a str> {
    let releases = packages.iter().filter_map(|package| package.strip_prefix(PACKAGE_PREFIX));
    let releases: Vec<_> = releases.filter(|release| !version(release).is_empty()).collect();
    let mut fitting = Vec::new();
    for (prefix, tag) in wishes {
        let suffix = format!("{tag}{PACKAGE_SUFFIX}");
        let fits = |release: &&&str| release.starts_with(prefix) && release.ends_with(&suffix);
        let mut series: Vec<_> = releases.iter().filter(fits).copied().collect();
        series.sort_by_key(|release| std::cmp::Reverse((version(release), *release)));
        fitting.extend(series);
    }
    fitting
}

/// The leading numbers of a release: 6.18.15+deb13-cloud-amd64 → [6, 18, 15].
fn version(release: &str) -> Vec<u32> {
    let numbers = release.split(['+', '-']).next().unwrap_or_default();
    numbers.split('.').filter_map(|number| number.parse().ok()).collect()
}

impl TypeInformation {
    fn describe(self) -> &'static str {
        match self {
            Self::Sound => "its type information describes sched_ext as it is",
            Self::Malformed => "its type information is malformed",
            Self::WithoutSchedExt => "no sched_ext",
        }
    }
}

/// Reads the type information out of a kernel's image, as the doctor reads that of the running one.
fn type_information(root: &DebianRoot, build_root: &DebianRoot, release: &str) -> Result<TypeInformation> {
    let tree = tempfile::tempdir()?;
    let binds = [Bind::new(root.dir().join("boot"), "/mnt/boot"), Bind::new(tree.path(), "/mnt/out")];
    let extract = format!("release={release}\n{EXTRACT_BTF}");
    build_root.shell(&binds, &extract).with_context(|| format!("cannot read the type information of {release}"))?;
    let types = scherzo_host::kernel_types(&scherzo_host::Root::new(tree.path()));
    Ok(match (types.describes_sched_ext, types.malformed_kfuncs.is_empty()) {
        (false, _) => TypeInformation::WithoutSchedExt,
        (true, false) => TypeInformation::Malformed,
        (true, true) => TypeInformation::Sound,
    })
}

/// The boot protocol's header says where the compressed kernel lies in the image (Documentation/arch/x86/boot.rst). After it
/// stands its size, at which some decompressors grumble: what counts is whether there is type information in the end.
const EXTRACT_BTF: &str = r#"
image=/mnt/boot/vmlinuz-$release
number() { od -An -v -t u$2 -j $1 -N $2 "$image" | tr -d ' '; }
start=$((($(number 497 1) + 1) * 512 + $(number 584 4)))
tail -c +$((start + 1)) "$image" | head -c "$(number 588 4)" >/tmp/payload
case $(od -An -t x1 -N 4 /tmp/payload | tr -d ' ') in
    fd377a58) xz -dc --single-stream /tmp/payload >/tmp/vmlinux || true ;;
    28b52ffd) zstd -qdc /tmp/payload >/tmp/vmlinux 2>/dev/null || true ;;
    1f8b*) gzip -dc /tmp/payload >/tmp/vmlinux 2>/dev/null || true ;;
    7f454c46) mv /tmp/payload /tmp/vmlinux ;;
    *) echo "$image is compressed in a way that nobody here knows" >&2; exit 1 ;;
esac
mkdir -p /mnt/out/sys/kernel/btf
objcopy --dump-section .BTF=/mnt/out/sys/kernel/btf/vmlinux /tmp/vmlinux /dev/null
test -s /mnt/out/sys/kernel/btf/vmlinux
"#;

/// Adds the further suites, on the mirror that the root was made from, in a state of their own; prints package names.
const ASK: &str = r#"
mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) trixie .*/\2/p' /etc/apt/sources.list | head -n 1)
cp /etc/apt/sources.list /var/tmp/kernels.list
for suite; do echo "deb $mirror $suite main" >>/var/tmp/kernels.list; done
cat >/var/tmp/kernels.conf <<EOF
Dir::Etc::sourcelist "/var/tmp/kernels.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "/var/tmp/lists";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
EOF
mkdir -p /var/tmp/lists/partial
APT_CONFIG=/var/tmp/kernels.conf apt-get update >&2
APT_CONFIG=/var/tmp/kernels.conf apt-cache pkgnames linux-image-
"#;

/// Downloads and unpacks each release. From 6.19 on the image package is empty; image, modules and configuration come in
/// packages of their own and lie together.
const UNPACK: &str = r#"
export APT_CONFIG=/var/tmp/kernels.conf
mkdir -p /var/tmp/unpacked /boot /usr/lib/modules
cd /var/tmp
for release; do
    for part in image binary modules base; do
        package=linux-$part-$release
        if apt-cache madison "$package" | grep -q .; then apt-get download "$package"; fi
    done
done
for package in /var/tmp/*.deb; do dpkg-deb -x "$package" unpacked; done
rm -f /var/tmp/*.deb
for release; do
    modules=unpacked/usr/lib/modules/$release
    cp -a "$modules" /usr/lib/modules/
    cp unpacked/boot/vmlinuz-$release /boot/ 2>/dev/null || cp "$modules/vmlinuz" /boot/vmlinuz-$release
    cp unpacked/boot/config-$release /boot/ 2>/dev/null || cp "$modules/config" /boot/config-$release
    depmod "$release"
done
rm -rf unpacked
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen if the type information of those releases that contain `malformed` is malformed, and that of 6.12 does
    /// not describe sched_ext.
    fn chosen(packages: &[&str], malformed: &str) -> Vec<(Role, String)> {
        let mut look = |release: &str| {
            Ok(match release {
                release if release.contains(malformed) => TypeInformation::Malformed,
                release if release.starts_with("6.12.") => TypeInformation::WithoutSchedExt,
                _ => TypeInformation::Sound,
            })
        };
        let chosen = choose(packages, &mut look).unwrap();
        chosen.into_iter().map(|kernel| (kernel.role, kernel.release)).collect()
    }

    #[test]
    fn the_newest_is_the_newest_that_is_sound_whatever_its_name_ends_in() {
        let packages = [
            "linux-image-6.18.9+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.18.16+deb13-cloud-amd64-dbg",
            "linux-image-7.2.12+deb13-cloud-amd64",
            "linux-image-7.2.13+deb14-cloud-amd64",
            "linux-image-7.3.4+deb13-cloud-amd64",
            "linux-image-cloud-amd64",
        ];
        let lts = (Role::Lts, "6.18.15+deb13-cloud-amd64".to_owned());
        let newest = |release: &str| (Role::Newest, release.to_owned());
        let malformed = (Role::MalformedBtf, "7.2.12+deb13-cloud-amd64".to_owned());
        let expected = [lts.clone(), newest("7.3.4+deb13-cloud-amd64"), malformed.clone()];
        assert_eq!(chosen(&packages, "7.2.12"), expected);
        let without_7_3 = &packages[..5];
        assert_eq!(chosen(without_7_3, "7.2.12"), [lts, newest("7.2.13+deb14-cloud-amd64"), malformed]);
    }

    #[test]
    fn the_next_best_stands_in() {
        let packages = ["linux-image-6.16.12+deb13-cloud-amd64", "linux-image-6.12.57+deb13-cloud-amd64"];
        let release = "6.16.12+deb13-cloud-amd64".to_owned();
        let old = (Role::WithoutSchedExt, "6.12.57+deb13-cloud-amd64".to_owned());
        assert_eq!(chosen(&packages, "none"), [(Role::Lts, release.clone()), (Role::Newest, release), old]);
    }

    #[test]
    fn roles_are_read_as_they_were_written() {
        let kernels = [
            GuestKernel { role: Role::WithoutSchedExt, release: "6.12.57+deb13-cloud-amd64".into() },
            GuestKernel { role: Role::Newest, release: "7.3.4+deb13-cloud-amd64".into() },
        ];
        assert_eq!(read(&written(&kernels)), kernels);
    }
}
