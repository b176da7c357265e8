//! Which control group a caller may name as that of the application in front.
//!
//! A path comes from a program that anybody may have written, and user services may make directories below their own: it is
//! looked up below the hierarchy's root without following links, and must lie within what belongs to the caller's user.

use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;
use scherzo_api::Error;
use scherzo_api::catalogue::gettext_noop;
use scherzo_host::Root;
use scherzo_supervisor::{Foreground, ForegroundGroup};

use crate::settings::quoted;
use crate::visibility::Viewer;

/// The default hierarchy. Only there is a list of controllers.
const TREE: &str = "sys/fs/cgroup";
const CONTROLLERS: &str = "sys/fs/cgroup/cgroup.controllers";
/// As long as a path may be, in bytes.
const MAX_PATH_BYTES: usize = 4095;

/// The group at this path of the default hierarchy, for a program of this user.
pub(crate) fn find(root: &Root, path: &str, uid: Option<u32>) -> Result<ForegroundGroup, Error> {
    let relative = check(path)?;
    if uid != Some(0) && !is_within_slice(relative, uid) {
        return Err(Error::AccessDenied(
            gettext_noop("Only a control group of your own session can be in front: one below your user's slice.")
                .into(),
        ));
    }
    if !root.path(CONTROLLERS).exists() {
        return Err(Error::NotSupported(
            gettext_noop("There is no hierarchy of control groups, version 2, in /sys/fs/cgroup.").into(),
        ));
    }
    let group = look_up(root, relative);
    let missing = |_| Error::InvalidArgs(format!("There is no control group {}.", quoted(path)));
    // A directory's inode there has the number of its group.
    Ok(ForegroundGroup { path: path.to_owned(), cgroup: group.map_err(missing)?.st_ino })
}

/// The path without its leading slash, if it can be one of a group.
fn check(path: &str) -> Result<&Path, Error> {
    let relative = path.strip_prefix('/').filter(|relative| !relative.is_empty() && path.len() <= MAX_PATH_BYTES);
    let is_plain = |relative: &&str| {
        !relative.contains(char::is_control) && relative.split('/').all(|part| !matches!(part, "" | "." | ".."))
    };
    relative.filter(is_plain).map(Path::new).ok_or_else(|| {
        Error::InvalidArgs(
            gettext_noop(
                "A control group is named by its path in the default hierarchy, such as /user.slice/user-1000.slice/….",
            )
            .into(),
        )
    })
}

/// Below the slice that systemd gives the user.
fn is_within_slice(relative: &Path, uid: Option<u32>) -> bool {
    let Some(uid) = uid else { return false };
    let mut parts = relative.components();
    let slice = format!("user-{uid}.slice");
    let is = |part: Option<Component<'_>>, name: &str| part.is_some_and(|part| part.as_os_str() == name);
    is(parts.next(), "user.slice") && is(parts.next(), &slice) && parts.next().is_some()
}

/// Opens a directory below the hierarchy's root, one part after the other. `openat2()` could do that at once, but the unit's
/// `RestrictSUIDSGID=` has systemd refuse it.
fn look_up(root: &Root, relative: &Path) -> rustix::io::Result<Stat> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let tree = open(root.path(TREE), flags, Mode::empty())?;
    let device = fstat(&tree)?.st_dev;
    let group = relative.iter().try_fold(tree, |group, part| openat(group, part, flags, Mode::empty()))?;
    let found = fstat(&group)?;
    if found.st_dev == device { Ok(found) } else { Err(Errno::XDEV) }
}

