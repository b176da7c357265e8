//! What the kernel's type information (BTF) tells: whether it describes sched_ext's functions as programs are compiled
//! against them, and whether sched_ext has a deadline server.
//!
//! Some functions take an argument that the kernel fills in by itself. A sound kernel hides it: `scx_bpf_kick_cpu` is
//! described without, and a twin, `scx_bpf_kick_cpu_impl`, with it. Kernels of 7.0 and later whose type information was
//! made by pahole older than 1.26 have no twins and show the argument, called `aux`, in the function itself. Then the
//! kernel refuses every scheduler that calls it ("func_proto incompatible").
//!
//! The deadline server keeps a share of every CPU for sched_ext, whatever real-time programs do. It is a member of the
//! kernel's run queue (`struct rq`): no version says so as surely, since fixes and features are carried to older kernels.
//!
//! The format is documented in the kernel's `Documentation/bpf/btf.rst`. Nothing here trusts what it reads. It is read
//! piece by piece: the service looks as well, and has no room for megabytes.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

use crate::Root;

/// Where the kernel publishes it.
const VMLINUX: &str = "sys/kernel/btf/vmlinux";
/// First two bytes, in the byte order of the machine.
const MAGIC: u16 = 0xeb9f;
const PREFIXES: [&[u8]; 2] = [b"scx_bpf_", b"__scx_bpf_"];
const TWIN_SUFFIX: &str = "_impl";
const HIDDEN_ARGUMENT: &[u8] = b"aux";
const RUN_QUEUE: &[u8] = b"rq";
const EXT_SERVER: &[u8] = b"ext_server";
/// How many names a sentence can bear.
const NR_QUOTED: usize = 3;

const KIND_STRUCT: u32 = 4;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const HEADER_WORDS: usize = 6;
const TYPE_WORDS: usize = 3;
const MEMBER_WORDS: usize = 3;
const PARAMETER_WORDS: usize = 2;
const WORD_BYTES: usize = 4;

/// What the kernel's type information tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTypes {
    /// Functions of sched_ext's that it describes so that no scheduler which calls them can be loaded, in order. There are
    /// none either if it does not describe any: that is for [`crate::diagnose`] to tell.
    pub malformed_kfuncs: Vec<String>,
    /// Whether it describes any of them.
    pub describes_sched_ext: bool,
    /// Whether sched_ext has a deadline server; `None` if the run queue is not described.
    pub has_ext_server: Option<bool>,
}

/// Looks at the running kernel's; `None` if it is damaged.
pub(crate) fn read(root: &Root) -> io::Result<Option<KernelTypes>> {
    check(File::open(root.path(VMLINUX))?)
}

/// What the running kernel tells; nothing if it does not publish its types, or these are damaged.
#[must_use]
pub fn kernel_types(root: &Root) -> KernelTypes {
    read(root).ok().flatten().unwrap_or_default()
}

/// Those functions of sched_ext's that keep every scheduler which calls them from being loaded.
#[must_use]
pub fn malformed_kfuncs(root: &Root) -> Vec<String> {
    kernel_types(root).malformed_kfuncs
}

/// The first few of many names, and how many more there are, for a sentence in whatever language.
#[must_use]
pub fn quote_names(names: &[String]) -> String {
    let (quoted, others) = names.split_at(names.len().min(NR_QUOTED));
    let quoted = quoted.join(", ");
    if others.is_empty() { quoted } else { format!("{quoted} (+{})", others.len()) }
}

/// What type information of another kernel tells, in the running machine's byte order; `None` if it is damaged.
pub fn check(source: impl Read + Seek) -> io::Result<Option<KernelTypes>> {
    match describe(&mut BufReader::new(source)) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        described => described,
    }
}

fn describe<R: Read + Seek>(source: &mut BufReader<R>) -> io::Result<Option<KernelTypes>> {
    let [magic, header_length, type_offset, type_length, string_offset, string_length] = words::<HEADER_WORDS>(source)?;
    if magic.to_ne_bytes()[..2] != MAGIC.to_ne_bytes() {
        return Ok(None);
    }
    let place = |offset: u32| SeekFrom::Start(u64::from(header_length) + u64::from(offset));
    source.seek(place(string_offset))?;
    let Some(names) = Names::read(source, string_length)? else { return Ok(None) };
    source.seek(place(type_offset))?;
    let Some(types) = Types::read(source, type_length, &names)? else { return Ok(None) };
    Ok(Some(KernelTypes {
        malformed_kfuncs: types.malformed(),
        describes_sched_ext: !types.named.is_empty(),
        has_ext_server: types.has_ext_server,
    }))
}

