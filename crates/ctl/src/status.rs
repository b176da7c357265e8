//! What runs, and why, in prose.

use scherzo_api::Snapshot;
use scherzo_api::details::{Detail, Details};
use scherzo_api::types::{RequestedMode, State};
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::failure::{Failure, UNREACHABLE};
use crate::output::{self, Output};

/// `scherzoctl status`.
pub(crate) async fn show(client: &Client, output: &Output) -> Result<(), Failure> {
    if !client.is_served().await? {
        if output.json {
            output::document(document(None));
        } else {
            output::line(
                "The Scherzo service is not running, so Scherzo schedules nothing.\n\
                 `scherzoctl enable` starts it and turns Scherzo on.",
            );
        }
        return Err(Failure::told(UNREACHABLE));
    }
    let snapshot = client.snapshot().await?;
    if output.json {
        output::document(document(Some(&snapshot)));
    } else {
        output::line(&prose(&snapshot, |state, word| output.mark(state, word)));
    }
    Ok(())
}

/// After a change: one line with the outcome.
pub(crate) async fn confirm(client: &Client, output: &Output) -> Result<(), Failure> {
    let snapshot = client.snapshot().await?;
    if output.json {
        output::document(document(Some(&snapshot)));
    } else {
        output::line(&headline(&snapshot, |_, word| word.to_owned()));
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
        output::line(&format!("{mode} (chosen automatically)"));
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
        output::line(on_off(preemption));
    }
    Ok(())
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn headline(snapshot: &Snapshot, mark: impl Fn(Option<State>, &str) -> String) -> String {
    let state = snapshot.known_state();
    let how = format!("{} mode, preemption {}", snapshot.mode, on_off(snapshot.preemption));
    let kernel = "the kernel's own scheduler runs";
    match state {
        Some(State::Running) => format!("Scherzo is {} in {how}.", mark(state, "running")),
        Some(State::Degraded) => format!("Scherzo is running, but {}, in {how}.", mark(state, "degraded")),
        Some(State::Starting) => format!("Scherzo is {}: {how}.", mark(state, "starting")),
        Some(State::Stopped) => format!("Scherzo is {}; {kernel}. When on: {how}.", mark(state, "turned off")),
        Some(State::Fallback) => format!("Scherzo is on, but {}: {kernel}.", mark(state, "fell back")),
        Some(State::Unsupported) => format!("Scherzo {} on this kernel; {kernel}.", mark(state, "cannot run")),
        Some(State::Foreign) => {
            format!("{} is loaded: the scheduler {}.", mark(state, "Another scheduler"), snapshot.kernel_ops)
        }
        None => format!("Scherzo is {}: {how}.", snapshot.state),
    }
}

fn prose(snapshot: &Snapshot, mark: impl Fn(Option<State>, &str) -> String) -> String {
    let mut lines = vec![headline(snapshot, mark), format!("Why:     {}", snapshot.why())];
    let loaded = if snapshot.kernel_ops.is_empty() { "no sched_ext scheduler is loaded" } else { &snapshot.kernel_ops };
    lines.push(format!("Kernel:  {loaded}"));
    lines.extend(snapshot.holds.iter().map(held));
    if !snapshot.last_error.is_empty() && snapshot.last_error != snapshot.why() {
        lines.push(format!("Lately:  {}", snapshot.last_error));
    }
    if snapshot.known_state() == Some(State::Stopped) {
        lines.push("`scherzoctl enable` turns it on.".to_owned());
    }
    lines.join("\n")
}

fn held(hold: &Details) -> String {
    let part = |name: &str| hold.get(name).map(Detail::to_string).unwrap_or_default();
    let reason = hold.get("reason").map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("Held:    {} by {}{reason}, hold {}", part("mode"), part("application"), part("cookie"))
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

    fn plain(_: Option<State>, word: &str) -> String {
        word.to_owned()
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