/// The path of the group in front, as this viewer sees it: others do not learn what somebody works with.
pub(crate) fn show(foreground: Option<&Foreground>, viewer: Viewer) -> String {
    let seen = foreground.filter(|foreground| viewer.may_see_all_of(foreground.caller.uid));
    seen.map(|foreground| foreground.group.path.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use scherzo_supervisor::Caller;

    use super::*;

    const SCOPE: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-game.scope";

    fn tree() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let cgroups = directory.path().join(TREE);
        fs::create_dir_all(cgroups.join(&SCOPE[1..])).unwrap();
        fs::create_dir_all(cgroups.join("user.slice/user-10001.slice/other.scope")).unwrap();
        fs::create_dir_all(cgroups.join("system.slice")).unwrap();
        fs::write(cgroups.join("cgroup.controllers"), "cpu io memory\n").unwrap();
        fs::write(cgroups.join(&SCOPE[1..]).join("cgroup.procs"), "").unwrap();
        symlink(cgroups.join("system.slice"), cgroups.join("user.slice/user-1000.slice/link.slice")).unwrap();
        let root = Root::new(directory.path());
        (directory, root)
    }

    #[test]
    fn a_group_of_ones_own_session_is_found_by_its_number() {
        let (directory, root) = tree();
        let found = find(&root, SCOPE, Some(1000)).unwrap();
        let inode = fs::metadata(directory.path().join(TREE).join(&SCOPE[1..])).unwrap().ino();
        assert_eq!((found.path.as_str(), found.cgroup), (SCOPE, inode));
        assert!(find(&root, "/system.slice", Some(0)).is_ok(), "root may name any");
    }

    #[test]
    fn groups_of_others_are_refused() {
        let (_directory, root) = tree();
        for path in
            ["/system.slice", "/user.slice", "/user.slice/user-1000.slice", "/user.slice/user-10001.slice/other.scope"]
        {
            let refused = find(&root, path, Some(1000)).unwrap_err();
            assert!(matches!(refused, Error::AccessDenied(_)), "{path}: {refused:?}");
        }
        assert!(matches!(find(&root, SCOPE, None), Err(Error::AccessDenied(_))), "nobody knows whose program it is");
    }

    #[test]
    fn senseless_paths_are_refused() {
        let (_directory, root) = tree();
        let own = "/user.slice/user-1000.slice";
        let long = format!("{own}/{}", "x".repeat(MAX_PATH_BYTES));
        for path in [
            "/",
            "user.slice",
            "//",
            &format!("{own}/../../system.slice"),
            &format!("{own}/./a"),
            &format!("{own}/"),
            &long,
            &format!("{own}/a\nb"),
        ] {
            for uid in [0, 1000] {
                let refused = find(&root, path, Some(uid)).unwrap_err();
                assert!(matches!(refused, Error::InvalidArgs(_)), "{path}: {refused:?}");
            }
        }
        for path in [format!("{own}/absent.scope"), format!("{own}/link.slice"), format!("{SCOPE}/cgroup.procs")] {
            let refused = find(&root, &path, Some(1000)).unwrap_err();
            assert!(matches!(&refused, Error::InvalidArgs(text) if text.contains("no control group")), "{refused:?}");
        }
    }

    #[test]
    fn without_the_hierarchy_nothing_can_be_in_front() {
        let directory = tempfile::tempdir().unwrap();
        let refused = find(&Root::new(directory.path()), SCOPE, Some(1000)).unwrap_err();
        assert!(matches!(refused, Error::NotSupported(_)), "{refused:?}");
    }

    #[test]
    fn what_is_in_front_is_for_its_user_and_root() {
        let group = ForegroundGroup { path: SCOPE.into(), cgroup: 7 };
        let foreground = Foreground { caller: Caller { name: ":1.5".into(), uid: Some(1000) }, group, nth: 1 };
        let seen_by = |viewer| show(Some(&foreground), viewer);
        for viewer in [Viewer::User(Some(1000)), Viewer::User(Some(0))] {
            assert_eq!(seen_by(viewer), SCOPE, "{viewer:?}");
        }
        for viewer in [Viewer::User(Some(1001)), Viewer::User(None)] {
            assert_eq!(seen_by(viewer), "", "{viewer:?}");
        }
    }
}
