//! The protocol between host and guest over the virtio port: frames, each for one job.
//!
//! A frame is `kind: u8, job: u32, length: u32` (little endian) and `length` bytes. Jobs are numbered by the host.

use std::borrow::Cow;
use std::io::{self, Read, Write};

/// A larger length means that the two sides are out of step.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 9;

/// A message for or from one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Host: run this shell command.
    Spawn(u32, String),
    /// Host: end the job's whole process group.
    Kill(u32),
    /// Guest: the agent is there (job 0).
    Hello,
    /// Guest: bytes from the command's standard output.
    Stdout(u32, Vec<u8>),
    /// Guest: bytes from the command's standard error.
    Stderr(u32, Vec<u8>),
    /// Guest: the command has ended with this status; 128 + signal if a signal ended it.
    Exit(u32, i32),
}

impl Frame {
    /// The job that this is for.
    #[must_use]
    pub fn job(&self) -> u32 {
        self.parts().1
    }

    fn parts(&self) -> (u8, u32, Cow<'_, [u8]>) {
        match self {
            Self::Spawn(job, command) => (b'S', *job, command.as_bytes().into()),
            Self::Kill(job) => (b'K', *job, Cow::default()),
            Self::Hello => (b'H', 0, Cow::default()),
            Self::Stdout(job, bytes) => (b'O', *job, bytes.into()),
            Self::Stderr(job, bytes) => (b'E', *job, bytes.into()),
            Self::Exit(job, status) => (b'X', *job, status.to_le_bytes().to_vec().into()),
        }
    }

    fn from_parts(kind: u8, job: u32, payload: Vec<u8>) -> io::Result<Self> {
        Ok(match kind {
            b'S' => Self::Spawn(job, String::from_utf8(payload).map_err(|_| invalid("command is not UTF-8"))?),
            b'K' => Self::Kill(job),
            b'H' => Self::Hello,
            b'O' => Self::Stdout(job, payload),
            b'E' => Self::Stderr(job, payload),
            b'X' => {
                let status = payload.try_into().map_err(|_| invalid("exit status has the wrong size"))?;
                Self::Exit(job, i32::from_le_bytes(status))
            }
            _ => return Err(invalid("unknown kind of frame")),
        })
    }

    /// Writes the frame in one piece, so that several threads can share a writer behind a lock.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, job, payload) = self.parts();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.push(kind);
        bytes.extend_from_slice(&job.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(payload.len()).map_err(|_| invalid("frame too large"))?.to_le_bytes());
        bytes.extend_from_slice(&payload);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Reads one frame.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut header = [0; HEADER_BYTES];
        from.read_exact(&mut header)?;
        let [kind, j0, j1, j2, j3, l0, l1, l2, l3] = header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Err(invalid("frame too large"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Self::from_parts(kind, u32::from_le_bytes([j0, j1, j2, j3]), payload)
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_survives_the_wire() {
        let frames = [
            Frame::Spawn(1, "echo hello".into()),
            Frame::Stdout(2, vec![0, 255]),
            Frame::Kill(3),
            Frame::Hello,
            Frame::Stdout(4, b"out".to_vec()),
            Frame::Stderr(u32::MAX, Vec::new()),
            Frame::Exit(6, -1),
        ];
        let mut wire = Vec::new();
        for frame in &frames {
            frame.write(&mut wire).unwrap();
        }
        let mut wire = wire.as_slice();
        for frame in frames {
            assert_eq!(Frame::read(&mut wire).unwrap(), frame);
        }
        assert!(wire.is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Frame::read(&mut [b'?', 0, 0, 0, 0, 0, 0, 0, 0].as_slice()).is_err());
        assert!(Frame::read(&mut [b'O', 0, 0, 0, 0, 255, 255, 255, 255].as_slice()).is_err());
        assert!(Frame::read(&mut [b'X', 0, 0, 0, 0, 1, 0, 0, 0, 7].as_slice()).is_err());
    }
}
