//! `scherzoctl config`.

use std::collections::{BTreeMap, HashMap};

use scherzo_i18n::{fill, gettext};
use serde_json::{Map, Value, json};
use zbus::{OwnedVariant, Variant};

use crate::cli::ConfigAction;
use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::output::{self, Output};
use crate::patience;

pub(crate) async fn run(client: &CommandClient, output: &Output, action: Option<&ConfigAction>) -> Result<(), Failure> {
    if let Some(ConfigAction::Set { key, value }) = action {
        let settings = HashMap::from([(key.as_str(), parse(value))]);
        client.change(|scheduler| async move { scheduler.configure(settings).await }).await?;
    }
    if let Some(ConfigAction::Unset { keys }) = action {
        unset(client, keys).await?;
    }
    let settings = read(client).await?;
    match action {
        None => show(output, &settings),
        Some(ConfigAction::Unset { keys }) => {
            for key in keys {
                show_one(output, &settings, key)?;
            }
        }
        Some(ConfigAction::Get { key } | ConfigAction::Set { key, .. }) => show_one(output, &settings, key)?,
    }
    Ok(())
}

async fn unset(client: &CommandClient, keys: &[String]) -> Result<(), Failure> {
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    client.change(|scheduler| async move { scheduler.reset_settings(&keys).await }).await
}

async fn read(client: &CommandClient) -> Result<BTreeMap<String, Value>, Failure> {
    let settings = patience::read(async { Ok(client.running().await?.settings().await?) }).await?;
    Ok(settings.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
}

fn show(output: &Output, settings: &BTreeMap<String, Value>) {
    if output.json {
        output::document(Map::from_iter([("settings".to_owned(), json!(settings))]));
    } else {
        for (key, value) in settings {
            output::line(&format!("{key} = {value}"));
        }
    }
}

fn show_one(output: &Output, settings: &BTreeMap<String, Value>, key: &str) -> Result<(), Failure> {
    let Some(value) = settings.get(key) else {
        let known: Vec<_> = settings.keys().map(String::as_str).collect();
        return Err(Failure::new(
            Kind::Usage,
            fill(
                &gettext("There is no setting \"{key}\". There are {known}."),
                &[("key", &key), ("known", &known.join(", "))],
            ),
        ));
    };
    if output.json {
        output::document(Map::from_iter([(key.to_owned(), value.clone())]));
    } else {
        output::line(value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    }
    Ok(())
}

/// The service checks; here only the type is chosen.
fn parse(value: &str) -> Variant<'_> {
    match (value.parse::<bool>(), value.parse::<i64>()) {
        (Ok(flag), _) => flag.into(),
        (_, Ok(number)) => number.into(),
        _ => value.into(),
    }
}

fn plain(value: &OwnedVariant) -> Value {
    match &**value {
        Variant::Bool(flag) => json!(flag),
        Variant::U32(number) => json!(number),
        Variant::Str(text) => json!(text.as_str()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_look() {
        assert_eq!(parse("true"), Variant::from(true));
        assert_eq!(parse("-5"), Variant::from(-5i64));
        assert_eq!(parse("low-power"), Variant::from("low-power"));
    }
}
