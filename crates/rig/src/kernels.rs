//! Which kernels the guest boots: chosen at run time from what the archive offers, because versions come and go.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::progress::say;
use crate::roots::Root;

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
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lts => "long-term",
            Self::Newest => "newest",
            Self::MalformedBtf => "malformed BTF",
            Self::WithoutSchedExt => "no sched_ext",
        })
    }
}

/// Prefixes and build tags of versions, most wanted first. `+deb14` builds have sound BTF where the `+deb13` ones of the
/// same version lack the `_impl` twins of kfuncs with implicit arguments.
const PREFERENCES: &[(Role, &[(&str, &str)])] = &[
    (Role::Lts, &[("6.18.", "+deb13"), ("6.17.", "+deb13"), ("6.16.", "+deb13")]),
    (Role::Newest, &[("7.", "+deb14"), ("8.", "+deb14"), ("6.17.", "+deb13")]),
    (Role::MalformedBtf, &[("7.2.", "+deb13")]),
    (Role::WithoutSchedExt, &[("6.12.", "+deb13")]),
];

/// Suites that are asked besides the guest's own.
const FURTHER_SUITES: &[&str] = &["trixie-backports", "sid"];
const PACKAGE_PREFIX: &str = "linux-image-";
const PACKAGE_SUFFIX: &str = "-cloud-amd64";

/// A kernel in the guest root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// What it is there for.
    pub role: Role,
    /// As `uname -r` says it.
    pub release: String,
}

impl Kernel {
    /// The image that QEMU boots, as the host sees it.
    #[must_use]
    pub fn image(&self, guest_root: &Root) -> PathBuf {
        guest_root.dir().join("boot").join(format!("vmlinuz-{}", self.release))
    }
}

/// What the choice depends on, for artefacts that contain kernels.
#[must_use]
pub fn recipe() -> String {
    format!("{PREFERENCES:?}{FURTHER_SUITES:?}{UNPACK}")
}

/// Asks the archive, chooses, and unpacks kernels, modules and configurations into the guest root.
pub fn install(root: &Root) -> Result<()> {
    let sources = FURTHER_SUITES.iter().fold(String::from("set --"), |all, suite| all + " " + suite);
    let offered = root.output(&[], &format!("{sources}\n{ASK}")).context("cannot ask the archive for kernels")?;
    let chosen = choose(&offered.lines().collect::<Vec<_>>());
    let releases: Vec<_> = chosen.iter().map(|kernel| kernel.release.as_str()).collect();
    root.shell(&[], &format!("set -- {}\n{UNPACK}", releases.join(" "))).context("cannot unpack the kernels")
}

/// The kernels that [`install`] put there; says loudly what is missing.
pub fn installed(root: &Root) -> Result<Vec<Kernel>> {
    let names = std::fs::read_dir(root.dir().join("boot"))?.flatten().map(|entry| entry.file_name());
    let packages: Vec<_> = names
        .filter_map(|name| Some(format!("{PACKAGE_PREFIX}{}", name.to_str()?.strip_prefix("vmlinuz-")?)))
        .collect();
    let chosen = choose(&packages.iter().map(String::as_str).collect::<Vec<_>>());
    for (role, _) in PREFERENCES {
        if !chosen.iter().any(|kernel| kernel.role == *role) {
            say(&format!("NOTE: the archive offers no kernel for the role \"{role}\": what needs it cannot run"));
        }
    }
    Ok(chosen)
}

fn choose(packages: &[&str]) -> Vec<Kernel> {
    PREFERENCES.iter().filter_map(|(role, wishes)| choose_one(*role, wishes, packages)).collect()
}

fn choose_one(role: Role, wishes: &[(&str, &str)], packages: &[&str]) -> Option<Kernel> {
    let releases: Vec<_> = packages.iter().filter_map(|package| package.strip_prefix(PACKAGE_PREFIX)).collect();
    let newest = |&(prefix, tag): &(&str, &str)| {
        let suffix = format!("{tag}{PACKAGE_SUFFIX}");
        let fitting = releases.iter().filter(|release| release.starts_with(prefix) && release.ends_with(&suffix));
        fitting.max_by_key(|release| version(release)).copied()
    };
    let release = wishes.iter().find_map(newest)?.to_owned();
    Some(Kernel { role, release })
}

/// The leading numbers of a release: 6.18.15+deb13-cloud-amd64 → [6, 18, 15].
fn version(release: &str) -> Vec<u32> {
    let numbers = release.split(['+', '-']).next().unwrap_or_default();
    numbers.split('.').filter_map(|number| number.parse().ok()).collect()
}

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
for release; do
    modules=unpacked/usr/lib/modules/$release
    cp -a "$modules" /usr/lib/modules/
    cp unpacked/boot/vmlinuz-$release /boot/ 2>/dev/null || cp "$modules/vmlinuz" /boot/vmlinuz-$release
    cp unpacked/boot/config-$release /boot/ 2>/dev/null || cp "$modules/config" /boot/config-$release
    depmod "$release"
done
rm -rf /var/tmp/*
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn releases(packages: &[&str]) -> Vec<(Role, String)> {
        choose(packages).into_iter().map(|kernel| (kernel.role, kernel.release)).collect()
    }

    #[test]
    fn the_newest_of_the_most_wanted_series_wins() {
        let packages = [
            "linux-image-6.18.9+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.18.16+deb13-cloud-amd64-dbg",
            "linux-image-6.17.13+deb13-cloud-amd64",
            "linux-image-7.2.13+deb14-cloud-amd64",
            "linux-image-cloud-amd64",
        ];
        let expected =
            [(Role::Lts, "6.18.15+deb13-cloud-amd64".into()), (Role::Newest, "7.2.13+deb14-cloud-amd64".into())];
        assert_eq!(releases(&packages), expected);
    }

    #[test]
    fn the_next_best_stands_in() {
        let packages = ["linux-image-6.16.12+deb13-cloud-amd64"];
        assert_eq!(releases(&packages), [(Role::Lts, "6.16.12+deb13-cloud-amd64".into())]);
    }
}
