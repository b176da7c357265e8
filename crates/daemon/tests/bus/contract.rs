//! The documented interface and the live one are the same.

use std::collections::BTreeSet;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use scherzo_api::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use scherzo_api::types::{HistoryEvent, Reason, State};
use scherzo_daemon::log_control::PATH as LOG_CONTROL_PATH;
use zbus::fdo::IntrospectableProxy;

use crate::support::Stage;

pub const CONTRACT: &str = include_str!("../../../../dbus/org.scherzo.Scheduler1.xml");

#[tokio::test]
async fn the_live_interface_is_the_documented_one() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let bus = stage.connect().await;
    let proxy = IntrospectableProxy::builder(&bus).destination(BUS_NAME).path(OBJECT_PATH).build().await.unwrap();
    let live = members(&proxy.introspect().await.unwrap());
    let documented = members(CONTRACT);
    assert!(documented.len() > 20, "{documented:?}");
    assert_eq!(documented, live);
}

#[test]
fn every_member_is_documented() {
    let mut comment = String::new();
    for event in events(CONTRACT) {
        match event {
            Event::Comment(text) => comment = text.into_inner().into_owned(),
            Event::Start(element) | Event::Empty(element)
                if ["method", "signal", "property"].contains(&name_of(&element).as_str()) =>
            {
                let member = attribute(&element, "name");
                assert!(comment.contains(&format!("{member}:")), "{member} has no comment of its own");
            }
            _ => {}
        }
    }
}

/// It belongs to another object, which the XML of this one can only describe in words.
#[tokio::test]
async fn the_log_level_is_documented_as_it_is_served() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let bus = stage.connect().await;
    let proxy = IntrospectableProxy::builder(&bus).destination(BUS_NAME).path(LOG_CONTROL_PATH).build().await.unwrap();
    let live = members_of("org.freedesktop.LogControl1", &proxy.introspect().await.unwrap());
    let about = CONTRACT.split("-->").next().unwrap_or_default();
    let documented = about.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix('@')?.split_once(": (")?;
        Some(format!("property {name} {}", rest.split_once(')')?.0.replace(", ", " ")))
    });
    let without_annotation = |line: &String| line.split(" EmitsChangedSignal").next().unwrap_or_default().to_owned();
    assert_eq!(documented.collect::<BTreeSet<_>>(), live.iter().map(without_annotation).collect());
    assert_eq!(live.len(), 3, "{live:?}");
    assert!(about.contains(LOG_CONTROL_PATH));
}

/// One line for each member of our interface, with everything that the contract fixes about it.
pub fn members(xml: &str) -> BTreeSet<String> {
    members_of(INTERFACE, xml)
}

fn members_of(interface: &str, xml: &str) -> BTreeSet<String> {
    let (mut members, mut current, mut ours) = (BTreeSet::new(), String::new(), false);
    for event in events(xml) {
        let (element, closed) = match &event {
            Event::Start(element) => (element, false),
            Event::Empty(element) => (element, true),
            Event::End(end) if ours && ["method", "signal", "property"].contains(&end.name().as_ref()) => {
                members.insert(current.clone());
                continue;
            }
            _ => continue,
        };
        match name_of(element).as_str() {
            "interface" => ours = attribute(element, "name") == interface,
            kind @ ("method" | "signal" | "property") => {
                current = format!(
                    "{kind} {} {} {}",
                    attribute(element, "name"),
                    attribute(element, "type"),
                    attribute(element, "access")
                );
                if closed && ours {
                    // A property without an annotation emits its changes with their value.
                    let implied = if kind == "property" { " EmitsChangedSignal=true" } else { "" };
                    members.insert(format!("{current}{implied}"));
                }
            }
            "arg" => {
                let fields = ["name", "type", "direction"].map(|field| attribute(element, field));
                current.extend([" (", &fields.join(" "), ")"]);
            }
            "annotation" => {
                let name = attribute(element, "name");
                let short = name.rsplit('.').next().unwrap_or_default();
                current.extend([" ", short, "=", &attribute(element, "value")]);
            }
            _ => {}
        }
    }
    members
}

fn events(xml: &str) -> Vec<Event<'_>> {
    let mut reader = Reader::from_str(xml);
    let mut events = Vec::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => return events,
            event => events.push(event),
        }
    }
}

fn name_of(element: &BytesStart<'_>) -> String {
    element.name().as_ref().to_owned()
}

fn attribute(element: &BytesStart<'_>, name: &str) -> String {
    element.try_get_attribute(name).unwrap().map(|found| found.value.into_owned()).unwrap_or_default()
}

#[test]
fn every_id_is_documented() {
    let reasons = Reason::ALL.iter().map(|reason| reason.name());
    let events = HistoryEvent::ALL.iter().map(|event| event.name());
    let states = State::ALL.iter().map(|state| state.name());
    let words: BTreeSet<_> = CONTRACT.split(|letter: char| !letter.is_alphanumeric() && letter != '-').collect();
    let missing: Vec<_> = reasons.chain(events).chain(states).filter(|id| !words.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
