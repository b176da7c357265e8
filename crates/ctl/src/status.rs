//! What runs, and why, in prose.

use std::fmt::Display;

use scherzo_api::Snapshot;
use scherzo_api::details::{Detail, Details};
use scherzo_api::types::{RequestedMode, State};
use scherzo_i18n::{fill, gettext};
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use crate::client::Client;
use crate::failure::{Failure, UNREACHABLE};
use crate::output::{self, Output};

/// Labels of the rows below the headline are at least this wide.
const NR_LABEL_COLUMNS: usize = 8;

/// `scherzoctl status`.
pub(crate) async fn show(client: &Client, output: &Output) -> Result<(), Failure> {
    if !client.is_served().await? {
        if output.json {
            output::document(document(None));
        } else {
            output::line(&gettext("The Scherzo service is not running, so Scherzo schedules nothing."));
            output::line(&gettext("`scherzoctl enable` starts it and turns Scherzo on."));
        }
        return Err(Failure::told(UNREACHABLE));
    }
    let snapshot = client.snapshot().await?;
    if output.json {
        output::document(document(Some(&snapshot)));
    } else {
        output::line(&prose(&snapshot, |state, sentence| output.mark(state, sentence)));
    }
    Ok(())
}

/// After a change: one line with the outcome.
pub(crate) async fn confirm(client: &Client, output: &Output) -> Result<(), Failure> {
    let snapshot = client.snapshot().await?;
    if output.json {
        output::document(document(Some(&snapshot)));
    } else {
        output::line(&headline(&snapshot, |_, sentence| sentence.replace('*', "")));
    }
    Ok(())
}

/// `scherzoctl mode`.
pub(crate) async fn show_mode(client: &Client, output: &Output) -> Result<(), Failure> {
    let Snapshot { mode, requested_mode, .. } = client.snapshot().await?;
    if output.json {
        let fields = [("mode".to_owned(), json!(mode)), ("requested_mode".to_owned(), json!(requested_mode))];
        output::document(Map::from_iter(fields));
    } else if requested_mode == RequestedMode::Auto.name() {
        output::line(&fill(&gettext("{mode} (chosen automatically)"), &[("mode", &mode)]));
    } else {
        output::line(&mode);
    }
    Ok(())
}

/// `scherzoctl preemption`.
pub(crate) async fn show_preemption(client: &Client, output: &Output) -> Result<(), Failure> {
    let preemption = client.snapshot().await?.preemption;
    if output.json {
        output::document(Map::from_iter([("preemption".to_owned(), json!(preemption))]));
    } else {
        output::line(&if preemption { gettext("on") } else { gettext("off") });
    }
    Ok(())
}

/// All that is to be said, without colour.
pub(crate) fn plain(snapshot: &Snapshot) -> String {
    prose(snapshot, |_, sentence| sentence.replace('*', ""))
}

fn headline(snapshot: &Snapshot, mark: impl Fn(Option<State>, &str) -> String) -> String {
    let state = snapshot.known_state();
    // Translators: the argument is one of interactive, fifo and low-power, which people type.
    let on = gettext("{mode} mode, preemption on");
    // Translators: the argument is one of interactive, fifo and low-power, which people type.
    let off = gettext("{mode} mode, preemption off");
    let how = fill(if snapshot.preemption { &on } else { &off }, &[("mode", &snapshot.mode)]);
    // Translators: the part between asterisks is shown in colour. {how} is "interactive mode, preemption on" or similar.
    let sentence = match state {
        Some(State::Running) => gettext("Scherzo is *running* in {how}."),
        Some(State::Degraded) => gettext("Scherzo is running, but *degraded*, in {how}."),
        Some(State::Starting) => gettext("Scherzo is *starting*: {how}."),
        Some(State::Stopped) => gettext("Scherzo is *turned off*; the kernel's own scheduler runs. When on: {how}."),
        Some(State::Fallback) => gettext("Scherzo is on, but *fell back*: the kernel's own scheduler runs."),
        Some(State::Unsupported) => gettext("Scherzo *cannot run* on this kernel; the kernel's own scheduler runs."),
        Some(State::Foreign) => gettext("*Another scheduler* is loaded: the scheduler {ops}."),
        None => gettext("Scherzo is {state}: {how}."),
    };
    let arguments: [(&str, &dyn Display); 3] =
        [("how", &how), ("ops", &snapshot.kernel_ops), ("state", &snapshot.state)];
    mark(state, &fill(&sentence, &arguments))
}

