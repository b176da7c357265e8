//! Files of the kernel that stay open, because a prepared engine opens none any more.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

/// Longer than anything that is read here.
const MAX_BYTES: usize = 256;

/// A file in `/proc` or `/sys`, which is read or written from its beginning each time.
#[derive(Debug)]
pub struct KernelFile {
    path: &'static str,
    file: File,
}

impl KernelFile {
    /// For reading.
    pub fn open(path: &'static str) -> io::Result<Self> {
        Ok(Self { path, file: File::open(path)? })
    }

    /// For reading and writing.
    pub fn open_writable(path: &'static str) -> io::Result<Self> {
        Ok(Self { path, file: OpenOptions::new().read(true).write(true).open(path)? })
    }

    /// Its text without the end of the line.
    pub fn read(&self) -> Result<String> {
        let mut bytes = [0; MAX_BYTES];
        let len = self.file.read_at(&mut bytes, 0).with_context(|| format!("cannot read {}", self.path))?;
        Ok(String::from_utf8_lossy(&bytes[..len]).trim_end().to_owned())
    }

    /// Writes all of it at once.
    pub fn write(&self, text: &str) -> Result<()> {
        self.file.write_all_at(text.as_bytes(), 0).with_context(|| format!("cannot write {text} to {}", self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_begins_at_the_beginning() {
        let file = KernelFile::open("/proc/sys/kernel/ostype").unwrap();
        for _ in 0..2 {
            assert_eq!(file.read().unwrap(), "Linux");
        }
        assert!(file.write("Windows").is_err());
    }
}
