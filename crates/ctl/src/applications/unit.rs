//! Names of the units that desktops run applications in.
//!
//! See "Desktop Environment Integration" of systemd: `app[-<launcher>]-<ApplicationID>-<RANDOM>.scope` and
//! `app[-<launcher>]-<ApplicationID>[@<RANDOM>].service`, where a dash inside of a part is written `\x2d`. snapd moves what it starts into
//! `snap.<snap>.<application>-<UUID>.scope`, with a dot before the UUID in older versions; the desktop id is `<snap>_<application>` there.

/// The application in this unit, as its desktop id without `.desktop`.
pub(crate) fn application(unit: &str) -> Option<String> {
    if let Some(names) = unit.strip_prefix("snap.") {
        return of_snap(names);
    }
    let id = if let Some(stem) = unit.strip_suffix(".scope") {
        let (stem, _random) = stem.split_once("app-")?.1.rsplit_once('-')?;
        stem
    } else {
        let stem = unit.strip_suffix(".service")?.strip_prefix("app-")?;
        stem.split_once('@').map_or(stem, |(stem, _random)| stem)
    };
    let id = id.rsplit_once('-').map_or(id, |(_launcher, id)| id);
    unit.starts_with("app-").then(|| unescape(id)).filter(|id| !id.is_empty())
}

/// As in `8-4-4-4-12`.
const UUID_LENGTH: usize = 36;

fn of_snap(names: &str) -> Option<String> {
    let stem = names.strip_suffix(".scope")?;
    let stem = stem.get(..stem.len().checked_sub(UUID_LENGTH)?)?.strip_suffix(['-', '.'])?;
    let (snap, application) = stem.split_once('.')?;
    Some(format!("{}_{}", unescape(snap), unescape(application)))
}

/// Undoes systemd's escaping; what is no escape stays.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        if let Some(byte) = escaped(rest) {
            bytes.push(byte);
            rest = &rest[4..];
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escaped(text: &[u8]) -> Option<u8> {
    let digits = text.get(..4)?.strip_prefix(b"\\x")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_unit_names_its_application() {
        for (unit, id) in [
            ("app-gnome-org.gnome.Builder-4711.scope", "org.gnome.Builder"),
            ("app-org.gnome.Builder-4711.scope", "org.gnome.Builder"),
            ("app-flatpak-com.valvesoftware.Steam-2311.scope", "com.valvesoftware.Steam"),
            ("app-org.kde.kate@5c1f.service", "org.kde.kate"),
            ("app-gnome-firefox@autostart.service", "firefox"),
            ("app-firefox.service", "firefox"),
            (r"app-gnome-google\x2dchrome-99.scope", "google-chrome"),
            (r"app-odd\x2.service", r"odd\x2"),
            ("snap.firefox.firefox-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f.scope", "firefox_firefox"),
            ("snap.code.url-handler.0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f.scope", "code_url-handler"),
            (
                r"snap.snap\x2dstore.ubuntu\x2dsoftware-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f.scope",
                "snap-store_ubuntu-software",
            ),
        ] {
            assert_eq!(application(unit).as_deref(), Some(id), "{unit}");
        }
    }

    #[test]
    fn other_units_are_no_applications() {
        let others =
            ["run-u7.scope", "dbus.service", "app.slice", "app-x.scope", "app-.service", "my-app-x-1.scope", ""];
        let of_snaps =
            ["snap.scope", "snap.firefox.firefox.scope", "snap.firefox-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f.scope"];
        for unit in others.into_iter().chain(of_snaps) {
            assert_eq!(application(unit), None, "{unit}");
        }
    }
}
