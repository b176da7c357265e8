//! Every kernel of the archive that this project says something about, not only those that the usual cases run on.

use std::fs;

use anyhow::{Context, Result};

use super::{
    ASK, FURTHER_SUITES, GuestKernel, PACKAGE_PREFIX, PACKAGE_SUFFIX, PREFERENCES, ROLES, Role, TypeInformation,
    candidates, type_information, version, written,
};
use crate::progress::say;
use crate::roots::DebianRoot;

/// Older ones have no sched_ext, whoever builds them.
const OLDEST_SERIES: [u32; 2] = [6, 12];
/// What was found: a line of release, what its modules are, and what its type information is.
const CATALOGUE: &str = "boot/scherzo-archive";
const BOOTABLE: &str = "bootable";
const IMAGE_ONLY: &str = "image-only";

/// What is known about a kernel of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedKernel {
    /// As `uname -r` says it.
    pub release: String,
    /// Whether the archive still has its modules: without them it cannot be booted, only looked at.
    pub is_bootable: bool,
    /// What its type information says about schedulers, in words.
    pub types: String,
}

/// What the choice depends on, besides what the usual choice does.
#[must_use]
pub fn recipe() -> String {
    format!("{OLDEST_SERIES:?}{CATALOGUE}{UNPACK_WHAT_IS_THERE}")
}

/// Asks the archive, and unpacks the newest kernel of each series and build.
pub fn install(root: &DebianRoot, build_root: &DebianRoot) -> Result<()> {
    let sources = FURTHER_SUITES.iter().fold(String::from("set --"), |all, suite| all + " " + suite);
    let offered = root.output(&[], &format!("{sources}\n{ASK}")).context("cannot ask the archive for kernels")?;
    let offered: Vec<_> = offered.lines().collect();
    let (mut catalogue, mut sound, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for release in newest_of_each_series(&offered) {
        let unpacked = root.output(&[], &format!("release={release}\n{UNPACK_WHAT_IS_THERE}"));
        let is_bootable = unpacked.with_context(|| format!("cannot unpack {release}"))?.trim() == BOOTABLE;
        let types = type_information(root, build_root, release)?;
        let modules = if is_bootable { "" } else { "; its modules are gone, so it is not booted" };
        say(&format!("{release}: {}{modules}", types.describe()));
        catalogue.push(ArchivedKernel { release: release.to_owned(), is_bootable, types: types.describe().to_owned() });
        match types {
            _ if !is_bootable => {}
            TypeInformation::Sound => sound.push(release),
            TypeInformation::Malformed => others.push((Role::MalformedBtf, release)),
            TypeInformation::WithoutSchedExt => others.push((Role::WithoutSchedExt, release)),
        }
    }
    let kernel = |(role, release): (Role, &str)| GuestKernel { role, release: release.to_owned() };
    let kernels: Vec<_> = with_roles(&sound).into_iter().chain(others).map(kernel).collect();
    fs::write(root.dir().join(ROLES), written(&kernels)).context("cannot note the kernels' roles")?;
    fs::write(root.dir().join(CATALOGUE), lines(&catalogue)).context("cannot note what the archive has")?;
    root.shell(&[], "rm -rf /var/tmp/*")
}

/// What [`install`] found.
pub fn catalogue(root: &DebianRoot) -> Result<Vec<ArchivedKernel>> {
    let path = root.dir().join(CATALOGUE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(read(&text))
}

fn lines(catalogue: &[ArchivedKernel]) -> String {
    let line = |ArchivedKernel { release, is_bootable, types }: &ArchivedKernel| {
        format!("{release} {} {types}\n", if *is_bootable { BOOTABLE } else { IMAGE_ONLY })
    };
    catalogue.iter().map(line).collect()
}

fn read(text: &str) -> Vec<ArchivedKernel> {
    let kernel = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (release, modules, types) = (words.next()?, words.next()?, words.next()?);
        Some(ArchivedKernel { release: release.to_owned(), is_bootable: modules == BOOTABLE, types: types.to_owned() })
    };
    text.lines().filter_map(kernel).collect()
}

/// The newest release of each series (6.18, 7.2 …) and build (+deb13, +deb14), oldest first.
fn newest_of_each_series<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let mut releases = candidates(&[("", "")], packages);
    releases.retain(|release| version(release).get(..2).is_some_and(|series| *series >= OLDEST_SERIES[..]));
    let series = |release: &'a str| {
        let numbers: Vec<_> = version(release).into_iter().take(2).collect();
        (numbers, release.split_once('+').and_then(|(_, build)| build.split(['.', '-']).next()))
    };
    let mut kept: Vec<&str> = Vec::new();
    // The newest come first.
    for release in releases {
        if !kept.iter().any(|newer| series(newer) == series(release)) {
            kept.push(release);
        }
    }
    kept.reverse();
    kept
}

