//! Running programs in namespaces of their own, as root or, for ordinary users, as root of a user namespace.

use std::io;
use std::path::Path;
use std::process::Command;

/// Whether this process may do everything.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `unshare` into new mount and process namespaces; the caller adds the program.
///
/// All of it ends with `unshare`, and that with the thread that spawned it: spawn from a thread that stays.
#[must_use]
pub fn command() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]);
    if !is_root() {
        command.args(["--user", "--map-root-user", "--map-auto"]);
    }
    command
}

/// Removes a file or a whole tree, whoever in the user namespace owns parts of it. What is not there is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = command().args(["rm", "-rf", "--"]).arg(path).status()?;
    if removed.success() { Ok(()) } else { Err(io::Error::other(format!("cannot remove {}", path.display()))) }
}
