//! Running programs in namespaces of their own, as root or, for ordinary users, as root of a user namespace.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Command;

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `unshare` into new mount and process namespaces; the caller adds the program.
///
/// Every process in the namespaces ends with `unshare`, and `unshare` ends with the thread that spawned it: spawn it
/// from a thread that lives long enough.
#[must_use]
pub fn command() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]);
    if !is_root() {
        command.args(["--user", "--map-root-user", "--map-auto"]);
    }
    command
}

/// Removes a file or a whole tree, even where parts belong to other users of the user namespace. It need not exist.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_root() => {
            let status = command().args(["rm", "-rf", "--"]).arg(path).status()?;
            if status.success() { Ok(()) } else { Err(error) }
        }
        other => other,
    }
}
