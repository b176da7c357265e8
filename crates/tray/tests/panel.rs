//! The real `scherzo-tray` as panels meet it, without a panel: its menu through com.canonical.dbusmenu, against the real
//! service with a simulated engine; with watcher, service and bus restarted under it.

// A test may end where something else than expected comes.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::time::Duration;

use scherzo_api::client::TELL_AFTER;
use support::{App, Bus, Daemon, Menu, Panel, RemoteProxy, Scene, eventually};

/// What preemption is called for people.
const PREEMPTION: &str = "Interrupt Background Work";

#[tokio::test]
async fn the_menu_shows_the_service_and_switches_it() {
    let (scene, _daemon) = Scene::served().await;
    let menu = &scene.menu;
    assert!(menu.layout().await > 8, "all entries are in the layout");

    menu.click("Use Scherzo").await;
    menu.wait_for("Interactive").await;
    assert!(menu.is_ticked("Use Scherzo").await && menu.is_ticked("Automatic (Interactive)").await);
    assert_eq!(menu.icon().await, "scherzo-interactive-symbolic");
    assert_eq!(
        menu.tool_tip().await,
        ("Scherzo: Interactive".into(), "It is the default; nobody chose another mode.".into())
    );

    menu.click("Low Power").await;
    menu.wait_until("low power is ticked", async || menu.is_ticked("Low Power").await).await;
    assert!(!menu.is_ticked("Automatic").await && !menu.is_ticked("Interactive").await);
    assert_eq!(menu.icon().await, "scherzo-low-power-symbolic");

    let before = menu.is_ticked(PREEMPTION).await;
    menu.click(PREEMPTION).await;
    menu.wait_until("preemption", async || menu.is_ticked(PREEMPTION).await != before).await;

    menu.click("Automatic").await;
    menu.wait_until("automatic", async || menu.is_ticked("Automatic (Interactive)").await).await;
    menu.click("Use Scherzo").await;
    menu.wait_for("Turned off").await;
    assert_eq!(menu.icon().await, "scherzo-off-symbolic");
}

#[tokio::test]
async fn changes_from_outside_are_followed() {
    let (scene, _daemon) = Scene::served().await;
    let (menu, scheduler) = (&scene.menu, scene.bus.scheduler().await);
    scheduler.set_enabled(true).await.unwrap();
    menu.wait_for("Interactive").await;
    scheduler.set_mode("fifo").await.unwrap();
    menu.wait_for("First Come, First Served").await;
    assert!(menu.is_ticked("First Come, First Served").await);
    assert_eq!(menu.icon().await, "scherzo-fifo-symbolic");
}

/// What is in the menu is there in 0.1.0 too, so all of it is shown.
#[tokio::test]
async fn a_service_of_0_1_0_is_shown_and_switched() {
    let scene = Scene::served_by_0_1_0().await;
    let menu = &scene.menu;
    menu.click("Use Scherzo").await;
    menu.wait_for("First Come, First Served").await;
    assert!(menu.is_ticked("Use Scherzo").await && menu.is_ticked("Automatic (First Come, First Served)").await);
    assert_eq!(menu.tool_tip().await.1, "It is the default; nobody chose another mode.");

    menu.click("Low Power").await;
    menu.wait_until("low power is ticked", async || menu.is_ticked("Low Power").await).await;
    assert_eq!(menu.icon().await, "scherzo-low-power-symbolic");
    assert_eq!(menu.tool_tip().await, ("Scherzo: Low Power".into(), "It was chosen by hand.".into()));

    menu.click(PREEMPTION).await;
    menu.wait_until("preemption", async || !menu.is_ticked(PREEMPTION).await).await;
    menu.click("Use Scherzo").await;
    menu.wait_for("Turned off").await;
    assert_eq!(scene.panel.notices(), [], "nothing was refused");
}

#[tokio::test]
async fn a_watcher_that_comes_late_or_anew_gets_the_item() {
    let bus = Bus::start();
    let _daemon = Daemon::start(&bus);
    let _tray = bus.tray();
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..3 {
        let panel = Panel::start(&bus).await;
        Menu::of(&panel).await.wait_for("Turned off").await;
        panel.end().await;
    }
}

