//! The English sentence for each reason. The service sends ids and arguments; clients look the sentence up here and
//! may translate it first: `{name}` stands for the argument of that name.

use crate::details::Details;
use crate::types::{HistoryEvent, Reason};

/// The message of a reason, with places for its arguments.
#[must_use]
pub const fn template(reason: Reason) -> &'static str {
    match reason {
        Reason::Default => "It is the default; nobody chose another mode.",
        Reason::Choice => "It was chosen by hand.",
        Reason::Hold => "The program {application} asked for this mode.",
        Reason::BatteryLow => "The battery is low.",
        Reason::PowerProfileChanged => "The power profile was changed to {profile}.",
        Reason::OnBattery => "The computer runs on battery.",
        Reason::PowerProfile => "It goes with the power profile {profile}.",
        Reason::Disabled => "Scherzo is turned off.",
        Reason::Loading => "The scheduler is being loaded.",
        Reason::BootDelay => "The system has just started; the scheduler is loaded when someone logs in, or soon.",
        Reason::UncleanBoots => {
            "The system went down soon after the scheduler was loaded, twice in a row. Turn Scherzo on to try again."
        }
        Reason::Leftover => "The scheduler is still being unloaded.",
        Reason::EngineKilled => "The engine was killed by signal {signal}.",
        Reason::EngineEnded => "The engine ended by itself with code {code}.",
        Reason::EngineMismatch => {
            "The engine and the service are of different versions ({text}). Install them together, then restart scherzod."
        }
        Reason::EngineMissing => "The engine could not be started: {text}. Reinstall Scherzo.",
        Reason::EngineTimeout => "The engine did not {what} in time.",
        Reason::KernelUnloaded => {
            "Someone asked the kernel to unload the scheduler ({text}). Enable it again when you want it back."
        }
        Reason::KernelError => "The kernel ejected the scheduler: {text}.",
        Reason::Stall => "A task waited too long, so the kernel stepped in: {text}.",
        Reason::LoadFailed => "The scheduler could not be loaded: {text}.",
        Reason::Permission => "The service lacks rights or limits: {text}.",
        Reason::UserSpaceSilent => "The engine does not answer, so the kernel side schedules by itself until it does.",
        Reason::NoSchedExt => {
            "This kernel has no sched_ext. Start a kernel built with CONFIG_SCHED_CLASS_EXT (6.12 or later)."
        }
        Reason::MalformedBtf => {
            "This kernel's type information (BTF) is malformed, so no scheduler can be loaded ({text}). \
             Start another kernel version."
        }
        Reason::ForeignScheduler => {
            "Another scheduler, {ops}, is loaded and is left alone. Stop it (for example `systemctl stop scx scx_loader`), \
             then enable Scherzo."
        }
    }
}

/// The message of an entry of the history. `{why}` stands for the text of the entry's reason.
#[must_use]
pub const fn event_template(event: HistoryEvent) -> &'static str {
    match event {
        HistoryEvent::TurnedOn => "Turned on.",
        HistoryEvent::TurnedOff => "Turned off.",
        HistoryEvent::Loaded => "Loaded in {mode} mode.",
        HistoryEvent::Unloaded => "Unloaded.",
        HistoryEvent::NotLoaded => "Could not be loaded. {why}",
        HistoryEvent::Ejected => "Ended after {seconds} s. {why}",
        HistoryEvent::Configured => "Settings were changed.",
        HistoryEvent::Mode => "The mode is {mode}. {why}",
    }
}

/// An entry of the history as a sentence or two.
#[must_use]
pub fn event_text(event: HistoryEvent, details: &Details) -> String {
    let reason = details.get("reason").and_then(|reason| reason.to_string().parse::<Reason>().ok());
    let why = reason.map(|reason| text(reason, details)).unwrap_or_default();
    fill(&event_template(event).replace("{why}", &why), details).trim_end().to_owned()
}

/// The message with its arguments in place; an argument that is missing leaves a question mark.
#[must_use]
pub fn text(reason: Reason, details: &Details) -> String {
    fill(template(reason), details)
}

/// Puts arguments into a (translated) template.
#[must_use]
pub fn fill(template: &str, details: &Details) -> String {
    let mut message = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        message.push_str(before);
        let Some((name, after)) = after.split_once('}') else { break };
        match details.get(name) {
            Some(detail) => message.push_str(detail.to_string().trim_end_matches('.')),
            None => message.push('?'),
        }
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
    }

    #[test]
    fn every_event_is_a_sentence() {
        for event in HistoryEvent::ALL {
            let text = event_text(*event, &Details::new());
            assert!(text.ends_with('.') && text.starts_with(char::is_uppercase), "{text}");
        }
        let details = Details::from([("mode".into(), "fifo".into()), ("reason".into(), "choice".into())]);
        assert_eq!(event_text(HistoryEvent::Mode, &details), "The mode is fifo. It was chosen by hand.");
    }

    #[test]
    fn full_stops_do_not_double() {
        let details = Details::from([("text".into(), "out of memory.".into())]);
        assert_eq!(text(Reason::LoadFailed, &details), "The scheduler could not be loaded: out of memory.");
    }
}