fn prose(snapshot: &Snapshot, mark: impl Fn(Option<State>, &str) -> String) -> String {
    let state = snapshot.known_state();
    let loaded = if snapshot.kernel_ops.is_empty() {
        gettext("no sched_ext scheduler is loaded")
    } else {
        snapshot.kernel_ops.clone()
    };
    let mut rows = vec![(gettext("Why:"), snapshot.why()), (gettext("Kernel:"), loaded)];
    rows.extend(snapshot.holds.iter().map(held));
    // In the other states the reason is the last error.
    let is_past = !matches!(state, Some(State::Fallback | State::Unsupported | State::Foreign));
    if is_past && !snapshot.last_error.is_empty() {
        rows.push((gettext("Lately:"), snapshot.last_error.clone()));
    }
    let width = rows.iter().map(|(label, _)| label.width()).max().unwrap_or_default().max(NR_LABEL_COLUMNS);
    let mut lines = vec![headline(snapshot, mark)];
    lines.extend(rows.iter().map(|(label, text)| format!("{} {text}", output::left(label, width))));
    if state == Some(State::Stopped) {
        lines.push(gettext("`scherzoctl enable` turns it on."));
    }
    lines.join("\n")
}

fn held(hold: &Details) -> (String, String) {
    let part = |name: &str| hold.get(name).map(Detail::to_string).unwrap_or_default();
    let reason = hold.get("reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    let application = format!("{}{reason}", part("application"));
    let arguments: [(&str, &dyn Display); 3] =
        [("mode", &part("mode")), ("application", &application), ("cookie", &part("cookie"))];
    (gettext("Held:"), fill(&gettext("{mode} by {application}, hold {cookie}"), &arguments))
}

fn document(snapshot: Option<&Snapshot>) -> Map<String, Value> {
    let Some(now) = snapshot else { return Map::from_iter([("reachable".to_owned(), false.into())]) };
    let fields = json!({
        "reachable": true,
        "enabled": now.enabled,
        "state": now.state,
        "mode": now.mode,
        "requested_mode": now.requested_mode,
        "preemption": now.preemption,
        "reason": now.reason,
        "reason_args": arguments(&now.reason_args),
        "reason_text": now.why(),
        "engine": now.engine,
        "kernel_ops": now.kernel_ops,
        "last_error": now.last_error,
        "on_battery": now.on_battery,
        "power_profile": now.power_profile,
        "holds": now.holds.iter().map(arguments).collect::<Vec<_>>(),
        "version": now.version,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(crate) fn arguments(details: &Details) -> Map<String, Value> {
    let value = |detail: &Detail| match detail {
        Detail::Number(number) => json!(number),
        Detail::Text(text) => json!(text),
    };
    details.iter().map(|(name, detail)| (name.clone(), value(detail))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_api::types::Reason;

    fn plain(_: Option<State>, sentence: &str) -> String {
        sentence.replace('*', "")
    }

    fn snapshot(state: State, reason: Reason) -> Snapshot {
        Snapshot {
            state: state.name().into(),
            reason: reason.name().into(),
            mode: "interactive".into(),
            requested_mode: "auto".into(),
            preemption: true,
            ..Snapshot::default()
        }
    }

    #[test]
    fn running_is_told_with_its_reason() {
        let now = Snapshot { kernel_ops: "scherzo_0".into(), ..snapshot(State::Running, Reason::Default) };
        assert_eq!(
            prose(&now, plain),
            "Scherzo is running in interactive mode, preemption on.\n\
             Why:     It is the default; nobody chose another mode.\n\
             Kernel:  scherzo_0"
        );
        let hold = [("mode", "fifo".into()), ("application", "make".into()), ("cookie", Detail::Number(3))];
        let hold = hold.map(|(name, detail)| (name.to_owned(), detail)).into();
        let text = prose(&Snapshot { holds: vec![hold], ..now }, plain);
        assert!(text.ends_with("\nHeld:    fifo by make, hold 3"), "{text}");
    }

    #[test]
    fn every_state_has_a_sentence() {
        for state in State::ALL {
            let text = headline(&snapshot(*state, Reason::Disabled), plain);
            assert!(text.ends_with('.') && text.len() > 20, "{text}");
        }
        let unknown = Snapshot { state: "dreaming".into(), ..snapshot(State::Running, Reason::Default) };
        assert!(headline(&unknown, plain).contains("dreaming"));
    }

    #[test]
    fn documents_say_whether_the_service_runs() {
        assert_eq!(document(None)["reachable"], false);
        let now = snapshot(State::Stopped, Reason::Disabled);
        assert_eq!(document(Some(&now))["reason_text"], "Scherzo is turned off.");
    }
}
