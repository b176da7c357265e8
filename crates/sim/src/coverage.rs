//! Which parts of the scheduler's source have run in this process.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// `struct sim_block` of coverage.c.
#[repr(C)]
struct CodeBlock {
    address: u64,
    /// A function begins here.
    is_function: u64,
}

// SAFETY: the signature is that of coverage.c.
unsafe extern "C" {
    fn sim_coverage(flags: *mut *const bool, blocks: *mut *const CodeBlock) -> u64;
}

/// Lines of one file that begin a block of code, and those of them that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCoverage {
    /// Those that ran.
    pub nr_ran: usize,
    /// All of them.
    pub nr_lines: usize,
}

/// What ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// By file.
    pub files: BTreeMap<String, FileCoverage>,
    /// Functions that never ran, neither by themselves nor within others.
    pub unused: BTreeSet<String>,
    /// How many functions there are.
    pub nr_functions: usize,
}

/// Where the code of a block comes from: the innermost place in the source, and the functions that are inlined there.
struct BlockPlace {
    file: String,
    line: u32,
    functions: Vec<String>,
}

impl Coverage {
    /// So far.
    pub fn so_far() -> Result<Self> {
        let (mut flags, mut blocks) = (std::ptr::null(), std::ptr::null());
        // SAFETY: both are tables of the program's, of the length that is returned; nobody writes to them while this thread holds them.
        let (flags, blocks) = unsafe {
            let nr = sim_coverage(&raw mut flags, &raw mut blocks) as usize;
            ensure!(nr > 0, "the scheduler was compiled without them");
            (std::slice::from_raw_parts(flags, nr), std::slice::from_raw_parts(blocks, nr))
        };
        Ok(Self::of(flags, blocks, &places(blocks)?))
    }

    fn of(flags: &[bool], blocks: &[CodeBlock], places: &[BlockPlace]) -> Self {
        let mut lines: BTreeMap<(&str, u32), bool> = BTreeMap::new();
        let mut functions: BTreeMap<&str, bool> = BTreeMap::new();
        // What is inlined everywhere has no beginning of its own.
        let begins = blocks.iter().zip(places).filter(|(block, _)| block.is_function & 1 == 1);
        functions.extend(begins.filter_map(|(_, place)| Some((place.functions.last()?.as_str(), false))));
        for (ran, place) in flags.iter().zip(places) {
            *lines.entry((&place.file, place.line)).or_default() |= *ran;
            for function in &place.functions {
                functions.entry(function).and_modify(|before| *before |= *ran);
            }
        }
        let mut files: BTreeMap<String, FileCoverage> = BTreeMap::new();
        for ((file, _), ran) in lines.iter().filter(|((file, _), _)| file.contains(".bpf.")) {
            let file = files.entry((*file).to_owned()).or_default();
            file.nr_lines += 1;
            file.nr_ran += usize::from(*ran);
        }
        let unused = functions.iter().filter(|(name, ran)| !**ran && !name.starts_with("sim_"));
        Self { files, unused: unused.map(|(name, _)| (*name).to_owned()).collect(), nr_functions: functions.len() }
    }

    /// Of a hundred lines that begin a block.
    #[must_use]
    pub fn percent(&self) -> usize {
        let sum = |count: fn(&FileCoverage) -> usize| self.files.values().map(count).sum::<usize>();
        100 * sum(|file| file.nr_ran) / sum(|file| file.nr_lines).max(1)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lines of BPF that begin a block of code, and ran: {} %", self.percent())?;
        for (name, FileCoverage { nr_ran, nr_lines }) in &self.files {
            writeln!(f, "{name:24} {nr_ran:>4} of {nr_lines:>4}")?;
        }
        let unused: Vec<&str> = self.unused.iter().map(String::as_str).collect();
        writeln!(f, "{} of {} functions never ran: {}", unused.len(), self.nr_functions, unused.join(", "))
    }
}

/// What `addr2line` says of all blocks.
fn places(blocks: &[CodeBlock]) -> Result<Vec<BlockPlace>> {
    let program = std::env::current_exe()?;
    let base = load_address(&program)?;
    let mut child = Command::new("addr2line")
        .args(["-a", "-f", "-i", "-e"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run addr2line, of binutils")?;
    let asked: Vec<String> = blocks.iter().map(|block| format!("{:x}", block.address - base)).collect();
    let mut input = child.stdin.take().context("its input")?;
    let writer = std::thread::spawn(move || input.write_all((asked.join("\n") + "\n").as_bytes()));
    let answer = String::from_utf8(child.wait_with_output()?.stdout)?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let places: Vec<BlockPlace> = answer.split("0x").skip(1).map(place).collect();
    ensure!(places.len() == blocks.len(), "addr2line named {} of {} places", places.len(), blocks.len());
    Ok(places)
}

/// From an address, and two lines for each function that was inlined there, the innermost first.
fn place(answer: &str) -> BlockPlace {
    let lines: Vec<&str> = answer.lines().skip(1).collect();
    let (path, line) = lines.get(1).and_then(|place| place.rsplit_once(':')).unwrap_or_default();
    let number = line.split(' ').next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let functions = lines.chunks(2).map(|frame| frame[0].to_owned()).collect();
    let file = Path::new(path).file_name().unwrap_or_default().display().to_string();
    BlockPlace { file, line: number, functions }
}

/// Where the program's file is mapped first.
fn load_address(program: &Path) -> Result<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let name = program.display().to_string();
    let line = maps.lines().find(|line| line.ends_with(&name)).context("the program is mapped")?;
    Ok(u64::from_str_radix(line.split('-').next().unwrap_or_default(), 16)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_belongs_to_the_innermost_line() {
        let found = place("00000000000c0de\nmin\n/a/dsq.bpf.h:12\npick\n/a/seat.bpf.h:90 (discriminator 2)\n");
        assert_eq!((&*found.file, found.line, found.functions), ("dsq.bpf.h", 12, vec!["min".into(), "pick".into()]));
        assert_eq!(place("00\nf\n/a/seat.bpf.h:90 (discriminator 2)\n").line, 90);
    }
}
