//! What options and arguments may be.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ValueEnum};
use scherzo_api::types::{Mode, RequestedMode};
use scherzo_model::settings::{self, SettingFacts};

/// Accepts any text and offers the known modes for completion: a newer service may know more modes, and refuses unknown
/// ones itself.
#[derive(Clone, Copy)]
pub(super) struct ModeName {
    pub(super) or_auto: bool,
}

impl TypedValueParser for ModeName {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value).map(canonical)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let offered = RequestedMode::ALL.into_iter().filter(|mode| self.or_auto || *mode != RequestedMode::Auto);
        Some(Box::new(offered.map(|mode| PossibleValue::new(mode.name()))))
    }
}

/// What scxctl calls modes, and the mode here that is nearest; docs/scxctl.md explains.
pub(super) const ALIASES: [(&str, Mode); 4] = [
    ("gaming", Mode::Interactive),
    ("lowlatency", Mode::Interactive),
    ("powersave", Mode::LowPower),
    ("server", Mode::Fifo),
];

/// The name by which the service knows a mode.
fn canonical(name: String) -> String {
    let alias = ALIASES.into_iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, mode)| mode.name().to_owned())
}

/// Accepts any text and offers the known keys for completion: a newer service may have more settings.
#[derive(Clone, Copy)]
pub(super) struct SettingKey;

impl TypedValueParser for SettingKey {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, argument: Option<&Arg>, key: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, key)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(settings::all().map(|setting: &SettingFacts| PossibleValue::new(setting.key))))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Openmetrics,
    Prometheus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// In a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}
