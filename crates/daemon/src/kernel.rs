//! What the kernel says about sched_ext, and being told when that changes.

use std::io;

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use scherzo_api::types::Reason;
use scherzo_host::{KernelTypes, Root, SchedExt, SchedExtState};

use crate::readiness::ReadySocket;
use scherzo_supervisor::{Fault, Kernel};

/// Reads sysfs.
pub fn read(root: &Root) -> Result<Kernel, scherzo_host::Error> {
    Ok(match SchedExt::read(root)? {
        None => Kernel::Missing,
        Some(SchedExt { phase: SchedExtState::Disabled, .. }) => Kernel::Idle,
        Some(SchedExt { phase: SchedExtState::Enabled, ops: Some(ops), .. }) => Kernel::Loaded { ops },
        Some(SchedExt { ops, .. }) => Kernel::Changing { ops },
    })
}

/// Why no scheduler can be loaded into a kernel that has sched_ext, if files tell. That stays so until another one starts.
#[must_use]
pub fn unfit(types: &KernelTypes) -> Option<Fault> {
    let malformed = &types.malformed_kfuncs;
    (!malformed.is_empty()).then(|| Fault::with_text(Reason::MalformedBtf, scherzo_host::quote_names(malformed)))
}

/// What the types of a kernel that has sched_ext tell; nothing of others.
#[must_use]
pub fn types(root: &Root, kernel: &Kernel) -> KernelTypes {
    if *kernel == Kernel::Missing { KernelTypes::default() } else { scherzo_host::kernel_types(root) }
}

/// The kernel's own multicast group of uevents; the other one is udev's.
const KERNEL_GROUP: u32 = 1;
/// Longest uevent, see lib/kobject_uevent.c.
const UEVENT_BYTES: usize = 8192;

/// The kernel's notices that a sched_ext scheduler came or went.
#[derive(Debug)]
pub struct Uevents(ReadySocket);

impl Uevents {
    /// Starts listening.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(KOBJECT_UEVENT))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
        Ok(Self(ReadySocket::new(socket)?))
    }

    /// Waits for the next notice. Notices that were lost count as one.
    pub async fn changed(&self) -> io::Result<()> {
        let mut uevent = [0; UEVENT_BYTES];
        loop {
            let received =
                self.0.read(|socket| Ok(rustix::net::recv(socket, &mut uevent[..], RecvFlags::empty())?)).await;
            match received {
                Ok((length, _)) if is_about_sched_ext(&uevent[..length]) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A uevent begins with `ACTION@DEVPATH`.
fn is_about_sched_ext(uevent: &[u8]) -> bool {
    let header = uevent.split(|byte| *byte == 0).next().unwrap_or_default();
    header.split(|byte| *byte == b'@').nth(1).is_some_and(|path| path.starts_with(b"/kernel/sched_ext"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sched_ext_matters() {
        assert!(is_about_sched_ext(b"add@/kernel/sched_ext/root\0ACTION=add\0SCXOPS=scherzo\0"));
        assert!(!is_about_sched_ext(b"change@/devices/system/cpu\0ACTION=change\0/kernel/sched_ext\0"));
        assert!(!is_about_sched_ext(b""));
    }

    #[tokio::test]
    async fn a_reader_sees_what_a_tree_says() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert_eq!(read(&root).unwrap(), Kernel::Missing);
        let tree = crate::engine::simulated::Tree::plant(root.clone()).unwrap();
        assert_eq!(read(&root).unwrap(), Kernel::Idle);
        tree.load("lavd").unwrap();
        assert_eq!(read(&root).unwrap(), Kernel::Loaded { ops: "lavd".into() });
    }
}
