//! `scherzoctl doctor`: what the service finds, or without a service what can be seen from here; and which of the other
//! installed kernels could be started instead.

use scherzo_api::{catalogue, details};
use scherzo_host::{Finding, GroupSupport, Root, Severity, diagnose_groups};
use scherzo_i18n::gettext;
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::installed;
use crate::output::{self, Output};
use crate::patience;

/// A finding in the language of the person.
#[derive(Clone, Debug)]
pub(crate) struct DoctorLine {
    /// Stable name of the check.
    pub(crate) id: String,
    /// Stable name of the text, if the service is new enough to tell.
    pub(crate) text_id: String,
    pub(crate) severity: String,
    pub(crate) text: String,
}

impl DoctorLine {
    pub(crate) fn document(&self) -> Value {
        json!({"id": self.id, "text_id": self.text_id, "severity": self.severity, "text": self.text})
    }
}

pub(crate) async fn run(session: bool, output: &Output) -> Result<(), Failure> {
    let findings = match CommandClient::connect(session).await {
        Ok(client) => ask(&client).await,
        Err(problem) => Err(problem),
    };
    let findings = findings.unwrap_or_else(|problem| look(&problem));
    let findings = [findings, installed::findings(&Root::default())].concat();
    if output.json {
        let findings: Vec<Value> = findings.iter().map(DoctorLine::document).collect();
        output::document(Map::from_iter([("findings".to_owned(), json!(findings))]));
    } else {
        let width = findings.iter().map(|line| severity_title(&line.severity).width()).max().unwrap_or_default();
        for line in &findings {
            output::line(&format!("{} {}", output::left(&severity_title(&line.severity), width), line.text));
        }
    }
    let is_error = |line: &DoctorLine| line.severity == Severity::Error.name();
    if findings.iter().any(is_error) { Err(Failure::told(Kind::Failure)) } else { Ok(()) }
}

/// What the service finds.
pub(crate) async fn ask(client: &CommandClient) -> Result<Vec<DoctorLine>, Failure> {
    let findings = patience::read(async { Ok(client.running().await?.diagnose().await?) }).await?;
    let line = |(id, severity, text, wire): (String, String, String, _)| {
        let details = details::from_wire(&wire);
        let text_id = details.get(catalogue::TEXT_ID).map(ToString::to_string).unwrap_or_default();
        DoctorLine { id, text_id, severity, text: catalogue::finding_text(&text, &details) }
    };
    Ok(findings.into_iter().map(line).collect())
}

fn look(problem: &Failure) -> Vec<DoctorLine> {
    let id = if problem.kind() == Kind::NoAnswer { "service-silent/no-answer" } else { "service/absent" };
    let service = Finding::new(id, Severity::Error, problem.sentence());
    let root = Root::default();
    let groups = diagnose_groups(&root, GroupSupport::default());
    let findings = std::iter::once(service).chain(scherzo_host::diagnose(&root)).chain(groups);
    let line = |finding: Finding| {
        let (id, text_id, severity) = (finding.check().into(), finding.id.into(), finding.severity.name().into());
        let arguments = finding.arguments.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
        DoctorLine { id, text_id, severity, text: catalogue::finding_text(&finding.text, &arguments.collect()) }
    };
    findings.map(line).collect()
}

/// One of a newer service shows as it is.
fn severity_title(severity: &str) -> String {
    match severity {
        // Translators: what a check found; so are "note", "warning" and "error".
        "good" => gettext("good"),
        "note" => gettext("note"),
        "warning" => gettext("warning"),
        "error" => gettext("error"),
        _ => severity.to_owned(),
    }
}
