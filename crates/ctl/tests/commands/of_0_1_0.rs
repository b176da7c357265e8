//! A service with the members of 0.1.0 and no others: the commands work with it, and what it lacks is said.

use scherzo_test_bus::of_0_1_0;

use crate::support::Bus;

async fn served() -> Bus {
    let bus = Bus::start();
    of_0_1_0::serve(bus.0.address()).await;
    bus
}

#[tokio::test]
async fn commands_work_with_the_service_of_0_1_0() {
    let bus = served().await;
    let commands: [&[&str]; 13] = [
        &["enable"],
        &["preemption", "off"],
        &["preemption"],
        &["engine"],
        &["is-running"],
        &["stats"],
        &["--json", "stats"],
        &["history"],
        &["doctor"],
        &["config"],
        &["config", "get", "boot_delay_s"],
        &["config", "set", "boot_delay_s", "20"],
        &["run", "-m", "low-power", "--", "true"],
    ];
    for command in commands {
        let said = bus.ctl(command).await;
        assert!(said.code == 0 && said.complaint.is_empty(), "{command:?}: {said:?}");
    }
    assert_eq!(bus.ctl(&["config", "get", "boot_delay_s"]).await.plainly(), "20\n");
    assert_eq!(bus.ctl(&["mode"]).await.plainly(), "fifo (chosen automatically)\n");
    bus.ctl(&["mode", "interactive"]).await.plainly();
    assert!(bus.ctl(&["status"]).await.plainly().starts_with("Scherzo is running in interactive mode"));
    assert_eq!(bus.ctl(&["--json", "status"]).await.json()["state"], "running");
    assert!(bus.ctl(&["history"]).await.plainly().contains("Turned on"));
    bus.ctl(&["disable"]).await.plainly();
    assert_eq!(bus.ctl(&["--json", "status"]).await.json()["state"], "stopped");
}

#[tokio::test]
async fn what_the_service_of_0_1_0_lacks_is_said() {
    let bus = served().await;
    let commands: [(&[&str], &str); 3] = [
        (&["engine", "kernel"], "SetEngine"),
        (&["mode", "fifo", "--for", "2h"], "SetModeFor"),
        (&["config", "unset", "boot_delay_s"], "ResetSettings"),
    ];
    for (command, member) in commands {
        bus.ctl(command).await.refused(1, member);
    }
}
