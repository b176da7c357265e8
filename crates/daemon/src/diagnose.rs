//! What `Diagnose` answers: the host's findings and those that only the service can make.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use scherzo_api::catalogue::{self, gettext_noop};
use scherzo_api::details::Details;
use scherzo_api::types::Reason;
use scherzo_host::{Finding, GroupSupport, Root, Severity};
use zbus::OwnedVariant;

use crate::config::Config;
use crate::rivals::Rival;
use crate::store::Store;
use scherzo_model::PolicyId;
use scherzo_supervisor::{Published, Stored};

/// A finding as it crosses the bus.
pub type WireFinding = (String, String, String, HashMap<String, OwnedVariant>);

/// What was found at one moment.
#[derive(Debug)]
pub struct Diagnosis {
    findings: Vec<WireFinding>,
    /// What was published then.
    published: Published,
    made_at: Instant,
}

impl Diagnosis {
    /// However often it is asked for, the host is not looked at more often.
    const LASTS: Duration = Duration::from_secs(1);

    /// Looks at everything, as [`diagnose`] does.
    #[must_use]
    pub fn make(root: &Root, rivals: &[Rival], published: Published) -> Self {
        Self { findings: diagnose(root, rivals, &published), published, made_at: Instant::now() }
    }

    /// Whether looking again would hardly find anything else.
    #[must_use]
    pub fn is_recent(&self, published: &Published) -> bool {
        self.made_at.elapsed() < Self::LASTS && self.published == *published
    }

    /// What was found.
    #[must_use]
    pub fn findings(&self) -> &[WireFinding] {
        &self.findings
    }
}

/// Looks at everything. It reads files of several megabytes, so it is not for the thread of the loop.
#[must_use]
pub fn diagnose(root: &Root, rivals: &[Rival], now: &Published) -> Vec<WireFinding> {
    let mut findings = scherzo_host::diagnose(root);
    // Units that were found by their names have been told already.
    let found = |finding: &Finding| finding.check() == "rivals" && finding.severity != Severity::Good;
    if !rivals.is_empty() && !findings.iter().any(found) {
        findings.retain(|finding| finding.check() != "rivals");
        findings.extend(rivals.iter().map(|rival| rival.finding(root)));
    }
    findings.extend(scherzo_host::diagnose_self(root));
    findings.extend(scherzo_host::diagnose_groups(root, group_support(now)));
    if now.why.reason == Reason::Quarantined {
        findings.push(quarantine(&now.why.details));
    } else if !now.last_error.text.is_empty() {
        findings.push(Finding::new("last-error/text", Severity::Warning, now.last_error.text.clone()));
    }
    findings.extend(now.not_stored.iter().map(|(what, error)| not_stored(*what, error)));
    findings.extend(configuration(root));
    findings.into_iter().map(pack).collect()
}

/// What the scheduler does with control groups as it is set up.
fn group_support(now: &Published) -> GroupSupport {
    let tunables = now.settings.tunables;
    GroupSupport {
        // A policy for study knows nothing of groups.
        ignores_weights_by: (tunables.policy != PolicyId::default()).then_some("policy"),
        partial: tunables.partial,
    }
}

fn quarantine(details: &Details) -> Finding {
    let finding = Finding::new("quarantine/given-up", Severity::Error, catalogue::template(Reason::Quarantined));
    let argument = |name| catalogue::argument(name, details).unwrap_or_default();
    ["kernel", "version", "cause"].into_iter().fold(finding, |finding, name| finding.with(name, argument(name)))
}

fn not_stored(what: Stored, error: &str) -> Finding {
    let text = gettext_noop(
        "{file} cannot be written: {error}. What was changed since is lost when the service ends. It is tried again until then.",
    );
    Finding::new("not-stored/unwritable", Severity::Warning, text)
        .with("file", Store::file_of(what))
        .with("error", error)
}

fn configuration(root: &Root) -> Vec<Finding> {
    let problems = Config::read(root).problems;
    if problems.is_empty() {
        return vec![Finding::new(
            "configuration/sound",
            Severity::Good,
            gettext_noop("The configuration has no mistakes."),
        )];
    }
    let complain = |problem| {
        let text =
            gettext_noop("{problem}; what is below it counts instead. Correct it, then `systemctl reload scherzod`.");
        Finding::new("configuration/mistake", Severity::Warning, text).with("problem", problem)
    };
    problems.into_iter().map(complain).collect()
}

fn pack(finding: Finding) -> WireFinding {
    let text = |text: String| OwnedVariant::from(zbus::Str::from(text));
    let (id, text_id) = (finding.check().to_owned(), (catalogue::TEXT_ID, finding.id.to_owned()));
    let arguments = finding.arguments.into_iter().chain([text_id]);
    let arguments = arguments.map(|(name, value)| (name.to_owned(), text(value)));
    (id, finding.severity.name().to_owned(), finding.text, arguments.collect())
}
