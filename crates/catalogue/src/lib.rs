//! The sentence for each reason, event and mode. The service sends ids and arguments; clients look the sentence up here.
//! `{name}` stands for the argument of that name.
//!
//! Sentences are English, until a program says with [`translate_with`] who translates them.
//!
//! Architecture invariant: nothing of the bus here, so that what decides without one can name its reasons.

pub mod details;
pub mod types;

use std::borrow::Cow;
use std::sync::OnceLock;

use crate::details::Details;
use crate::types::{HistoryEvent, Reason, RequestedMode, Seat};

/// From English into the language of the person.
pub type Translate = fn(&str) -> String;

static TRANSLATE: OnceLock<Translate> = OnceLock::new();

/// Translates from now on whatever this module says. The first call counts.
pub fn translate_with(translate: Translate) {
    // Two calls are a mistake that costs nothing.
    let _ = TRANSLATE.set(translate);
}

/// A message of this module in the language of the person.
#[must_use]
pub fn translated(text: &'static str) -> Cow<'static, str> {
    TRANSLATE.get().map_or(Cow::Borrowed(text), |translate| translate(text).into())
}

/// Marks a text for translation where it cannot be translated yet.
#[must_use]
pub const fn gettext_noop(text: &'static str) -> &'static str {
    text
}

/// The service's refusal while it cannot ask who may do something. Unlike others it is no answer about the person.
pub const NO_POLKIT: &str =
    gettext_noop("Only root may do this, because polkit does not answer. Use sudo, or start polkit.");

/// Follows the last failure while the service cannot store something.
pub const NOT_STORED: &str = gettext_noop(
    "The service cannot write its files: what was changed is lost when it ends. `scherzoctl doctor` says why.",
);
/// Follows a failure after which nothing is tried any more.
pub const GIVEN_UP: &str = gettext_noop("It is not tried again until you enable Scherzo again.");
/// The argument that says so.
pub const GIVEN_UP_MARK: &str = "given_up";
/// The id of something that could not be stored where there was no other failure.
pub const NOT_STORED_ID: &str = "not-stored";
/// The argument of a failure that says which files could not be written.
pub const NOT_STORED_FILES: &str = "not_stored";

/// What a mode is called.
#[must_use]
pub const fn mode_title(mode: RequestedMode) -> &'static str {
    match mode {
        RequestedMode::Auto => gettext_noop("Automatic"),
        RequestedMode::Mode(mode) => mode.title(),
    }
}

/// What a mode is for, in one line.
#[must_use]
pub const fn mode_summary(mode: RequestedMode) -> &'static str {
    match mode {
        RequestedMode::Auto => gettext_noop("Follows power, programs and your settings"),
        RequestedMode::Mode(mode) => mode.summary(),
    }
}

/// What a power profile is called, as on desktops; others by their id.
#[must_use]
pub fn power_profile_title(profile: &str) -> Cow<'_, str> {
    match profile {
        "power-saver" => translated(gettext_noop("Power Saver")),
        "balanced" => translated(gettext_noop("Balanced")),
        "performance" => translated(gettext_noop("Performance")),
        _ => Cow::Borrowed(profile),
    }
}

/// The message of [`Reason::Hold`] for whoever may know which program it is.
const APPLICATION_HOLDS: &str = gettext_noop("The program {application} asked for this mode.");

