//! A service with the members of 0.1.0 and no others: the commands work with it, and what it lacks is said.

use std::collections::HashMap;

use futures_util::StreamExt;
use scherzo_api::names::{BUS_NAME, INTERFACE};
use zbus::message::Type;
use zbus::{Connection, Message, MessageStream, Variant};

use crate::support::Bus;

const MEMBERS: &str = include_str!("../../../daemon/tests/bus/of_0_1_0/org.scherzo.Scheduler1.xml");

type Named = HashMap<&'static str, Variant<'static>>;

/// All properties of 0.1.0.
fn properties() -> Named {
    let settings = Named::from([("boot_delay_s", 30u32.into()), ("follow_holds", true.into())]);
    let properties = Named::from([
        ("Enabled", true.into()),
        ("State", "running".into()),
        ("Mode", "interactive".into()),
        ("RequestedMode", "auto".into()),
        ("Reason", "default".into()),
        ("ReasonArgs", Named::new().into()),
        ("Preemption", true.into()),
        ("Engine", "user".into()),
        ("KernelOps", "scherzo_0_1_0".into()),
        ("LastError", "".into()),
        ("OnBattery", false.into()),
        ("PowerProfile", "".into()),
        ("Holds", Vec::<Named>::new().into()),
        ("Settings", settings.into()),
        ("Modes", vec!["auto", "interactive", "fifo", "low-power"].into()),
        ("Version", "0.1.0".into()),
    ]);
    assert_eq!(MEMBERS.matches("<property name=").count(), properties.len());
    assert!(properties.keys().all(|name| MEMBERS.contains(&format!("<property name=\"{name}\""))));
    properties
}

/// Answers calls until the test ends.
async fn serve(bus: &Bus) {
    let service = zbus::connection::Builder::address(bus.0.address()).build().await.unwrap();
    let mut calls = MessageStream::from(&service);
    service.request_name(BUS_NAME).await.unwrap();
    tokio::spawn(async move {
        while let Some(Ok(call)) = calls.next().await {
            if call.message_type() == Type::MethodCall {
                answer(&service, &call).await.unwrap();
            }
        }
    });
}

async fn answer(service: &Connection, call: &Message) -> zbus::Result<()> {
    let header = call.header();
    let member = header.member().unwrap().as_str();
    let event = (1_772_384_709u64, "turned-on", Named::from([("uid", 1000u32.into())]));
    match member {
        "GetAll" => service.reply(&header, &properties()).await,
        "Get" => {
            let (_, name): (String, String) = call.body().deserialize().unwrap();
            match properties().remove(name.as_str()) {
                Some(value) => service.reply(&header, &value).await,
                None => refuse(service, call, "UnknownProperty").await,
            }
        }
        "GetStats" => service.reply(&header, &Named::from([("nr_switches", 5u64.into())])).await,
        "GetWaitHistogram" => service.reply(&header, &HashMap::from([("interactive", vec![1u64, 2])])).await,
        "GetHistory" => service.reply(&header, &vec![event]).await,
        "Diagnose" => service.reply(&header, &Vec::<(&str, &str, &str, Named)>::new()).await,
        "HoldMode" => service.reply(&header, &7u32).await,
        "SetEnabled" | "SetMode" | "SetPreemption" | "ReleaseMode" | "Configure" | "Subscribe" | "Unsubscribe" => {
            service.reply(&header, &()).await
        }
        _ => refuse(service, call, "UnknownMethod").await,
    }
}

async fn refuse(service: &Connection, call: &Message, what: &str) -> zbus::Result<()> {
    let member = call.header().member().unwrap().to_string();
    assert!(call.header().interface().is_none_or(|of| of != INTERFACE) || !is_member(&member), "{member}");
    service.reply_error(&call.header(), format!("org.freedesktop.DBus.Error.{what}"), &format!("no {member}")).await
}

fn is_member(name: &str) -> bool {
    MEMBERS.contains(&format!("<method name=\"{name}\""))
}

#[tokio::test]
async fn commands_work_with_the_service_of_0_1_0() {
    let bus = Bus::start();
    serve(&bus).await;
    assert_eq!(bus.ctl(&["mode"]).await.plainly(), "interactive (chosen automatically)\n");
    assert!(bus.ctl(&["status"]).await.plainly().starts_with("Scherzo is running in interactive mode"));
    assert_eq!(bus.ctl(&["--json", "status"]).await.json()["state"], "running");
    let commands: [&[&str]; 14] = [
        &["enable"],
        &["disable"],
        &["mode", "fifo"],
        &["preemption", "off"],
        &["preemption"],
        &["engine"],
        &["is-running"],
        &["stats"],
        &["--json", "stats"],
        &["history"],
        &["config"],
        &["config", "get", "boot_delay_s"],
        &["config", "set", "boot_delay_s", "20"],
        &["run", "-m", "fifo", "--", "true"],
    ];
    for command in commands {
        let said = bus.ctl(command).await;
        assert!(said.code == 0 && said.complaint.is_empty(), "{command:?}: {said:?}");
    }
    assert_eq!(bus.ctl(&["config", "get", "boot_delay_s"]).await.plainly(), "30\n");
    assert!(bus.ctl(&["history"]).await.plainly().starts_with("2026-03-01"));
}

#[tokio::test]
async fn what_the_service_of_0_1_0_lacks_is_said() {
    let bus = Bus::start();
    serve(&bus).await;
    let commands: [(&[&str], &str); 3] = [
        (&["engine", "kernel"], "SetEngine"),
        (&["mode", "fifo", "--for", "2h"], "SetModeFor"),
        (&["config", "unset", "boot_delay_s"], "ResetSettings"),
    ];
    for (command, member) in commands {
        bus.ctl(command).await.refused(1, member);
    }
}
