//! `scherzoctl applications`: modes for applications, by rules of the person's own.

mod cgroups;
mod games;
mod running;
mod unit;
mod watch;

use scherzo_api::types::{Mode, RequestedMode};
use scherzo_i18n::{fill, gettext};
use scherzo_rules::{ApplicationRule, ApplicationRules, Places};
use serde_json::{Map, Value, json};

use crate::cli::ApplicationsAction;
use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::output::{self, Output};

pub(crate) async fn run(session: bool, output: &Output, action: Option<&ApplicationsAction>) -> Result<(), Failure> {
    let places = Places::of_this_person()?;
    match action {
        None => show(&places, output),
        Some(ApplicationsAction::Set { application, mode, foreground }) => {
            let rule = ApplicationRule { mode: parse(mode)?, foreground: *foreground };
            places.change(application, Some(rule))?;
            show(&places, output);
        }
        Some(ApplicationsAction::Unset { application }) => {
            places.change(application, None)?;
            show(&places, output);
        }
        Some(ApplicationsAction::Watch { slice }) => {
            watch::run(&CommandClient::connect(session).await?, places, slice.clone()).await?;
        }
    }
    Ok(())
}

fn parse(mode: &str) -> Result<RequestedMode, Failure> {
    mode.parse().map_err(|_| {
        let known = Mode::ALL.map(Mode::name).join(", ");
        let sentence = gettext("There is no mode \"{mode}\". Choose one of {known}, or auto for no rule.");
        Failure::new(Kind::Usage, fill(&sentence, &[("mode", &mode), ("known", &known)]))
    })
}

fn show(places: &Places, output: &Output) {
    let (rules, problems) = places.read();
    for problem in problems {
        output::remark(&problem);
    }
    if output.json {
        output::document(document(&rules));
    } else if rules.is_empty() {
        output::line(&gettext("There are no rules. `scherzoctl applications set org.gnome.Builder fifo` makes one."));
    } else {
        for (name, ApplicationRule { mode, foreground }) in rules {
            let line = format!("{mode:12} {name}");
            // Translators: the line is the mode of an application, and its name.
            let in_front = gettext("{line} (in front)");
            output::line(&if foreground { fill(&in_front, &[("line", &line)]) } else { line });
        }
    }
}

fn document(rules: &ApplicationRules) -> Map<String, Value> {
    let modes: Map<String, Value> = rules.iter().map(|(name, rule)| (name.clone(), json!(rule.mode.name()))).collect();
    let in_front = rules.iter().filter(|(_, rule)| rule.foreground).map(|(name, _)| name);
    let fields = [("applications", modes.into()), ("foreground", in_front.cloned().collect())];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}