/// The message of a reason, with places for its arguments.
#[must_use]
pub const fn template(reason: Reason) -> &'static str {
    match reason {
        Reason::Default => gettext_noop("It is the default; nobody chose another mode."),
        Reason::Choice => gettext_noop("It was chosen by hand."),
        Reason::Hold => gettext_noop("A program asked for this mode."),
        Reason::BatteryLow => gettext_noop("The battery is low."),
        Reason::PowerProfileChanged => gettext_noop("The power profile was changed to {profile}."),
        Reason::OnBattery => gettext_noop("The computer runs on battery."),
        Reason::PowerProfile => gettext_noop("It goes with the power profile {profile}."),
        Reason::Disabled => gettext_noop("Scherzo is turned off."),
        Reason::Loading => gettext_noop("The scheduler is being loaded."),
        Reason::BootDelay => {
            gettext_noop("The system has just started; the scheduler is loaded when someone logs in, or soon.")
        }
        Reason::UncleanBoots => gettext_noop(
            "The system went down soon after the scheduler was loaded, twice in a row. Turn Scherzo on to try again.",
        ),
        Reason::Leftover => gettext_noop("The scheduler is still being unloaded."),
        Reason::EngineKilled => gettext_noop("The engine was killed by signal {signal}."),
        Reason::EngineCrashed => gettext_noop("The engine crashed with signal {signal}."),
        Reason::EngineEnded => gettext_noop("The engine ended by itself with code {code}."),
        Reason::EngineMismatch => gettext_noop(
            "The engine and the service are of different versions ({text}). Install them together, then restart scherzod.",
        ),
        Reason::EngineMissing => gettext_noop("The engine could not be started: {text}. Reinstall Scherzo."),
        Reason::EngineTimeout => gettext_noop("The engine did not {what} in time."),
        Reason::KernelUnloaded => gettext_noop(
            "Someone asked the kernel to unload the scheduler ({text}). Enable it again when you want it back.",
        ),
        Reason::KernelError => gettext_noop("The kernel ejected the scheduler: {text}."),
        Reason::Stall => gettext_noop("A task waited too long, so the kernel stepped in: {text}."),
        Reason::RtStarvation => gettext_noop(
            "Real-time programs held the CPUs for so long that the kernel stepped in: {text}. Scherzo is back once a CPU is \
             free.",
        ),
        Reason::ReenqueueLimit => gettext_noop(
            "A task was put back too often without running, so the kernel ejected the scheduler: {text}. Please report it.",
        ),
        Reason::RescueOverload => gettext_noop(
            "The kernel had to run too many tasks in the scheduler's place and ejected it: {text}. Please report it.",
        ),
        Reason::LoadFailed => gettext_noop("The scheduler could not be loaded: {text}."),
        Reason::Permission => gettext_noop("The service lacks rights or limits: {text}."),
        Reason::Quarantined => gettext_noop(
            "Scherzo {version} failed too often on Linux {kernel} and is not loaded there any more. Turn Scherzo on to \
             try again, or start another kernel. The last failure: {cause}.",
        ),
        Reason::UserSpaceSilent => {
            gettext_noop("The engine does not answer, so the kernel side schedules by itself until it does.")
        }
        Reason::NoSchedExt => gettext_noop(
            "This kernel has no sched_ext. Start a kernel built with CONFIG_SCHED_CLASS_EXT (6.12 or later).",
        ),
        Reason::MalformedBtf => gettext_noop(
            "This kernel's type information (BTF) is malformed, so no scheduler can be loaded: it shows a hidden argument \
             of {text}. It was built with pahole older than 1.26. Start another build or another version.",
        ),
        Reason::ForeignScheduler => gettext_noop(
            "Another scheduler, {ops}, is loaded and is left alone. Stop it (for example `systemctl stop scx scx_loader`), \
             then enable Scherzo.",
        ),
    }
}

/// The message of an entry of the history. `{why}` stands for the text of the entry's reason.
#[must_use]
pub const fn event_template(event: HistoryEvent) -> &'static str {
    match event {
        HistoryEvent::TurnedOn => gettext_noop("Turned on."),
        HistoryEvent::TurnedOff => gettext_noop("Turned off."),
        HistoryEvent::Loaded => gettext_noop("Loaded in {mode} mode."),
        HistoryEvent::Unloaded => gettext_noop("Unloaded."),
        HistoryEvent::NotLoaded => gettext_noop("Could not be loaded. {why}"),
        HistoryEvent::Ejected => gettext_noop("Ended after {seconds} s. {why}"),
        HistoryEvent::Reverted => gettext_noop("What was new ({settings}) was taken back. {why}"),
        HistoryEvent::Quarantined => gettext_noop("No longer tried. {why}"),
        HistoryEvent::QuarantineLifted => gettext_noop("It may be tried again."),
        HistoryEvent::Configured => gettext_noop("Settings were changed."),
        HistoryEvent::Mode => gettext_noop("The mode is {mode}. {why}"),
        // Translators: {engine} is where decisions are made: "Kernel" or "User Space".
        HistoryEvent::Engine => gettext_noop("The engine is {engine}."),
    }
}

