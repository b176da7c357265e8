//! Man pages and shell completions, out of the same definitions as the command line itself.

use std::fs;
use std::io;
use std::path::Path;

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;
use scherzo_api::types::{Mode, RequestedMode, Seat};
use scherzo_i18n::{fill, gettext};
use scherzo_model::SliceTimer;
use scherzo_model::settings::{self, SettingType};

use crate::cli::Options;
use crate::failure::{Failure, Kind};
use crate::policies::POLICIES;

/// The words that each setting takes as its value. The generators of clap cannot let values depend on another argument.
fn values_of_settings() -> impl Iterator<Item = (&'static str, String)> {
    settings::all().filter_map(|setting| {
        let values = match setting.values {
            SettingType::Flag => "true false".to_owned(),
            SettingType::Mode => Mode::ALL.map(Mode::name).join(" "),
            SettingType::SliceTimer => SliceTimer::ALL.map(SliceTimer::name).join(" "),
            SettingType::Policy => POLICIES.join(" "),
            SettingType::Number(..) => return None,
        };
        Some((setting.key, values))
    })
}

fn keys() -> String {
    settings::all().map(|setting| setting.key).collect::<Vec<_>>().join(" ")
}

/// A branch of a shell's `case` for each setting.
fn cases(of: impl Fn(&str) -> String) -> String {
    let branches = values_of_settings().map(|(key, values)| format!("        {key}) {} ;;\n", of(&values)));
    branches.collect::<Vec<_>>().concat()
}

/// After `config set KEY` the values of that key; everything else is left to what was generated.
fn with_bash_values(script: &str) -> String {
    let cases = cases(|values| format!(r#"COMPREPLY=($(compgen -W "{values}" -- "$2")); return"#));
    format!(
        r#"{script}
_scherzoctl_values() {{
    if [[ $COMP_CWORD -ge 4 && ${{COMP_WORDS[COMP_CWORD-3]}} == config && ${{COMP_WORDS[COMP_CWORD-2]}} == set ]]; then
        case ${{COMP_WORDS[COMP_CWORD-1]}} in
{cases}        esac
    fi
    _scherzoctl "$@"
}}
complete -F _scherzoctl_values -o bashdefault -o default scherzoctl
"#
    )
}

fn with_zsh_values(script: &str) -> String {
    let cases = cases(|values| format!("compadd -- {values}"));
    // The generated script offers files for the value; this replaces them by the values of the key before it.
    let place = "':value -- Its new value:_default'";
    let ours = script.replace(place, "':value -- Its new value:_scherzoctl_values'");
    let function = format!("_scherzoctl_values() {{\n    case ${{words[CURRENT-1]}} in\n{cases}    esac\n}}\n");
    ours.replacen("\nif [ \"$funcstack[1]\"", &format!("\n{function}\nif [ \"$funcstack[1]\""), 1)
}

/// For fish only values of options are generated.
fn with_fish_values(script: &str) -> String {
    let using = |command: &str, condition: &str, values: &str| {
        let condition = format!("__fish_scherzoctl_using_subcommand {command}{condition}");
        format!("complete -c scherzoctl -n '{condition}' -f -a '{values}'\n")
    };
    let mut text = script.to_owned();
    text += &using("mode", "", &RequestedMode::ALL.map(RequestedMode::name).join(" "));
    text += &using("preemption", "", "on off");
    text += &using("engine", "", &Seat::ALL.map(Seat::name).join(" "));
    let keys = keys();
    let no_key = format!("; and __fish_seen_subcommand_from get set unset; and not __fish_seen_subcommand_from {keys}");
    text += &using("config", &no_key, &keys);
    for (key, values) in values_of_settings() {
        let this = format!("; and __fish_seen_subcommand_from set; and __fish_seen_subcommand_from {key}");
        text += &using("config", &this, &values);
    }
    text
}

/// Writes all of them into a directory.
pub(crate) fn write(directory: &Path) -> Result<(), Failure> {
    try_write(directory).map_err(|error| {
        let sentence = gettext("Cannot write into {directory}: {error}.");
        Failure::new(Kind::Failure, fill(&sentence, &[("directory", &directory.display()), ("error", &error)]))
    })
}

fn try_write(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Options::command(), directory)?;
    for shell in Shell::value_variants() {
        let file = clap_complete::generate_to(*shell, &mut Options::command(), "scherzoctl", directory)?;
        let complete: fn(&str) -> String = match shell {
            Shell::Bash => with_bash_values,
            Shell::Zsh => with_zsh_values,
            Shell::Fish => with_fish_values,
            _ => continue,
        };
        fs::write(&file, complete(&fs::read_to_string(&file)?))?;
    }
    Ok(())
}
