//! What an installed Scherzo consists of, and where each file goes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::build::Workspace;

/// Packages and the binaries that they install, with the directory that each goes to.
const BINARIES: &[(&str, &str, &str)] = &[
    ("scherzo-daemon", "scherzod", "usr/libexec"),
    ("scherzo-engine", "scherzo-engine", "usr/libexec"),
    ("scherzo-ctl", "scherzoctl", "usr/bin"),
    ("scherzo-bench", "scherzo-bench", "usr/bin"),
];

/// Folders of the checkout whose files are installed as they are.
const DATA_FOLDERS: &[&str] = &["data", "dbus"];

/// Builds the checkout and lays it out under `tree` as its package would on a real system.
pub fn install(workspace: &Workspace<'_>, tree: &Path) -> Result<()> {
    let built = tempfile::tempdir()?;
    let packages: Vec<_> = BINARIES.iter().map(|(package, _, _)| *package).collect();
    let names: Vec<_> = BINARIES.iter().map(|(_, binary, _)| *binary).collect();
    workspace.build(&packages, &names, built.path())?;
    for (_, binary, dir) in BINARIES {
        copy(&built.path().join(binary), &tree.join(dir).join(binary))?;
    }
    for folder in DATA_FOLDERS {
        for entry in fs::read_dir(workspace.checkout().join(folder))? {
            let path = entry?.path();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.file_name().context("no file name")?;
            copy(&path, &tree.join(place(&path, &text)?).join(name))?;
        }
    }
    Ok(())
}

/// The directory for a data file, by what it is.
fn place(path: &Path, text: &str) -> Result<PathBuf> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let dir = match extension {
        "service" if text.contains("[D-BUS Service]") => "usr/share/dbus-1/system-services",
        "service" => "usr/lib/systemd/system",
        "conf" => "usr/share/dbus-1/system.d",
        "xml" => "usr/share/dbus-1/interfaces",
        "policy" => "usr/share/polkit-1/actions",
        "toml" => "usr/share/scherzo",
        _ => bail!("{} has no place in an installation: name one in product.rs", path.display()),
    };
    Ok(dir.into())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("no parent")?)?;
    fs::copy(from, to).map(drop).with_context(|| format!("cannot install {}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_and_an_activation_file_go_different_ways() {
        let path = Path::new("org.scherzo.Scheduler1.service");
        assert_eq!(place(path, "[D-BUS Service]\n").unwrap(), Path::new("usr/share/dbus-1/system-services"));
        assert_eq!(place(path, "[Unit]\n").unwrap(), Path::new("usr/lib/systemd/system"));
        assert!(place(Path::new("readme.txt"), "").is_err());
    }
}
