//! What daemon and engine say to each other.
//!
//! The daemon starts the engine with a `SOCK_SEQPACKET` socket as its standard input. Every packet is one
//! [`Message`] of [`MESSAGE_BYTES`]; [`ToDaemon::Loaded`] carries two descriptors as well. The conversation:
//!
//! ```text
//! engine  Hello                       it runs, nothing is loaded
//! daemon  Prepare { … }               if it is on standby: at most once, before Load
//! engine  Prepared                    it can be loaded at once; or Failed { … }, and the engine ends
//! daemon  Load { … }                  once
//! engine  Loaded { … } + 2 fds        the kernel has confirmed; or Failed { … }, and the engine ends
//! daemon  Apply { seq, … }            any number of times
//! engine  Done { seq }                the kernel side follows the new word
//! daemon  Refresh { seq }             engine-side counters (faults, CPU time) are brought up to date
//! daemon  Unload                      or simply closes the socket
//! engine  Exited { … }                the kernel is back on its own scheduler; the engine ends
//! ```
//!
//! A standby engine waits after `Prepared` for as long as the one that schedules lives; `Load` may be sent without waiting
//! for that answer. End-of-file on the socket is an order to unload. A packet that makes no sense ends the conversation:
//! both ends are ours, so it means a mismatch of versions.

/// Size of every packet.
pub const MESSAGE_BYTES: usize = 1024;
/// First word of every packet: "SCZO".
const MAGIC: u32 = 0x4f5a_4353;
/// Longest text in a packet, in bytes; longer text is cut at a character boundary.
pub const TEXT_BYTES: usize = MESSAGE_BYTES - HEADER_BYTES;
const NR_ARGS: usize = 24;
const _: () = assert!(LoadSettings::NR_WORDS <= NR_ARGS, "every setting has a word");
const HEADER_BYTES: usize = 16 + 8 * NR_ARGS;

/// How the scheduler is loaded. The daemon has validated it, and the engine does so again.
pub use scherzo_model::{LoadSettings, SliceTimer};

fn settings_arg(args: &[u64; NR_ARGS]) -> Result<LoadSettings, BadMessage> {
    LoadSettings::from_words(args).ok_or(BadMessage("a setting makes no sense"))
}

pub use scherzo_model::{ExitKind, FailKind};

/// Daemon → engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToEngine {
    /// Do what takes long of loading, and change nothing on the system yet.
    Prepare(LoadSettings),
    /// Load the scheduler.
    Load(LoadSettings),
    /// Follow these settings from now on. What only loading can change stays as it was loaded.
    Apply {
        /// Repeated in the answer.
        seq: u32,
        /// All of them.
        settings: LoadSettings,
    },
    /// Bring engine-side counters up to date.
    Refresh {
        /// Repeated in the answer.
        seq: u32,
    },
    /// Unload and end.
    Unload,
}

/// Engine → daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDaemon {
    /// The engine runs, nothing is loaded.
    Hello {
        /// Its [`crate::layout::WIRE_VERSION`].
        wire_version: u32,
    },
    /// All is done that can be done before [`ToEngine::Load`].
    Prepared,
    /// Loaded and confirmed; the packet carries the descriptors of the control page and of the per-CPU pages.
    Loaded {
        /// Possible CPUs, that is, elements of the per-CPU map.
        nr_cpus: u32,
        /// Time from the request to the kernel's confirmation.
        load_us: u64,
    },
    /// Loading or preparing failed; the engine ends.
    Failed {
        /// Stable kind.
        kind: FailKind,
        /// What happened and what to do.
        text: String,
    },
    /// A request is done.
    Done {
        /// Of the request.
        seq: u32,
    },
    /// The kernel is back on its own scheduler; the engine ends.
    Exited {
        /// Stable kind.
        kind: ExitKind,
        /// The kernel's exit code.
        code: i64,
        /// The kernel's reason and message.
        text: String,
    },
}

/// A packet that is not one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMessage(pub &'static str);