/// Those names that matter, by their place among all strings.
#[derive(Default)]
struct Names {
    functions: HashMap<u32, String>,
    hidden_argument: HashSet<u32>,
    run_queue: HashSet<u32>,
    ext_server: HashSet<u32>,
}

impl Names {
    /// `None` if there are fewer strings than announced.
    fn read<R: Read>(source: &mut BufReader<R>, length: u32) -> io::Result<Option<Self>> {
        let (mut names, mut name, mut at) = (Self::default(), Vec::new(), 0);
        let mut strings = source.take(length.into());
        while at < length {
            name.clear();
            let read = strings.read_until(0, &mut name)?;
            if name.pop() != Some(0) {
                return Ok(None);
            }
            match name.as_slice() {
                HIDDEN_ARGUMENT => drop(names.hidden_argument.insert(at)),
                RUN_QUEUE => drop(names.run_queue.insert(at)),
                EXT_SERVER => drop(names.ext_server.insert(at)),
                name if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) => {
                    names.functions.insert(at, String::from_utf8_lossy(name).into_owned());
                }
                _ => {}
            }
            // No more than is left of a 32-bit length.
            at += read as u32;
        }
        Ok(Some(names))
    }
}

/// sched_ext's functions, and what the run queue has for it.
#[derive(Default)]
struct Types<'a> {
    /// Names, with the number of the prototype.
    named: Vec<(&'a str, u32)>,
    /// Numbers of prototypes that show the argument.
    showing: HashSet<u32>,
    has_ext_server: Option<bool>,
}

impl<'a> Types<'a> {
    /// `None` if there are types that nobody knows, or the last is not whole.
    fn read<R: Read + Seek>(source: &mut BufReader<R>, length: u32, names: &'a Names) -> io::Result<Option<Self>> {
        let (mut types, mut at, mut number) = (Self::default(), 0, 0_u32);
        while at < u64::from(length) {
            number += 1;
            let [name, info, prototype] = words::<TYPE_WORDS>(source)?;
            let Some(trailing) = trailing_bytes(info) else { return Ok(None) };
            match kind(info) {
                KIND_FUNC => types.named.extend(names.functions.get(&name).map(|name| (name.as_str(), prototype))),
                KIND_FUNC_PROTO => {
                    for _ in 0..nr_members(info) {
                        let [name, _] = words::<PARAMETER_WORDS>(source)?;
                        if names.hidden_argument.contains(&name) {
                            types.showing.insert(number);
                        }
                    }
                }
                KIND_STRUCT if names.run_queue.contains(&name) => {
                    for _ in 0..nr_members(info) {
                        let [name, ..] = words::<MEMBER_WORDS>(source)?;
                        *types.has_ext_server.get_or_insert(false) |= names.ext_server.contains(&name);
                    }
                }
                _ => source.seek_relative(trailing.cast_signed())?,
            }
            at += (TYPE_WORDS * WORD_BYTES) as u64 + trailing;
        }
        Ok((at == u64::from(length)).then_some(types))
    }

    fn malformed(&self) -> Vec<String> {
        let twins: HashSet<_> = self.named.iter().filter_map(|(name, _)| name.strip_suffix(TWIN_SUFFIX)).collect();
        let is_malformed = |(name, prototype): &&(&str, u32)| {
            !name.ends_with(TWIN_SUFFIX) && self.showing.contains(prototype) && !twins.contains(name)
        };
        let mut names: Vec<_> = self.named.iter().filter(is_malformed).map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        names
    }
}

fn words<const N: usize>(source: &mut impl Read) -> io::Result<[u32; N]> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; WORD_BYTES];
        source.read_exact(&mut bytes)?;
        *word = u32::from_ne_bytes(bytes);
    }
    Ok(words)
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn nr_members(info: u32) -> u64 {
    u64::from(info & 0xffff)
}