#[tokio::test]
async fn a_service_that_goes_and_returns_is_followed() {
    let scene = Scene::bare().await;
    let menu = &scene.menu;
    menu.wait_for("The service is not installed").await;
    assert!(!menu.is_usable("Low Power").await && !menu.is_usable("Use Scherzo").await);
    for _ in 0..2 {
        let daemon = Daemon::start(&scene.bus);
        menu.wait_until("choices", async || menu.is_usable("Low Power").await).await;
        daemon.end();
        menu.wait_for("The service is not installed").await;
    }
}

/// The kernel ejects the scheduler. It is loaded again after 1 s, then after 2 s, then after 4 s.
async fn eject(scene: &Scene, daemon: &Daemon) {
    scene.menu.wait_for("Interactive").await;
    daemon.tree().unload().unwrap();
    scene.menu.wait_until("the end", async || scene.menu.icon().await == "scherzo-warning-symbolic").await;
}

#[tokio::test]
async fn an_ejection_is_told_once_if_it_lasts() {
    let (scene, daemon) = Scene::running().await;
    eject(&scene, &daemon).await;
    scene.menu.wait_for("Interactive").await;
    tokio::time::sleep(TELL_AFTER).await;
    assert_eq!(scene.panel.notices(), [], "it has mended itself");

    // The second may last long enough, or not.
    eject(&scene, &daemon).await;
    scene.menu.wait_for("Interactive").await;
    let nr_before = scene.panel.notices().len();
    eject(&scene, &daemon).await;
    eventually("a notice", async || scene.panel.notices().len() > nr_before).await;
    // Time for another one, which must not come.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let notices = scene.panel.notices();
    assert_eq!(notices.len(), nr_before + 1, "{notices:?}");
    assert_eq!(notices[0].0, "Scherzo Stopped Working");
    assert!(notices[0].1.ends_with("The kernel's own scheduler runs."), "{notices:?}");
}

#[tokio::test]
async fn another_notifier_tells_instead() {
    let bus = Bus::start();
    let _first = bus.own("org.scherzo.Notifier").await;
    let (scene, daemon) = Scene::running_on(bus).await;
    for _ in 0..3 {
        eject(&scene, &daemon).await;
    }
    tokio::time::sleep(TELL_AFTER + Duration::from_millis(300)).await;
    assert_eq!(scene.panel.notices(), []);
}

#[tokio::test]
async fn the_app_is_opened_through_the_bus() {
    let scene = Scene::bare().await;
    let (menu, app) = (&scene.menu, App::start(&scene.bus).await);
    menu.click("Open Scherzo").await;
    eventually("the app was activated", async || app.nr_activations() == 1).await;
    menu.activate().await;
    eventually("the app was activated again", async || app.nr_activations() == 2).await;
}

#[tokio::test]
async fn it_is_there_once_and_leaves_when_told() {
    let mut scene = Scene::bare().await;
    let mut second = scene.bus.tray();
    assert_eq!(second.wait().await.unwrap().code(), Some(1));
    scene.menu.click("Remove From Panel").await;
    assert_eq!(scene.tray.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_restarted_bus_gets_the_item_again() {
    let mut scene = Scene::bare().await;
    scene.menu.wait_for("The service is not installed").await;
    scene.bus.restart();
    let _daemon = Daemon::start(&scene.bus);
    let panel = Panel::start(&scene.bus).await;
    Menu::of(&panel).await.wait_for("Turned off").await;
}

#[tokio::test]
async fn a_tray_that_is_not_installed_does_not_start_after_login() {
    let scene = Scene::bare().await;
    assert!(!scene.menu.is_ticked("Show After Login").await);
    scene.menu.click("Show After Login").await;
    eventually("a notice", async || !scene.panel.notices().is_empty()).await;
    let (title, text) = scene.panel.notices().remove(0);
    assert_eq!(title, "Nothing Was Changed");
    assert!(text.starts_with("Install"), "{text}");
    assert!(!scene.menu.is_ticked("Show After Login").await);
}

#[tokio::test]
async fn another_program_can_make_it_leave() {
    let mut scene = Scene::bare().await;
    let remote = RemoteProxy::new(&scene.bus.connect().await).await.unwrap();
    assert!(remote.activate_action("dance", vec![], HashMap::new()).await.is_err());
    remote.activate_action("quit", vec![], HashMap::new()).await.unwrap();
    assert_eq!(scene.tray.wait().await.unwrap().code(), Some(0));
}
