//! `scherzoctl doctor`: what the service finds, or without a service what can be seen from here.

use scherzo_host::{Finding, Root, Severity};
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::failure::{FAILURE, Failure};
use crate::output::{self, Output};

/// Severity and sentence.
type Line = (String, String, String);

pub(crate) async fn run(session: bool, output: &Output) -> Result<(), Failure> {
    let findings = match ask(session).await {
        Ok(findings) => findings,
        Err(problem) => look(&problem),
    };
    if output.json {
        let document = |(id, severity, text): &Line| json!({"id": id, "severity": severity, "text": text});
        let findings: Vec<Value> = findings.iter().map(document).collect();
        output::document(Map::from_iter([("findings".to_owned(), json!(findings))]));
    } else {
        for (_, severity, text) in &findings {
            output::line(&format!("{severity:8} {text}"));
        }
    }
    let is_error = |(_, severity, _): &Line| severity == Severity::Error.name();
    if findings.iter().any(is_error) { Err(Failure::told(FAILURE)) } else { Ok(()) }
}

async fn ask(session: bool) -> Result<Vec<Line>, Failure> {
    let client = Client::connect(session).await?;
    if !client.is_served().await? {
        return Err(Failure::unreachable());
    }
    let findings = client.scheduler().await?.diagnose().await?;
    Ok(findings.into_iter().map(|(id, severity, text, _)| (id, severity, text)).collect())
}

fn look(problem: &Failure) -> Vec<Line> {
    let service = Finding::new("service", Severity::Error, problem.sentence().unwrap_or_default());
    let findings = std::iter::once(service).chain(scherzo_host::diagnose(&Root::default()));
    findings.map(|finding| (finding.id.to_owned(), finding.severity.name().to_owned(), finding.text)).collect()
}