/// An entry of the history as a sentence or two.
#[must_use]
pub fn event_text(event: HistoryEvent, details: &Details) -> String {
    let reason = details.get("reason").and_then(|reason| reason.to_string().parse::<Reason>().ok());
    fill_with(&translated(event_template(event)), |name| match name {
        "why" => Some(reason.map(|reason| text(reason, details)).unwrap_or_default()),
        _ => argument(name, details),
    })
    .trim_end()
    .to_owned()
}

/// The message with its arguments in place; an argument that is missing leaves a question mark.
#[must_use]
pub fn text(reason: Reason, details: &Details) -> String {
    let template = match reason {
        Reason::Hold if details.contains_key("application") => APPLICATION_HOLDS,
        _ => template(reason),
    };
    fill_with(&translated(template), |name| argument(name, details))
}

/// The argument of a finding that names its text: the finding's id, a slash, and which of the texts with that id it is.
pub const TEXT_ID: &str = "text_id";

/// The last failure, whose id is that of a reason, `reverted`, or `not-stored`, and whether something could not be stored.
/// Of an id that nobody knows, nothing is said.
#[must_use]
pub fn error_text(id: &str, details: &Details) -> Option<String> {
    let failure = match id {
        NOT_STORED_ID => None,
        _ if id == HistoryEvent::Reverted.name() => Some(event_text(HistoryEvent::Reverted, details)),
        _ => Some(text(id.parse().ok()?, details)),
    };
    let sequel = |mark: &str, sentence| details.contains_key(mark).then(|| translated(sentence).into_owned());
    let sequels = [sequel(GIVEN_UP_MARK, GIVEN_UP), sequel(NOT_STORED_FILES, NOT_STORED)];
    Some(failure.into_iter().chain(sequels.into_iter().flatten()).collect::<Vec<_>>().join(" "))
}

/// A finding of `Diagnose`, which comes as an English sentence: its arguments are taken out, the rest is translated, and
/// they are put in again. Of a sentence that nobody knows, nothing changes.
#[must_use]
pub fn finding_text(english: &str, details: &Details) -> String {
    let Some(translate) = TRANSLATE.get() else { return english.to_owned() };
    let template = template_of(english, details);
    let translated = translate(&template);
    if translated == template { english.to_owned() } else { fill_with(&translated, |name| argument(name, details)) }
}

/// The sentence with names in the places of its arguments, the longest first: a short one may be part of it.
fn template_of(english: &str, details: &Details) -> String {
    let mut values: Vec<_> = details.iter().map(|(name, value)| (value.to_string(), name)).collect();
    values.retain(|(value, name)| !value.is_empty() && *name != TEXT_ID);
    values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    values.iter().fold(english.to_owned(), |text, (value, name)| text.replace(value, &format!("{{{name}}}")))
}

/// An argument as people know it.
#[must_use]
pub fn argument(name: &str, details: &Details) -> Option<String> {
    let value = details.get(name)?.to_string();
    Some(match name {
        "mode" => value.parse().map_or(value, |mode| translated(mode_title(mode)).into_owned()),
        "engine" => Seat::from_name(&value).map_or(value, |seat| translated(seat.title()).into_owned()),
        "profile" => power_profile_title(&value).into_owned(),
        "cause" => cause(&value, details),
        _ => value.trim_end_matches('.').to_owned(),
    })
}

