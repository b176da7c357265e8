//! Whether the kernel's type information (BTF) describes sched_ext's functions as programs are compiled against them.
//!
//! Some functions take an argument that the kernel fills in by itself. A sound kernel hides it: `scx_bpf_kick_cpu` is
//! described without, and a twin, `scx_bpf_kick_cpu_impl`, with it. Kernels of 7.0 and later whose type information was
//! made by pahole older than 1.26 have no twins and show the argument, called `aux`, in the function itself. Then the
//! kernel refuses every scheduler that calls it ("func_proto incompatible").
//!
//! The format is documented in the kernel's `Documentation/bpf/btf.rst`. Nothing here trusts what it reads.

/// First two bytes, in the byte order of the machine.
pub(crate) const MAGIC: u16 = 0xeb9f;
const PREFIXES: [&str; 2] = ["scx_bpf_", "__scx_bpf_"];
const TWIN_SUFFIX: &str = "_impl";
const HIDDEN_ARGUMENT: &str = "aux";

const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
const TYPE_BYTES: usize = 12;
const PARAMETER_BYTES: usize = 8;

/// Names of the functions that show what should be hidden, in order; `None` if this is not type information.
pub(crate) fn malformed_kfuncs(bytes: &[u8]) -> Option<Vec<String>> {
    let btf = Btf::parse(bytes)?;
    let functions: Vec<_> = btf.kfuncs().collect();
    let has_twin = |name: &str| {
        functions.iter().any(|(other, _)| other.strip_suffix(TWIN_SUFFIX).is_some_and(|stem| stem == name))
    };
    let is_malformed = |(name, prototype): &&(&str, u32)| {
        !name.ends_with(TWIN_SUFFIX) && btf.shows_hidden_argument(*prototype) && !has_twin(name)
    };
    let mut names: Vec<_> = functions.iter().filter(is_malformed).map(|(name, _)| (*name).to_owned()).collect();
    names.sort();
    Some(names)
}

/// Type information with the places of its types.
struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where type `n + 1` begins.
    places: Vec<u32>,
}

impl<'a> Btf<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let field = |index: usize| word(bytes, 4 + 4 * index).map(|value| value as usize);
        let [header, type_offset, type_length, string_offset, string_length] =
            [field(0)?, field(1)?, field(2)?, field(3)?, field(4)?];
        let section = |offset: usize, length: usize| {
            let from = header.checked_add(offset)?;
            bytes.get(from..from.checked_add(length)?)
        };
        let (types, strings) = (section(type_offset, type_length)?, section(string_offset, string_length)?);
        let mut places = Vec::new();
        let mut at = 0;
        while at < types.len() {
            places.push(u32::try_from(at).ok()?);
            at += TYPE_BYTES + trailing_bytes(word(types, at + 4)?)?;
        }
        Some(Self { types, strings, places })
    }

    /// sched_ext's functions with the number of their prototype.
    fn kfuncs(&self) -> impl Iterator<Item = (&'a str, u32)> {
        self.places.iter().filter_map(|place| {
            let at = *place as usize;
            let name = (kind(word(self.types, at + 4)?) == KIND_FUNC).then(|| self.name(at))??;
            let is_ours = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            is_ours.then_some((name, word(self.types, at + 8)?))
        })
    }

    fn shows_hidden_argument(&self, prototype: u32) -> bool {
        let place = (prototype as usize).checked_sub(1).and_then(|index| self.places.get(index));
        let Some(at) = place.map(|place| *place as usize) else { return false };
        let Some(info) = word(self.types, at + 4).filter(|info| kind(*info) == KIND_FUNC_PROTO) else { return false };
        let mut parameters = (0..nr_members(info)).map(|index| at + TYPE_BYTES + PARAMETER_BYTES * index);
        parameters.any(|parameter| self.name(parameter) == Some(HIDDEN_ARGUMENT))
    }

    /// The name that the first word of a type or parameter points to.
    fn name(&self, at: usize) -> Option<&'a str> {
        let text = self.strings.get(word(self.types, at)? as usize..)?;
        str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn nr_members(info: u32) -> usize {
    (info & 0xffff) as usize
}

/// What follows a type of this kind; `None` for kinds that nobody knows yet.
fn trailing_bytes(info: u32) -> Option<usize> {
    Some(match kind(info) {
        // Pointers, forward declarations, typedefs, qualifiers, functions, floats and type tags.
        2 | 7..=11 | KIND_FUNC | 16 | 18 => 0,
        // Integers, variables and declaration tags.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections and 64-bit enumerations.
        4 | 5 | 15 | 19 => 12 * nr_members(info),
        // Enumerations and prototypes.
        6 | KIND_FUNC_PROTO => 8 * nr_members(info),
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Type information of functions, each with the names of its parameters, after a few types of other kinds.
    pub(crate) fn with_functions(functions: &[(&str, &[&str])]) -> Vec<u8> {
        let mut strings = vec![0];
        let mut name = |text: &str| {
            let at = strings.len() as u32;
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at
        };
        let info = |kind: u32, nr_members: usize| kind << 24 | nr_members as u32;
        // An integer, then a structure with two members: types 1 and 2.
        let mut words = vec![name("int"), info(1, 0), 4, 32, name("pair"), info(4, 2), 8];
        words.extend([name("a"), 1, 0, name("b"), 1, 32]);
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
        assert_eq!(malformed_kfuncs(&with_functions(SOUND)), Some(Vec::new()));
        let names = malformed_kfuncs(&with_functions(MALFORMED)).unwrap();
        assert_eq!(names, ["__scx_bpf_dsq_insert_vtime", "scx_bpf_kick_cpu"]);
    }

    #[test]
    fn older_kernels_hide_nothing() {
        assert_eq!(malformed_kfuncs(&with_functions(&SOUND[2..])), Some(Vec::new()));
        assert_eq!(malformed_kfuncs(&with_functions(&[("scx_bpf_kick_cpu", &["cpu", "flags"])])), Some(Vec::new()));
    }

    #[test]
    fn damage_is_noticed_or_harmless() {
        let whole = with_functions(MALFORMED);
        assert_eq!(malformed_kfuncs(b"ELF"), None);
        for length in 0..whole.len() {
            malformed_kfuncs(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                malformed_kfuncs(&damaged);
            }
        }
    }
}