impl std::fmt::Display for BadMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed control message: {}", self.0)
    }
}

impl std::error::Error for BadMessage {}

/// One packet.
pub type Message = [u8; MESSAGE_BYTES];

struct Fields {
    kind: u32,
    seq: u32,
    args: [u64; NR_ARGS],
}

fn encode(kind: u32, seq: u32, args: &[u64], text: &str) -> Message {
    let mut packet = [0; MESSAGE_BYTES];
    packet[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    packet[4..8].copy_from_slice(&kind.to_le_bytes());
    packet[8..12].copy_from_slice(&seq.to_le_bytes());
    for (index, arg) in args.iter().enumerate() {
        packet[16 + 8 * index..24 + 8 * index].copy_from_slice(&arg.to_le_bytes());
    }
    let end = floor_char_boundary(text, TEXT_BYTES);
    packet[12..16].copy_from_slice(&(end as u32).to_le_bytes());
    packet[HEADER_BYTES..HEADER_BYTES + end].copy_from_slice(&text.as_bytes()[..end]);
    packet
}

fn floor_char_boundary(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0)
}

fn decode(packet: &[u8]) -> Result<(Fields, &str), BadMessage> {
    let packet: &Message = packet.try_into().map_err(|_| BadMessage("wrong size"))?;
    let word = |at: usize| u32::from_le_bytes(packet[at..at + 4].try_into().unwrap_or_default());
    if word(0) != MAGIC {
        return Err(BadMessage("wrong magic"));
    }
    let mut args = [0; NR_ARGS];
    for (index, arg) in args.iter_mut().enumerate() {
        let at = 16 + 8 * index;
        *arg = u64::from_le_bytes(packet[at..at + 8].try_into().unwrap_or_default());
    }
    let len = word(12) as usize;
    let text = packet.get(HEADER_BYTES..HEADER_BYTES + len.min(MESSAGE_BYTES)).ok_or(BadMessage("text too long"))?;
    let text = str::from_utf8(text).map_err(|_| BadMessage("text is not UTF-8"))?;
    Ok((Fields { kind: word(4), seq: word(8), args }, text))
}

fn narrow(arg: u64) -> Result<u32, BadMessage> {
    u32::try_from(arg).map_err(|_| BadMessage("number out of range"))
}

impl ToEngine {
    /// The packet to send.
    #[must_use]
    pub fn encode(&self) -> Message {
        match *self {
            Self::Load(settings) => encode(1, 0, &settings.to_words(), ""),
            Self::Apply { seq, settings } => encode(2, seq, &settings.to_words(), ""),
            Self::Refresh { seq } => encode(3, seq, &[], ""),
            Self::Unload => encode(4, 0, &[], ""),
            Self::Prepare(settings) => encode(5, 0, &settings.to_words(), ""),
        }
    }

    /// Reads a packet.
    pub fn decode(packet: &[u8]) -> Result<Self, BadMessage> {
        let (Fields { kind, seq, args }, _) = decode(packet)?;
        Ok(match kind {
            1 => Self::Load(settings_arg(&args)?),
            2 => Self::Apply { seq, settings: settings_arg(&args)? },
            3 => Self::Refresh { seq },
            4 => Self::Unload,
            5 => Self::Prepare(settings_arg(&args)?),
            _ => return Err(BadMessage("unknown kind")),
        })
    }
}

impl ToDaemon {
    /// The packet to send.
    #[must_use]
    pub fn encode(&self) -> Message {
        match self {
            Self::Hello { wire_version } => encode(101, 0, &[(*wire_version).into()], ""),
            Self::Loaded { nr_cpus, load_us } => encode(102, 0, &[(*nr_cpus).into(), *load_us], ""),
            Self::Failed { kind, text } => encode(103, 0, &[*kind as u64], text),
            Self::Done { seq } => encode(104, *seq, &[], ""),
            Self::Exited { kind, code, text } => encode(105, 0, &[*kind as u64, *code as u64], text),
            Self::Prepared => encode(106, 0, &[], ""),
        }
    }

