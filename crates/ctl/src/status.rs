//! What runs, and why, in prose.

use std::fmt::Display;

use scherzo_api::details::{Detail, Details};
use scherzo_api::types::{RequestedMode, State};
use scherzo_api::{Setting, Snapshot};
use scherzo_i18n::{fill, gettext};
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use crate::client::CommandClient;
use crate::doctor::{self, DoctorLine};
use crate::failure::{Failure, Kind};
use crate::output::{self, Output};
use crate::patience;
use crate::times;

/// Findings about control groups, and the one that is not worth a row.
const CONTROL_GROUPS: &str = "control-groups";
const NO_GROUP_IS_SET: &str = "control-groups/none-set";
/// Labels of the rows below the headline are at least this wide.
const NR_LABEL_COLUMNS: usize = 8;

/// `scherzoctl status`.
pub(crate) async fn show(client: &CommandClient, output: &Output) -> Result<(), Failure> {
    let snapshot = match patience::read(client.snapshot()).await {
        Ok(snapshot) => snapshot,
        Err(failure) => return Err(tell_absence(failure, output)),
    };
    let groups = control_groups(client).await;
    if output.json {
        let mut document = document(&snapshot);
        document.insert("control_groups".to_owned(), groups.iter().map(DoctorLine::document).collect());
        output::document(document);
    } else {
        let is_set = |line: &&DoctorLine| line.text_id != NO_GROUP_IS_SET;
        let texts: Vec<_> = groups.iter().filter(is_set).map(|line| line.text.as_str()).collect();
        output::line(&prose(&snapshot, &texts, |state, sentence| output.mark(state, sentence)));
    }
    Ok(())
}

/// What the service finds about control groups; nothing from one that is too old or too busy to say.
async fn control_groups(client: &CommandClient) -> Vec<DoctorLine> {
    let mut lines = doctor::ask(client).await.unwrap_or_default();
    lines.retain(|line| line.id == CONTROL_GROUPS);
    lines
}

/// Prints as the status that the service is not running or does not answer.
fn tell_absence(failure: Failure, output: &Output) -> Failure {
    if output.json {
        let fields = [("reachable".to_owned(), false.into()), ("error".to_owned(), failure.document())];
        output::document(Map::from_iter(fields));
    } else if failure.kind() == Kind::Unreachable {
        output::line(&gettext("The Scherzo service is not running, so Scherzo schedules nothing."));
        output::line(&gettext("`scherzoctl enable` starts it and turns Scherzo on."));
    } else {
        return failure;
    }
    failure.without_words()
}

/// `scherzoctl is-running`.
pub(crate) async fn is_running(session: bool, output: &Output, is_quiet: bool) -> Result<(), Failure> {
    let answer = async { patience::read(CommandClient::connect(session).await?.snapshot()).await };
    let snapshot = answer.await.map_err(|failure| if is_quiet { failure.without_words() } else { failure })?;
    let running = running_code(snapshot.known_state());
    if output.json {
        let fields = [("state", json!(snapshot.state)), ("running", json!(running.is_ok()))];
        output::document(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect());
    } else if !is_quiet {
        output::line(&snapshot.state);
    }
    running.map_err(Failure::told)
}

/// Success if Scherzo's scheduler is loaded, which it is while degraded too; else the kind of failure for the exit code.
fn running_code(state: Option<State>) -> Result<(), Kind> {
    match state {
        Some(State::Running | State::Degraded) => Ok(()),
        Some(State::Starting) => Err(Kind::Busy),
        Some(State::Stopped) => Err(Kind::NotRunning),
        Some(State::Fallback) => Err(Kind::FellBack),
        Some(State::Unsupported) => Err(Kind::NotSupported),
        Some(State::Foreign) => Err(Kind::Conflict),
        None => Err(Kind::Failure),
    }
}

/// After a change: one line with the outcome.
pub(crate) async fn confirm(client: &CommandClient, output: &Output) -> Result<(), Failure> {
    let snapshot = patience::read(client.snapshot()).await?;
    if output.json {
        output::document(document(&snapshot));
    } else {
        output::line(&headline(&snapshot, |_, sentence| sentence.replace('*', "")));
    }
    Ok(())
}

