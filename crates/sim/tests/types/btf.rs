//! Reads type information (BTF), as the kernel and compilers for BPF write it: Documentation/bpf/btf.rst of the kernel. What is
//! damaged panics.

use std::collections::BTreeMap;

const MAGIC: u16 = 0xeb9f;
const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FORWARD: u32 = 7;
const FUNCTION_TYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
const DECLARATION_TAG: u32 = 17;
const ENUM64: u32 = 19;

/// One type: what its header says, and the words behind that.
struct BtfType {
    name: String,
    kind: u32,
    /// Of structures and enumerations: bit fields, and signed values.
    flag: bool,
    /// The type that it refers to, or its size.
    size_or_type: u32,
    words: Vec<u32>,
}

/// Type information.
pub struct Btf {
    /// By number; 0 is `void`.
    types: Vec<Option<BtfType>>,
    strings: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Btf {
    /// From the contents of `/sys/kernel/btf/vmlinux`, or of such a section.
    pub fn parse(bytes: &[u8]) -> Self {
        assert_eq!(u16::from_le_bytes([bytes[0], bytes[1]]), MAGIC, "this is no type information of such a machine");
        let header = word(bytes, 4) as usize;
        let [types_at, types_len, strings_at, strings_len] = [8, 12, 16, 20].map(|at| word(bytes, at) as usize);
        let strings = bytes[header + strings_at..][..strings_len].to_vec();
        let bytes = &bytes[header + types_at..][..types_len];
        let mut btf = Self { types: vec![None], strings };
        let mut at = 0;
        while at < bytes.len() {
            let [name, info, size_or_type] = [0, 4, 8].map(|offset| word(bytes, at + offset));
            let (kind, nr) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let nr_words = match kind {
                INT | VARIABLE | DECLARATION_TAG => 1,
                ARRAY => 3,
                STRUCT | UNION | SECTION | ENUM64 => 3 * nr,
                ENUM | FUNCTION_TYPE => 2 * nr,
                _ => 0,
            };
            let words = (0..nr_words).map(|index| word(bytes, at + 12 + 4 * index)).collect();
            let name = btf.string(name);
            btf.types.push(Some(BtfType { name, kind, flag: info >> 31 == 1, size_or_type, words }));
            at += 12 + 4 * nr_words;
        }
        btf
    }

    fn string(&self, at: u32) -> String {
        let bytes = self.strings[at as usize..].split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn get(&self, id: u32) -> Option<&BtfType> {
        self.types.get(id as usize)?.as_ref()
    }

    /// All fields of structures as `struct.field`, with their types; those without a name stand in for their own fields.
    pub fn fields(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        for found in self.types.iter().flatten().filter(|found| found.kind == STRUCT && !found.name.is_empty()) {
            self.add_fields(&found.name, found, &mut fields);
        }
        fields
    }

    fn add_fields(&self, of: &str, found: &BtfType, fields: &mut BTreeMap<String, String>) {
        for member in found.words.chunks(3) {
            let (name, id, bits) = (self.string(member[0]), member[1], if found.flag { member[2] >> 24 } else { 0 });
            match self.get(id) {
                Some(inner) if name.is_empty() => self.add_fields(of, inner, fields),
                _ if bits > 0 => drop(fields.insert(format!("{of}.{name}"), format!("{}:{bits}", self.describe(id)))),
                _ => drop(fields.insert(format!("{of}.{name}"), self.describe(id))),
            }
        }
    }

    /// All values of enumerations.
    pub fn values(&self) -> BTreeMap<String, u64> {
        let mut values = BTreeMap::new();
        for found in self.types.iter().flatten() {
            if found.kind == ENUM {
                let signed = |value: u32| if found.flag { value as i32 as u64 } else { u64::from(value) };
                values.extend(found.words.chunks(2).map(|value| (self.string(value[0]), signed(value[1]))));
            } else if found.kind == ENUM64 {
                let whole = |value: &[u32]| u64::from(value[2]) << 32 | u64::from(value[1]);
                values.extend(found.words.chunks(3).map(|value| (self.string(value[0]), whole(value))));
            }
        }
        values
    }

    /// The type in few words: what it is called does not matter, what it is does. `const` and the like are left out.
    fn describe(&self, id: u32) -> String {
        let Some(found) = self.get(id) else { return "void".to_owned() };
        let sign = |signed| if signed { 's' } else { 'u' };
        match found.kind {
            INT if found.name == "char" => "char".to_owned(),
            INT if found.words[0] >> 24 & 4 != 0 => "bool".to_owned(),
            INT => format!("{}{}", sign(found.words[0] >> 24 & 1 != 0), found.words[0] & 0xff),
            ENUM | ENUM64 => format!("{}{}", sign(found.flag), 8 * found.size_or_type),
            POINTER => format!("*{}", self.describe(found.size_or_type)),
            ARRAY => format!("[{}]{}", found.words[2], self.describe(found.words[0])),
            STRUCT | UNION | FORWARD => found.name.clone(),
            FUNCTION_TYPE => {
                let arguments: Vec<String> = found.words.chunks(2).map(|word| self.describe(word[1])).collect();
                format!("fn({}) {}", arguments.join(", "), self.describe(found.size_or_type))
            }
            // Other names of a type, and `const`, `volatile`, `restrict` and tags.
            _ => self.describe(found.size_or_type),
        }
    }
}

/// The section of that name in an object file (ELF, 64 bits).
pub fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let half = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let place = |at: usize| word(file, at) as usize;
    let header = |index: usize| place(0x28) + index * half(0x3a);
    let contents = |index: usize| &file[place(header(index) + 0x18)..][..place(header(index) + 0x20)];
    let names = contents(half(0x3e));
    let fits = |index: &usize| names[place(header(*index))..].split(|byte| *byte == 0).next() == Some(name.as_bytes());
    (0..half(0x3c)).find(fits).map(contents)
}
