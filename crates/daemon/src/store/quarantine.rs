//! What was given up on, as its file has it.

use std::collections::BTreeMap;

use scherzo_api::details::{Detail, Details};
use scherzo_supervisor::{Build, Fault, Quarantine};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct QuarantineFile {
    kernel: String,
    version: String,
    reason: String,
    details: BTreeMap<String, DetailFile>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum DetailFile {
    Number(i64),
    Text(String),
}

impl From<&Quarantine> for QuarantineFile {
    fn from(quarantine: &Quarantine) -> Self {
        let Quarantine { build, cause } = quarantine;
        let detail = |detail: &Detail| match detail {
            Detail::Number(number) => DetailFile::Number(*number),
            Detail::Text(text) => DetailFile::Text(text.clone()),
        };
        Self {
            kernel: build.kernel.clone(),
            version: build.version.clone(),
            reason: cause.reason.name().to_owned(),
            details: cause.details.iter().map(|(name, value)| (name.clone(), detail(value))).collect(),
        }
    }
}

impl TryFrom<QuarantineFile> for Quarantine {
    type Error = String;

    fn try_from(file: QuarantineFile) -> Result<Self, String> {
        let reason = file.reason.parse().map_err(|error| format!("reason: {error}"))?;
        let detail = |detail| match detail {
            DetailFile::Number(number) => Detail::Number(number),
            DetailFile::Text(text) => Detail::Text(text),
        };
        let details = file.details.into_iter().map(|(name, value)| (name, detail(value)));
        let build = Build { kernel: file.kernel, version: file.version };
        Ok(Self { build, cause: Fault { reason, details: details.collect::<Details>() } })
    }
}