/// The usual roles for those that would have them; the rest are further ones. `sound` begins with the oldest.
fn with_roles<'a>(sound: &[&'a str]) -> Vec<(Role, &'a str)> {
    let packages: Vec<_> = sound.iter().map(|release| format!("{PACKAGE_PREFIX}{release}")).collect();
    let packages: Vec<_> = packages.iter().map(String::as_str).collect();
    let mut roles: Vec<_> = sound.iter().map(|release| (Role::Further, *release)).collect();
    for (role, wishes) in PREFERENCES.iter().filter(|(role, _)| matches!(role, Role::Lts | Role::Newest)) {
        let chosen = candidates(wishes, &packages).first().map(|release| (*release).to_owned());
        if let Some(entry) = roles.iter_mut().find(|(_, release)| chosen.as_deref() == Some(*release)) {
            entry.0 = *role;
        }
    }
    debug_assert!(sound.iter().all(|release| release.ends_with(PACKAGE_SUFFIX)));
    roles
}

/// Downloads and unpacks the packages of a release that the archive still has, and says whether it can be booted.
const UNPACK_WHAT_IS_THERE: &str = r#"
export APT_CONFIG=/var/tmp/kernels.conf
mkdir -p /var/tmp/unpacked /boot /usr/lib/modules
cd /var/tmp
for part in image binary modules base; do
    package=linux-$part-$release
    if apt-cache madison "$package" | grep -q .; then apt-get download "$package" >&2; fi
done
for package in /var/tmp/*.deb; do dpkg-deb -x "$package" unpacked; done
rm -f /var/tmp/*.deb
modules=unpacked/usr/lib/modules/$release
[ -d "$modules" ] || modules=unpacked/lib/modules/$release
cp unpacked/boot/vmlinuz-$release /boot/ 2>/dev/null || cp "$modules/vmlinuz" /boot/vmlinuz-$release
cp unpacked/boot/config-$release /boot/ 2>/dev/null || cp "$modules/config" /boot/config-$release 2>/dev/null || true
if [ -d "$modules/kernel" ]; then
    cp -a "$modules" /usr/lib/modules/
    depmod "$release" >&2
    echo bootable
else
    echo image-only
fi
rm -rf unpacked
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_and_build_is_there_once_by_its_newest_release() {
        let packages = [
            "linux-image-6.1.140-cloud-amd64",
            "linux-image-6.12.115+deb13.1-cloud-amd64",
            "linux-image-6.12.117+deb13-cloud-amd64",
            "linux-image-7.2.12+deb13-cloud-amd64",
            "linux-image-7.2.13+deb14-cloud-amd64",
            "linux-image-6.18.9+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64-unsigned",
            "linux-image-cloud-amd64",
        ];
        let expected = [
            "6.12.117+deb13-cloud-amd64",
            "6.18.15+deb13-cloud-amd64",
            "7.2.12+deb13-cloud-amd64",
            "7.2.13+deb14-cloud-amd64",
        ];
        assert_eq!(newest_of_each_series(&packages), expected);
    }

    #[test]
    fn usual_roles_go_to_the_kernels_that_have_them_in_the_usual_run() {
        let sound = ["6.17.13+deb13-cloud-amd64", "6.18.15+deb13-cloud-amd64", "7.3.4+deb13-cloud-amd64"];
        let roles: Vec<_> = with_roles(&sound).into_iter().map(|(role, _)| role).collect();
        assert_eq!(roles, [Role::Further, Role::Lts, Role::Newest]);
    }

    #[test]
    fn the_catalogue_is_read_as_it_was_written() {
        let kernel = |release: &str, is_bootable| ArchivedKernel {
            release: release.to_owned(),
            is_bootable,
            types: "its type information is malformed".to_owned(),
        };
        let catalogue = [kernel("7.1.13+deb13-cloud-amd64", false), kernel("7.2.12+deb13-cloud-amd64", true)];
        assert_eq!(read(&lines(&catalogue)), catalogue);
    }
}