/// A reason within a reason, with arguments of its own.
fn cause(id: &str, details: &Details) -> String {
    match id.parse() {
        Ok(reason) if reason != Reason::Quarantined => text(reason, details).trim_end_matches('.').to_owned(),
        _ => id.to_owned(),
    }
}

/// Puts arguments into a (translated) template; an argument that is missing leaves a question mark.
#[must_use]
pub fn fill_with(template: &str, argument: impl Fn(&str) -> Option<String>) -> String {
    let mut message = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        message.push_str(before);
        let Some((name, after)) = after.split_once('}') else { break };
        message.push_str(argument(name).as_deref().unwrap_or("?"));
        rest = after;
    }
    message.push_str(rest);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_a_sentence() {
        for reason in Reason::ALL {
            let template = template(*reason);
            assert!(template.ends_with('.') && template.starts_with(char::is_uppercase), "{template}");
        }
    }

    #[test]
    fn arguments_find_their_place() {
        let details = Details::from([("ops".into(), "lavd_1.0".into())]);
        assert!(text(Reason::ForeignScheduler, &details).starts_with("Another scheduler, lavd_1.0, is loaded"));
        assert_eq!(text(Reason::EngineKilled, &Details::new()), "The engine was killed by signal ?.");
        assert_eq!(text(Reason::Hold, &Details::new()), "A program asked for this mode.");
        let details = Details::from([("application".into(), "make".into())]);
        assert_eq!(text(Reason::Hold, &details), "The program make asked for this mode.");
    }

    #[test]
    fn every_event_is_a_sentence() {
        for event in HistoryEvent::ALL {
            let text = event_text(*event, &Details::new());
            assert!(text.ends_with('.') && text.starts_with(char::is_uppercase), "{text}");
        }
        let details = Details::from([("mode".into(), "fifo".into()), ("reason".into(), "choice".into())]);
        assert_eq!(
            event_text(HistoryEvent::Mode, &details),
            "The mode is First Come, First Served. It was chosen by hand."
        );
    }

    #[test]
    fn engines_are_called_as_people_know_them() {
        let details = Details::from([("engine".into(), "user".into()), ("uid".into(), 1000.into())]);
        assert_eq!(event_text(HistoryEvent::Engine, &details), "The engine is User Space.");
    }

    #[test]
    fn sentences_give_their_arguments_back() {
        let mut details = Details::from([("ops".into(), "lavd_6.18.1".into()), ("release".into(), "6.18.1".into())]);
        details.insert(TEXT_ID.into(), "runs".into());
        assert_eq!(template_of("On 6.18.1 runs lavd_6.18.1.", &details), "On {release} runs {ops}.");
        assert_eq!(finding_text("On 6.18.1 runs lavd_6.18.1.", &details), "On 6.18.1 runs lavd_6.18.1.");
    }

    #[test]
    fn the_last_failure_is_a_sentence_with_what_could_not_be_stored() {
        let mut details = Details::from([("signal".into(), 9.into())]);
        assert_eq!(error_text("engine-killed", &details).unwrap(), "The engine was killed by signal 9.");
        details.insert(NOT_STORED_FILES.into(), "/var/lib/scherzo/state.toml".into());
        assert_eq!(error_text("not-stored", &details).unwrap(), NOT_STORED);
        assert_eq!(
            error_text("engine-killed", &details).unwrap(),
            format!("The engine was killed by signal 9. {NOT_STORED}")
        );
        details =
            [("settings", "mode"), ("reason", "stall"), ("text", "cc1")].map(|(n, v)| (n.into(), v.into())).into();
        assert!(error_text("reverted", &details).unwrap().starts_with("What was new (mode) was taken back. A task"));
        assert_eq!(error_text("of-tomorrow", &details), None);
    }

    #[test]
    fn full_stops_do_not_double() {
        let details = Details::from([("text".into(), "out of memory.".into())]);
        assert_eq!(text(Reason::LoadFailed, &details), "The scheduler could not be loaded: out of memory.");
    }
}