/// What follows a type of this kind; `None` for kinds that nobody knows yet.
fn trailing_bytes(info: u32) -> Option<u64> {
    Some(match kind(info) {
        // Pointers, forward declarations, typedefs, qualifiers, functions, floats and type tags.
        2 | 7..=11 | KIND_FUNC | 16 | 18 => 0,
        // Integers, variables and declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections and 64-bit enumerations.
        KIND_STRUCT | 5 | 15 | 19 => 12 * nr_members(info),
        // Enumerations and prototypes.
        6 | KIND_FUNC_PROTO => 8 * nr_members(info),
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Cursor;

    use super::*;

    fn check_bytes(bytes: &[u8]) -> Option<KernelTypes> {
        check(Cursor::new(bytes)).unwrap()
    }

    fn malformed(bytes: &[u8]) -> Option<Vec<String>> {
        Some(check_bytes(bytes)?.malformed_kfuncs)
    }

    /// Type information of functions, each with the names of its parameters, after a few types of other kinds.
    pub(crate) fn with_functions(functions: &[(&str, &[&str])]) -> Vec<u8> {
        with("pair", ["a", "b"], functions)
    }

    /// As [`with_functions`]; one of the types of other kinds is this structure.
    fn with(structure: &str, members: [&str; 2], functions: &[(&str, &[&str])]) -> Vec<u8> {
        let mut strings = vec![0];
        let mut name = |text: &str| {
            let at = strings.len() as u32;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let info = |kind: u32, nr_members: usize| kind << 24 | nr_members as u32;
        // An integer, then a structure with two members: types 1 and 2.
        let mut words = vec![name("int"), info(1, 0), 4, 32, name(structure), info(KIND_STRUCT, 2), 8];
        words.extend([name(members[0]), 1, 0, name(members[1]), 1, 32]);
        let mut next = 3;
        for (function, parameters) in functions {
            words.extend([0, info(KIND_FUNC_PROTO, parameters.len()), 0]);
            for parameter in *parameters {
                words.extend([name(parameter), 1]);
            }
            words.extend([name(function), info(KIND_FUNC, 0), next]);
            next += 2;
        }
        let type_bytes = words.len() as u32 * 4;
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for field in [24, 0, type_bytes, type_bytes, strings.len() as u32].into_iter().chain(words) {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(strings);
        bytes
    }

    const SOUND: &[(&str, &[&str])] = &[
        ("scx_bpf_kick_cpu", &["cpu", "flags"]),
        ("scx_bpf_kick_cpu_impl", &["cpu", "flags", "aux"]),
        ("scx_bpf_now", &[]),
        ("bpf_map_free", &["aux"]),
    ];
    const MALFORMED: &[(&str, &[&str])] = &[
        ("scx_bpf_now", &[]),
        ("scx_bpf_kick_cpu", &["cpu", "flags", "aux"]),
        ("__scx_bpf_dsq_insert_vtime", &["p", "args", "aux"]),
    ];

    #[test]
    fn hidden_arguments_belong_to_twins() {
        assert_eq!(malformed(&with_functions(SOUND)), Some(Vec::new()));
        let names = ["__scx_bpf_dsq_insert_vtime", "scx_bpf_kick_cpu"].map(str::to_owned);
        assert_eq!(malformed(&with_functions(MALFORMED)), Some(names.to_vec()));
    }

    #[test]
    fn older_kernels_hide_nothing() {
        assert_eq!(malformed(&with_functions(&SOUND[2..])), Some(Vec::new()));
        assert!(check_bytes(&with_functions(&SOUND[2..])).unwrap().describes_sched_ext);
        assert!(!check_bytes(&with_functions(&[("bpf_map_sum", &["map"])])).unwrap().describes_sched_ext);
        assert_eq!(malformed(&with_functions(&[("scx_bpf_kick_cpu", &["cpu", "flags"])])), Some(Vec::new()));
    }

    #[test]
    fn the_deadline_server_is_a_member_of_the_run_queue() {
        let has = |structure, members| check_bytes(&with(structure, members, SOUND)).unwrap().has_ext_server;
        assert_eq!(has("rq", ["fair_server", "ext_server"]), Some(true));
        assert_eq!(has("rq", ["fair_server", "ext"]), Some(false));
        assert_eq!(has("cfs_rq", ["fair_server", "ext_server"]), None, "the run queue is not described");
    }

    #[test]
    fn damage_is_noticed_or_harmless() {
        let whole = with_functions(MALFORMED);
        assert_eq!(check_bytes(b"ELF, which is something else"), None);
        for length in 0..whole.len() {
            assert_eq!(check_bytes(&whole[..length]), None, "{length} bytes of it");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                check_bytes(&damaged);
            }
        }
    }

    #[test]
    fn a_sentence_bears_a_few_names() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(quote_names(&names[..1]), "a");
        assert_eq!(quote_names(&names[..3]), "a, b, c");
        assert_eq!(quote_names(&names), "a, b, c (+1)");
    }

    /// For tests elsewhere that need a kernel without a deadline server, or with malformed type information.
    #[test]
    fn the_examples_are_what_they_are_called() {
        let example = include_bytes!("../testdata/no_ext_server.btf");
        let expected = KernelTypes { has_ext_server: Some(false), ..KernelTypes::default() };
        assert_eq!(check_bytes(example), Some(expected));
        let example = include_bytes!("../testdata/malformed.btf");
        assert_eq!(malformed(example), Some(vec!["scx_bpf_kick_cpu".into()]));
    }
}
