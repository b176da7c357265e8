//! A kernel's image (bzImage): its type information, without starting it.
//!
//! Where the compressed kernel lies in the image is told by the boot protocol's header (the kernel's
//! `Documentation/arch/x86/boot.rst`). Nothing here trusts what it reads.

use std::fs;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;

use ruzstd::decoding::StreamingDecoder;
use scherzo_host::{KernelTypes, check_types};

/// No kernel is larger than this when it is decompressed.
const MAX_KERNEL_BYTES: u64 = 512 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
const HEADER_MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
const SECTOR_BYTES: usize = 512;
const SECTION: &[u8] = b".BTF";
/// Size of an entry of the table of sections in a 64-bit ELF file.
const SECTION_HEADER_BYTES: usize = 64;

/// What the type information in an image tells; an error if it cannot be found there.
pub(crate) fn kernel_types(path: &Path) -> io::Result<KernelTypes> {
    let kernel = decompressed(&fs::read(path)?)?;
    let section = section(&kernel).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no type information"))?;
    check_types(Cursor::new(section))?.ok_or_else(|| ErrorKind::InvalidData.into())
}

/// The kernel out of an image.
fn decompressed(image: &[u8]) -> io::Result<Vec<u8>> {
    let payload = payload(image).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no bzImage"))?;
    if payload.starts_with(&ELF_MAGIC) {
        return Ok(payload.to_vec());
    }
    if !payload.starts_with(&ZSTD_MAGIC) {
        return Err(io::Error::new(ErrorKind::Unsupported, "not compressed with zstd"));
    }
    let decoder = StreamingDecoder::new(payload).map_err(io::Error::other)?;
    let mut kernel = Vec::new();
    decoder.take(MAX_KERNEL_BYTES).read_to_end(&mut kernel)?;
    Ok(kernel)
}

/// What the boot loader leaves to the image's own decompressor.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let (at, magic) = HEADER_MAGIC;
    if image.get(at..)?.get(..magic.len())? != magic {
        return None;
    }
    let number = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    let nr_setup_sectors = usize::from(*image.get(0x1f1)?);
    let start = ((nr_setup_sectors + 1) * SECTOR_BYTES).checked_add(number(0x248)?)?;
    image.get(start..start.checked_add(number(0x24c)?)?)
}

/// The section with the type information of a 64-bit ELF file.
fn section(elf: &[u8]) -> Option<&[u8]> {
    let long = |at: usize| usize::try_from(u64::from_le_bytes(elf.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok();
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(elf.get(at..at.checked_add(2)?)?.try_into().ok()?)));
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize);
    let header = |number: usize| long(0x28)?.checked_add(number.checked_mul(SECTION_HEADER_BYTES)?);
    let content = |number: usize| {
        let at = header(number)?;
        let start = long(at.checked_add(0x18)?)?;
        elf.get(start..start.checked_add(long(at.checked_add(0x20)?)?)?)
    };
    let names = content(short(0x3e)?)?;
    let is_wanted = |number: &usize| {
        let name = header(*number).and_then(word).and_then(|at| names.get(at..));
        name.is_some_and(|name| name.strip_prefix(SECTION).is_some_and(|rest| rest.first() == Some(&0)))
    };
    content((0..short(0x3c)?).find(is_wanted)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An ELF file with a section of names and one of type information.
    pub(crate) fn elf(types: &[u8]) -> Vec<u8> {
        let names = b"\0.BTF_ids\0.BTF\0";
        let mut file = ELF_MAGIC.to_vec();
        file.resize(64, 0);
        let section = |name: u32, start: usize, length: usize| {
            let mut header = vec![0; SECTION_HEADER_BYTES];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&(start as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
            header
        };
        let table = 64 + names.len() + types.len();
        let headers = [section(1, 0, 0), section(0, 64, names.len()), section(10, 64 + names.len(), types.len())];
        file[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&(headers.len() as u16).to_le_bytes());
        file[0x3e..0x40].copy_from_slice(&1_u16.to_le_bytes());
        [&file, &names[..], types, &headers.concat()].concat()
    }

    /// A boot image around a payload.
    pub(crate) fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * SECTOR_BYTES];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&8_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        [&image, &[0; 8][..], payload, b"more"].concat()
    }

    #[test]
    fn type_information_is_found_in_an_image() {
        let types = b"some types";
        for payload in [elf(types), compressed(&elf(types))] {
            let kernel = decompressed(&image(&payload)).unwrap();
            assert_eq!(section(&kernel), Some(&types[..]));
        }
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let good = image(&elf(b"types"));
        assert!(decompressed(b"short").is_err());
        assert!(decompressed(&good[..good.len() - 40]).is_err());
        assert_eq!(decompressed(&image(b"\xfd7zXZ\0")).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(decompressed(&image(&ZSTD_MAGIC)).is_err());
        let elf = elf(b"types");
        let nr_before_headers = elf.len() - 3 * SECTION_HEADER_BYTES;
        assert!((0..nr_before_headers).all(|length| section(&elf[..length]).is_none()), "it has no sections");
    }
}
