//! The diagnosis, on the page and as a text to send.

use std::fmt::Write;

use scherzo_api::Snapshot;
use scherzo_api::client::DiagnosisFinding;
use scherzo_i18n::gettext;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    Error,
    Warning,
    Note,
    Good,
}

impl Weight {
    /// Parses the service's severity; one that this version does not know counts as a note.
    pub(crate) fn of(severity: &str) -> Self {
        match severity {
            "error" => Self::Error,
            "warning" => Self::Warning,
            "good" => Self::Good,
            _ => Self::Note,
        }
    }

    pub(crate) fn icon(self) -> &'static str {
        match self {
            Self::Error => "app-problem-symbolic",
            Self::Warning => "app-warning-symbolic",
            Self::Note => "app-note-symbolic",
            Self::Good => "app-good-symbolic",
        }
    }

    pub(crate) fn style(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "dim-label",
            Self::Good => "success",
        }
    }

    /// In a word.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Error => gettext("Problem"),
            Self::Warning => gettext("Warning"),
            Self::Note => gettext("Note"),
            Self::Good => gettext("Good"),
        }
    }
}

/// The heaviest first; those of one weight in the service's order.
pub(crate) fn sorted(mut findings: Vec<DiagnosisFinding>) -> Vec<DiagnosisFinding> {
    findings.sort_by_key(|finding| Weight::of(&finding.severity));
    findings
}

/// The headline for all findings.
pub(crate) fn summary(findings: &[DiagnosisFinding]) -> String {
    match findings.iter().map(|finding| Weight::of(&finding.severity)).min() {
        Some(Weight::Error) => gettext("Something keeps Scherzo from working"),
        Some(Weight::Warning) => gettext("Something may cause trouble"),
        _ => gettext("Everything is as it should be"),
    }
}

/// The text to send: English, whatever the reader's language, for whoever looks into it.
pub(crate) fn text(service: &Snapshot, findings: &[DiagnosisFinding], app_version: &str, os: &str) -> String {
    let mut text = format!("Scherzo {app_version}, service {}, on {os}\n", service.version);
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {value}");
        }
    };
    line("State", &service.state);
    line("Mode", &format!("{} (requested: {})", service.mode, service.requested_mode));
    line("Reason", &service.reason);
    for (name, value) in &service.reason_args {
        line(&format!("  {name}"), &value.to_string());
    }
    line("In the kernel", &service.kernel_ops);
    line("Last error", &service.last_error);
    text.push('\n');
    for finding in findings {
        let _ = writeln!(text, "[{}] {}: {}", finding.severity, finding.id, finding.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use scherzo_api::details::Details;

    use super::*;

    fn finding(id: &str, severity: &str) -> DiagnosisFinding {
        DiagnosisFinding {
            id: id.into(),
            severity: severity.into(),
            text: format!("About {id}."),
            details: Details::new(),
        }
    }

    #[test]
    fn the_heaviest_come_first() {
        let findings =
            sorted(vec![finding("a", "good"), finding("b", "error"), finding("c", "odd"), finding("d", "warning")]);
        let ids: Vec<_> = findings.iter().map(|finding| finding.id.as_str()).collect();
        assert_eq!(ids, ["b", "d", "c", "a"]);
        assert_eq!(summary(&findings), "Something keeps Scherzo from working");
        assert_eq!(summary(&[finding("a", "good")]), "Everything is as it should be");
    }

    #[test]
    fn the_report_holds_all_that_was_found() {
        let service = Snapshot {
            state: "fallback".into(),
            reason: "stall".into(),
            reason_args: Details::from([("text".into(), "cc1 waited".into())]),
            version: "1.2".into(),
            ..Snapshot::default()
        };
        let text = text(&service, &[finding("btf", "error")], "1.3", "Debian 13");
        for part in
            ["Scherzo 1.3, service 1.2, on Debian 13", "State: fallback", "text: cc1 waited", "[error] btf: About btf."]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("Last error"));
    }
}