    /// Reads a packet.
    pub fn decode(packet: &[u8]) -> Result<Self, BadMessage> {
        let (Fields { kind, seq, args }, text) = decode(packet)?;
        let text = text.to_owned();
        Ok(match kind {
            101 => Self::Hello { wire_version: narrow(args[0])? },
            102 => Self::Loaded { nr_cpus: narrow(args[0])?, load_us: args[1] },
            103 => Self::Failed {
                kind: match args[0] {
                    1 => FailKind::NotSupported,
                    2 => FailKind::MalformedBtf,
                    3 => FailKind::Permission,
                    4 => FailKind::Conflict,
                    5 => FailKind::Other,
                    6 => FailKind::Outdated,
                    _ => return Err(BadMessage("unknown failure")),
                },
                text,
            },
            104 => Self::Done { seq },
            105 => Self::Exited {
                kind: match args[0] {
                    1 => ExitKind::Unloaded,
                    2 => ExitKind::Kernel,
                    3 => ExitKind::Error,
                    4 => ExitKind::Stall,
                    5 => ExitKind::RtStarvation,
                    6 => ExitKind::ReenqueueLimit,
                    7 => ExitKind::RescueOverload,
                    _ => return Err(BadMessage("unknown exit")),
                },
                code: args[1] as i64,
                text,
            },
            106 => Self::Prepared,
            _ => return Err(BadMessage("unknown kind")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scherzo_model::PolicyId;

    fn to_daemon() -> impl Strategy<Value = ToDaemon> {
        prop_oneof![
            any::<u32>().prop_map(|wire_version| ToDaemon::Hello { wire_version }),
            any::<(u32, u64)>().prop_map(|(nr_cpus, load_us)| ToDaemon::Loaded { nr_cpus, load_us }),
            "\\PC{0,64}".prop_map(|text| ToDaemon::Failed { kind: FailKind::Conflict, text }),
            "\\PC{0,64}".prop_map(|text| ToDaemon::Failed { kind: FailKind::Outdated, text }),
            any::<u32>().prop_map(|seq| ToDaemon::Done { seq }),
            Just(ToDaemon::Prepared),
            (any::<i64>(), "\\PC{0,64}").prop_map(|(code, text)| ToDaemon::Exited {
                kind: ExitKind::Stall,
                code,
                text
            }),
        ]
    }

    proptest! {
        #[test]
        fn messages_survive(message in to_daemon()) {
            prop_assert_eq!(ToDaemon::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn requests_survive(seq: u32, preemption: bool, base_slice_us: u32, policy: u8) {
            let policy = PolicyId(policy);
            let settings = LoadSettings { preemption, base_slice_us, policy, ..LoadSettings::default() };
            for request in [
                ToEngine::Prepare(settings),
                ToEngine::Load(settings),
                ToEngine::Apply { seq, settings },
                ToEngine::Refresh { seq },
                ToEngine::Unload,
            ] {
                prop_assert_eq!(ToEngine::decode(&request.encode()), Ok(request));
            }
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..1100)) {
            let _ = ToEngine::decode(&noise);
            let _ = ToDaemon::decode(&noise);
        }

        #[test]
        fn noise_behind_a_header_never_panics(kind in 0u32..110, seq: u32, args: [u64; NR_ARGS], len: u32) {
            let mut packet = encode(kind, seq, &args, "");
            packet[12..16].copy_from_slice(&len.to_le_bytes());
            let _ = ToEngine::decode(&packet);
            let _ = ToDaemon::decode(&packet);
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = "é".repeat(MESSAGE_BYTES);
        let packet = ToDaemon::Failed { kind: FailKind::Other, text }.encode();
        let Ok(ToDaemon::Failed { text, .. }) = ToDaemon::decode(&packet) else { panic!("decodes") };
        assert!(text.len() <= TEXT_BYTES && text.chars().all(|c| c == 'é'));
    }
}
