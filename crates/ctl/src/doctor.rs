//! `scherzoctl doctor`: what the service finds, or without a service what can be seen from here; and which of the other
//! installed kernels could be started instead.

use scherzo_api::{catalogue, details};
use scherzo_host::{Finding, Root, Severity};
use scherzo_i18n::gettext;
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use crate::client::Client;
use crate::failure::{Failure, Kind};
use crate::installed;
use crate::output::{self, Output};
use crate::patience;

/// Stable name of the check, severity, sentence.
pub(crate) type Line = (String, String, String);

pub(crate) async fn run(session: bool, output: &Output) -> Result<(), Failure> {
    let findings = match ask(session).await {
        Ok(findings) => findings,
        Err(problem) => look(&problem),
    };
    let findings = [findings, installed::findings(&Root::default())].concat();
    if output.json {
        let document = |(id, severity, text): &Line| json!({"id": id, "severity": severity, "text": text});
        let findings: Vec<Value> = findings.iter().map(document).collect();
        output::document(Map::from_iter([("findings".to_owned(), json!(findings))]));
    } else {
        let width = findings.iter().map(|(_, severity, _)| severity_title(severity).width()).max().unwrap_or_default();
        for (_, severity, text) in &findings {
            output::line(&format!("{} {text}", output::left(&severity_title(severity), width)));
        }
    }
    let is_error = |(_, severity, _): &Line| severity == Severity::Error.name();
    if findings.iter().any(is_error) { Err(Failure::told(Kind::Failure)) } else { Ok(()) }
}

async fn ask(session: bool) -> Result<Vec<Line>, Failure> {
    let client = Client::connect(session).await?;
    let findings = patience::read(async { Ok(client.running().await?.diagnose().await?) }).await?;
    Ok(findings
        .into_iter()
        .map(|(id, severity, text, wire)| (id, severity, catalogue::finding_text(&text, &details::from_wire(&wire))))
        .collect())
}

fn look(problem: &Failure) -> Vec<Line> {
    let id = if problem.kind() == Kind::NoAnswer { "service-silent" } else { "service" };
    let service = Finding::new(id, Severity::Error, problem.sentence());
    let findings = std::iter::once(service).chain(scherzo_host::diagnose(&Root::default()));
    findings
        .map(|finding| {
            let arguments = finding.arguments.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
            let text = catalogue::finding_text(&finding.text, &arguments.collect());
            (finding.id.to_owned(), finding.severity.name().to_owned(), text)
        })
        .collect()
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