/// `scherzoctl mode`.
pub(crate) async fn show_mode(client: &CommandClient, output: &Output) -> Result<(), Failure> {
    let Snapshot { mode, requested_mode, .. } = patience::read(client.snapshot()).await?;
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

/// `scherzoctl engine`.
pub(crate) async fn show_engine(client: &CommandClient, output: &Output) -> Result<(), Failure> {
    let engine = patience::read(client.snapshot()).await?.engine;
    if output.json {
        output::document(Map::from_iter([("engine".to_owned(), json!(engine))]));
    } else {
        output::line(&engine);
    }
    Ok(())
}

/// `scherzoctl preemption`.
pub(crate) async fn show_preemption(client: &CommandClient, output: &Output) -> Result<(), Failure> {
    let preemption = patience::read(client.snapshot()).await?.preemption;
    if output.json {
        output::document(Map::from_iter([("preemption".to_owned(), json!(preemption))]));
    } else {
        output::line(&if preemption { gettext("on") } else { gettext("off") });
    }
    Ok(())
}

/// All that is to be said, without colour.
pub(crate) fn plain(snapshot: &Snapshot) -> String {
    prose(snapshot, &[], |_, sentence| sentence.replace('*', ""))
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

fn prose(snapshot: &Snapshot, groups: &[&str], mark: impl Fn(Option<State>, &str) -> String) -> String {
    let state = snapshot.known_state();
    let loaded = if snapshot.kernel_ops.is_empty() {
        gettext("no sched_ext scheduler is loaded")
    } else {
        snapshot.kernel_ops.clone()
    };
    let mut rows = vec![(gettext("Why:"), snapshot.why()), (gettext("Kernel:"), loaded)];
    if !snapshot.engine.is_empty() {
        rows.push((gettext("Engine:"), snapshot.engine.clone()));
    }
    if snapshot.requested_mode_until != 0 {
        // Translators: when the choice of a mode ends; a date and a time follow.
        rows.push((gettext("Until:"), times::text(snapshot.requested_mode_until, false)));
    }
    rows.extend(snapshot.holds.iter().map(held));
    if !snapshot.foreground.is_empty() {
        // Translators: the application in front; its control group follows.
        rows.push((gettext("Front:"), in_front(snapshot)));
    }
    // Translators: control groups, whose weights and limits are told on this row.
    rows.extend(groups.iter().map(|text| (gettext("Groups:"), (*text).to_owned())));
    // In the other states the reason is the last error.
    let is_past = !matches!(state, Some(State::Fallback | State::Unsupported | State::Foreign));
    if is_past && !snapshot.last_error.is_empty() {
        rows.push((gettext("Lately:"), snapshot.error_text()));
    }
    let width = rows.iter().map(|(label, _)| label.width()).max().unwrap_or_default().max(NR_LABEL_COLUMNS);
    let mut lines = vec![headline(snapshot, mark)];
    lines.extend(rows.iter().map(|(label, text)| format!("{} {text}", output::left(label, width))));
    if state == Some(State::Stopped) {
        lines.push(gettext("`scherzoctl enable` turns it on."));
    }
    lines.join("\n")
}

/// The control group in front, and how much more it weighs, if Scherzo has a say in that.
fn in_front(snapshot: &Snapshot) -> String {
    let group = &snapshot.foreground;
    let is_loaded = matches!(snapshot.known_state(), Some(State::Running | State::Degraded));
    match snapshot.settings.get("foreground_percent").filter(|_| is_loaded) {
        Some(Setting::Number(percent)) => {
            // Translators: {group} is the path of a control group.
            let sentence = gettext("{group}, which counts for {percent} % of its weight");
            fill(&sentence, &[("group", group), ("percent", percent)])
        }
        _ => group.clone(),
    }
}

fn held(hold: &Details) -> (String, String) {
    let part = |name: &str| hold.get(name).map(Detail::to_string).unwrap_or_default();
    let reason = hold.get("reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    let application = match hold.get("application") {
        Some(application) => format!("{application}{reason}"),
        None => gettext("a program of another user"),
    };
    let arguments: [(&str, &dyn Display); 3] =
        [("mode", &part("mode")), ("application", &application), ("cookie", &part("cookie"))];
    (gettext("Held:"), fill(&gettext("{mode} by {application}, hold {cookie}"), &arguments))
}

fn document(now: &Snapshot) -> Map<String, Value> {
    let fields = json!({
        "reachable": true,
        "enabled": now.enabled,
        "state": now.state,
        "mode": now.mode,
        "requested_mode": now.requested_mode,
        "requested_mode_until": now.requested_mode_until,
        "preemption": now.preemption,
        "reason": now.reason,
        "reason_args": arguments(&now.reason_args),
        "reason_text": now.why(),
        "engine": now.engine,
        "kernel_ops": now.kernel_ops,
        "last_error": now.last_error,
        "last_error_id": now.last_error_id,
        "last_error_args": arguments(&now.last_error_args),
        "on_battery": now.on_battery,
        "power_profile": now.power_profile,
        "holds": now.holds.iter().map(arguments).collect::<Vec<_>>(),
        "foreground": now.foreground,
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
        let (kernel_ops, engine) = ("scherzo_0".into(), "kernel".into());
        let now = Snapshot { kernel_ops, engine, ..snapshot(State::Running, Reason::Default) };
        assert_eq!(
            prose(&now, &[], plain),
            "Scherzo is running in interactive mode, preemption on.\n\
             Why:     It is the default; nobody chose another mode.\n\
             Kernel:  scherzo_0\n\
             Engine:  kernel"
        );
        let hold = [("mode", "fifo".into()), ("application", "make".into()), ("cookie", Detail::Number(3))];
        let hold = hold.map(|(name, detail)| (name.to_owned(), detail)).into();
        let text = prose(&Snapshot { holds: vec![hold], ..now }, &[], plain);
        assert!(text.ends_with("\nHeld:    fifo by make, hold 3"), "{text}");
        let hold = [("mode", "fifo".into()), ("cookie", Detail::Number(3))];
        let hold = hold.map(|(name, detail)| (name.to_owned(), detail)).into();
        let text = prose(
            &Snapshot { holds: vec![hold], foreground: "/a.scope".into(), ..snapshot(State::Running, Reason::Default) },
            &["All is kept."],
            plain,
        );
        let rows = "\nHeld:    fifo by a program of another user, hold 3\nFront:   /a.scope\nGroups:  All is kept.";
        assert!(text.ends_with(rows), "{text}");
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
    fn documents_have_the_reason_as_a_sentence() {
        assert_eq!(document(&snapshot(State::Stopped, Reason::Disabled))["reason_text"], "Scherzo is turned off.");
    }

    #[test]
    fn every_state_but_two_has_an_exit_code_of_its_own() {
        let codes = State::ALL.iter().map(|state| running_code(Some(*state)).map_or_else(Kind::code, |()| 0));
        let distinct: std::collections::BTreeSet<_> = codes.collect();
        assert_eq!(distinct.len(), State::ALL.len() - 1, "degraded is running");
    }
}
