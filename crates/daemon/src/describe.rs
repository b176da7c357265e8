//! What there is to know about settings and modes, for clients that build on it rather than on lists of their own.

use std::collections::HashMap;

use scherzo_api::catalogue::{NOT_STORED_FILES, mode_summary, mode_title};
use scherzo_api::details;
use scherzo_api::names::{ACTION_CONFIGURE, ACTION_CONFIGURE_AUTOMATION};
use scherzo_api::types::{Mode, RequestedMode, State};
use scherzo_model::SliceTimer;
use scherzo_model::settings::{SettingEffect, SettingType};
use scherzo_supervisor::Published;
use scherzo_supervisor::settings::{ALL, POLICIES, SettingEntry, Settings};
use zbus::{OwnedVariant, Str, Variant};

use crate::config::{Config, SettingSource};
use crate::settings::to_variant;
use crate::store::Store;

/// Facts about something, by their names.
pub type Description = HashMap<String, OwnedVariant>;

/// Every setting.
#[must_use]
pub fn settings(config: &Config) -> HashMap<String, Description> {
    ALL.iter().map(|setting| (setting.key.to_owned(), describe(setting, config))).collect()
}

fn describe(setting: &SettingEntry, config: &Config) -> Description {
    let facts = setting.facts();
    let action = if setting.is_automation() { ACTION_CONFIGURE_AUTOMATION } else { ACTION_CONFIGURE };
    let mut description = Description::from([
        ("value".to_owned(), to_variant(setting.get(config.settings))),
        ("default".to_owned(), to_variant(setting.get(Settings::default()))),
        ("reloads".to_owned(), (facts.effect == SettingEffect::Reload).into()),
        ("action".to_owned(), text(action)),
        ("text".to_owned(), text(facts.text)),
    ]);
    describe_values(facts.values, &mut description);
    let source = match config.source(setting) {
        SettingSource::Default => "default",
        SettingSource::Settings => "settings",
        SettingSource::File(file) => {
            description.insert("file".to_owned(), Str::from(file.display().to_string()).into());
            "file"
        }
    };
    description.insert("source".to_owned(), text(source));
    description
}

fn describe_values(values: SettingType, description: &mut Description) {
    let names = match values {
        SettingType::Number(low, high) => {
            description.insert("minimum".to_owned(), low.into());
            description.insert("maximum".to_owned(), high.into());
            "number"
        }
        SettingType::Flag => "switch",
        SettingType::Mode => {
            description.extend(choices(&Mode::ALL.map(Mode::name)));
            "mode"
        }
        SettingType::SliceTimer => {
            description.extend(choices(&SliceTimer::ALL.map(SliceTimer::name)));
            "choice"
        }
        SettingType::Policy => {
            description.extend(choices(POLICIES));
            "policy"
        }
    };
    description.insert("type".to_owned(), text(names));
}

fn choices(names: &[&'static str]) -> Option<(String, OwnedVariant)> {
    Some(("choices".to_owned(), Variant::new(names.to_vec()).try_into().ok()?))
}

/// Every mode that can be asked for.
#[must_use]
pub fn modes(now: &Published) -> HashMap<String, Description> {
    let is_available = now.state != State::Unsupported;
    let describe = |mode: RequestedMode| {
        let mut description = Description::from([
            ("title".to_owned(), text(mode_title(mode))),
            ("summary".to_owned(), text(mode_summary(mode))),
            ("available".to_owned(), is_available.into()),
        ]);
        if !is_available {
            description.insert("why_not".to_owned(), text(now.why.reason.name()));
        }
        (mode.name().to_owned(), description)
    };
    RequestedMode::ALL.into_iter().map(describe).collect()
}

/// Arguments of the last failure, and which files could not be written.
#[must_use]
pub fn error_arguments(now: &Published) -> Description {
    let mut arguments = details::to_wire(&now.last_error.details);
    if !now.not_stored.is_empty() {
        let files: Vec<_> = now.not_stored.keys().map(|what| Store::file_of(*what)).collect();
        arguments.insert(NOT_STORED_FILES.to_owned(), Str::from(files.join(" ")).into());
    }
    arguments
}

fn text(text: &'static str) -> OwnedVariant {
    Str::from(text).into()
}
