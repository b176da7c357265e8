//! The settings file that is installed: every setting, commented out, with its default.

use std::fmt::Write as _;

use scherzo_model::settings::GROUPS;
use scherzo_model::{Mode, PolicyId, SliceTimer};
use scherzo_policy::POLICIES;

use super::wrapped;

const WIDTH: usize = 118;

const HEAD: &str = "\
# Settings of Scherzo, with their defaults. Copy this file to /etc/scherzo/, remove the # of a line to change it, then
# `systemctl reload scherzod`.
# Files in scherzo.toml.d/ that end in .toml count more than this one, in the order of their names. What is set here
# cannot be changed with `scherzoctl config set`.
";

trait Toml {
    fn toml(self) -> String;
}

impl Toml for u32 {
    fn toml(self) -> String {
        self.to_string()
    }
}

impl Toml for bool {
    fn toml(self) -> String {
        self.to_string()
    }
}

impl Toml for Mode {
    fn toml(self) -> String {
        format!("{:?}", self.name())
    }
}

impl Toml for SliceTimer {
    fn toml(self) -> String {
        format!("{:?}", self.name())
    }
}

impl Toml for PolicyId {
    fn toml(self) -> String {
        format!("{:?}", POLICIES[usize::from(self.0)])
    }
}

macro_rules! defaults {
    (
        scheduler { $($heading:literal { $(
            $key:ident: $type:ty = $default:expr, $values:ident $(($low:literal, $high:literal))?, $effect:ident, $text:literal;
        )+ })+ }
        service { $($service_heading:literal { $(
            $service_key:ident: $service_type:ty = $service_default:expr,
            $service_values:ident $(($service_low:literal, $service_high:literal))?, $right:ident, $service_text:literal;
        )+ })+ }
    ) => {
        /// The default of a setting, as TOML.
        fn default_of(key: &str) -> String {
            match key {
                $($(stringify!($key) => <$type as Toml>::toml($default),)+)+
                $($(stringify!($service_key) => <$service_type as Toml>::toml($service_default),)+)+
                _ => unreachable!("{key} is a setting"),
            }
        }
    };
}

scherzo_model::for_each_setting!(defaults);

/// The whole file.
pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    for group in GROUPS {
        text.push('\n');
        comment(&mut text, group.heading);
        text.push('\n');
        for setting in group.settings {
            comment(&mut text, setting.text);
            let _ = writeln!(text, "#{} = {}", setting.key, default_of(setting.key));
        }
    }
    text
}

fn comment(text: &mut String, meaning: &str) {
    for line in wrapped(meaning, WIDTH) {
        let _ = writeln!(text, "# {line}");
    }
}
