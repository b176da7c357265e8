//! A private bus, the service on it, and a panel that is nothing but what the tray needs of one.

// Pretended services have the signatures of the real ones.
#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    clippy::type_complexity,
    clippy::unused_self,
    clippy::used_underscore_binding
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use scherzo_api::SchedulerProxy;
use scherzo_daemon::authorize::Polkit;
use scherzo_daemon::cli::serve;
use scherzo_daemon::engine::simulated::{self, Simulated, Tree};
use scherzo_daemon::input::NR_INPUTS;
use scherzo_daemon::shell::Parts;
use scherzo_host::Root;
use scherzo_test_bus::{PrivateBus, of_0_1_0};
use tokio::sync::{mpsc, oneshot};
use zbus::connection::Builder;
use zbus::{Connection, OwnedVariant, Variant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A bus that is both the session's and the system's.
pub struct Bus(PrivateBus);

impl Bus {
    pub fn start() -> Self {
        Self(PrivateBus::start())
    }

    /// The same address, and nobody on it.
    pub fn restart(&mut self) {
        self.0.restart();
    }

    /// The program under test.
    pub fn tray(&self) -> tokio::process::Child {
        tokio::process::Command::new(env!("CARGO_BIN_EXE_scherzo-tray"))
            .env("DBUS_SESSION_BUS_ADDRESS", self.0.address())
            .env("DBUS_SYSTEM_BUS_ADDRESS", self.0.address())
            .env("XDG_CONFIG_HOME", self.0.directory().join("config"))
            .env("XDG_CONFIG_DIRS", self.0.directory().join("etc"))
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub async fn connect(&self) -> Connection {
        Builder::address(self.0.address()).build().await.unwrap()
    }

    pub async fn own(&self, name: &'static str) -> Connection {
        Builder::address(self.0.address()).name(name).build().await.unwrap()
    }

    pub async fn scheduler(&self) -> SchedulerProxy<'static> {
        SchedulerProxy::new(&self.connect().await).await.unwrap()
    }
}

/// The service on a thread of its own, so that all of it can end at once.
pub struct Daemon {
    root: Root,
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Daemon {
    pub fn start(bus: &Bus) -> Self {
        let root = Root::new(bus.0.directory());
        Tree::plant(root.clone()).unwrap();
        let (end, ended) = oneshot::channel();
        let (address, at) = (bus.0.address().to_owned(), root.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (inputs, inbox) = mpsc::channel(NR_INPUTS);
                let bus = Builder::address(address.as_str()).build().await.unwrap();
                let engine = Simulated::new(Tree::at(at.clone()), inputs.clone());
                let authorizer = Polkit::trusting(own_uid());
                let parts =
                    Parts { root: at, set_policy: simulated::set_policy, engine, bus, callers: Arc::default(), inputs };
                tokio::select! {
                    _ = serve(parts, inbox, authorizer) => {}
                    _ = ended => {}
                }
            });
        });
        Self { root, end, thread }
    }

    pub fn tree(&self) -> Tree {
        Tree::at(self.root.clone())
    }

    pub fn end(self) {
        self.end.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

fn own_uid() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|process| process.uid())
}

/// What the panel has been told.
#[derive(Clone, Debug, Default)]
struct Told {
    items: Arc<Mutex<Vec<String>>>,
    notices: Arc<Mutex<Vec<(String, String)>>>,
}

struct Watcher(Told);

#[zbus::interface(name = "org.kde.StatusNotifierWatcher")]
impl Watcher {
    fn register_status_notifier_item(&self, service: String) {
        self.0.items.lock().unwrap().push(service);
    }

    #[zbus(property)]
    fn is_status_notifier_host_registered(&self) -> bool {
        true
    }
}

struct Notifications(Told);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Notifications {
    fn notify(
        &self,
        _application: String,
        _replaces: u32,
        _icon: String,
        title: String,
        text: String,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedVariant>,
        _expires_ms: i32,
    ) -> u32 {
        self.0.notices.lock().unwrap().push((title, text));
        1
    }
}

struct Activations(Arc<Mutex<usize>>);

#[zbus::interface(name = "org.freedesktop.Application")]
impl Activations {
    fn activate(&self, _platform_data: HashMap<String, OwnedVariant>) {
        *self.0.lock().unwrap() += 1;
    }
}

/// The app.
pub struct App {
    _bus: Connection,
    activations: Arc<Mutex<usize>>,
}

impl App {
    pub async fn start(bus: &Bus) -> Self {
        let activations = Arc::default();
        let bus = Builder::address(bus.0.address())
            .serve_at("/org/scherzo/Scherzo", Activations(Arc::clone(&activations)))
            .name("org.scherzo.Scherzo")
            .build()
            .await
            .unwrap();
        Self { _bus: bus, activations }
    }

    pub fn nr_activations(&self) -> usize {
        *self.activations.lock().unwrap()
    }
}

/// A panel, and a notification server.
pub struct Panel {
    bus: Connection,
    told: Told,
}

impl Panel {
    pub async fn start(bus: &Bus) -> Self {
        let told = Told::default();
        let bus = Builder::address(bus.0.address())
            .serve_at("/StatusNotifierWatcher", Watcher(told.clone()))
            .serve_at("/org/freedesktop/Notifications", Notifications(told.clone()))
            .name("org.kde.StatusNotifierWatcher")
            .name("org.freedesktop.Notifications")
            .build()
            .await
            .unwrap();
        Self { bus, told }
    }

    pub async fn end(self) {
        self.bus.close().await.unwrap();
    }

    pub fn notices(&self) -> Vec<(String, String)> {
        self.told.notices.lock().unwrap().clone()
    }
}

#[zbus::proxy(interface = "com.canonical.dbusmenu", default_path = "/MenuBar")]
trait DbusMenu {
    fn get_layout(
        &self,
        parent: i32,
        depth: i32,
        names: Vec<String>,
    ) -> zbus::Result<(u32, (i32, HashMap<String, OwnedVariant>, Vec<OwnedVariant>))>;

    fn get_group_properties(
        &self,
        ids: Vec<i32>,
        names: Vec<String>,
    ) -> zbus::Result<Vec<(i32, HashMap<String, OwnedVariant>)>>;

    fn event(&self, id: i32, event: &str, data: Variant<'_>, time: u32) -> zbus::Result<()>;
}

#[zbus::proxy(interface = "org.kde.StatusNotifierItem", default_path = "/StatusNotifierItem")]
trait StatusNotifierItem {
    fn activate(&self, x: i32, y: i32) -> zbus::Result<()>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn icon_name(&self) -> zbus::Result<String>;

    #[zbus(property(emits_changed_signal = "false"))]
    fn tool_tip(&self) -> zbus::Result<(String, Vec<(i32, i32, Vec<u8>)>, String, String)>;
}

#[zbus::proxy(
    interface = "org.freedesktop.Application",
    default_service = "org.scherzo.Tray",
    default_path = "/org/scherzo/Tray"
)]
pub trait Remote {
    fn activate_action(
        &self,
        action: &str,
        parameters: Vec<OwnedVariant>,
        platform_data: HashMap<String, OwnedVariant>,
    ) -> zbus::Result<()>;
}

type Entry = HashMap<String, OwnedVariant>;

/// The item that registered last, as a host sees it.
pub struct Menu {
    menu: DbusMenuProxy<'static>,
    item: StatusNotifierItemProxy<'static>,
}

impl Menu {
    pub async fn of(panel: &Panel) -> Self {
        let last = || panel.told.items.lock().unwrap().last().cloned();
        eventually("an item has registered", async || last().is_some()).await;
        let service = last().unwrap();
        let menu = DbusMenuProxy::builder(&panel.bus).destination(service.clone()).build().await.unwrap();
        let item = StatusNotifierItemProxy::builder(&panel.bus).destination(service).build().await.unwrap();
        Self { menu, item }
    }

    /// How many entries the root has.
    pub async fn layout(&self) -> usize {
        self.menu.get_layout(0, -1, vec![]).await.unwrap().1.2.len()
    }

    async fn entries(&self) -> Vec<(i32, Entry)> {
        self.menu.get_group_properties(vec![], vec![]).await.unwrap()
    }

    async fn find(&self, label: &str) -> (i32, Entry) {
        // The headline may say the same as a choice, and comes first.
        let found = self.entries().await.into_iter().rfind(|(_, entry)| text(entry, "label") == label);
        found.unwrap_or_else(|| panic!("the menu has no {label}"))
    }

    pub async fn is_ticked(&self, label: &str) -> bool {
        let entries = self.entries().await;
        let ticked =
            |(_, entry): &(i32, Entry)| number(entry, "toggle-state") == Some(1) && text(entry, "label") == label;
        entries.iter().any(ticked)
    }

    pub async fn is_usable(&self, label: &str) -> bool {
        let (_, entry) = self.find(label).await;
        !matches!(entry.get("enabled").map(|value| &**value), Some(Variant::Bool(false)))
    }

    pub async fn click(&self, label: &str) {
        let (id, _) = self.find(label).await;
        self.menu.event(id, "clicked", 0i32.into(), 0).await.unwrap();
    }

    pub async fn activate(&self) {
        self.item.activate(0, 0).await.unwrap();
    }

    pub async fn icon(&self) -> String {
        self.item.icon_name().await.unwrap()
    }

    pub async fn tool_tip(&self) -> (String, String) {
        let (_, _, title, text) = self.item.tool_tip().await.unwrap();
        (title, text)
    }

    /// Waits for the first entry, which says what runs.
    pub async fn wait_for(&self, headline: &str) {
        let says = async || {
            self.entries().await.iter().any(|(_, entry)| {
                text(entry, "label") == headline
                    && matches!(entry.get("enabled").map(|value| &**value), Some(Variant::Bool(false)))
            })
        };
        eventually(headline, says).await;
    }

    pub async fn wait_until(&self, what: &str, done: impl AsyncFnMut() -> bool) {
        eventually(what, done).await;
    }
}

fn text(entry: &Entry, name: &str) -> String {
    entry.get(name).and_then(|value| String::try_from(value.clone()).ok()).unwrap_or_default()
}

fn number(entry: &Entry, name: &str) -> Option<i32> {
    entry.get(name).and_then(|value| i32::try_from(value.clone()).ok())
}

/// The usual scene: a bus, a panel, and the tray in it, with the service there or not.
pub struct Scene {
    pub bus: Bus,
    pub panel: Panel,
    pub tray: tokio::process::Child,
    pub menu: Menu,
}

impl Scene {
    /// Without the service.
    pub async fn bare() -> Self {
        Self::on(Bus::start()).await
    }

    /// With the service of 0.1.0, turned off.
    pub async fn served_by_0_1_0() -> Self {
        let bus = Bus::start();
        of_0_1_0::serve(bus.0.address()).await;
        let scene = Self::on(bus).await;
        scene.menu.wait_for("Turned off").await;
        scene
    }

    /// With the service, turned off.
    pub async fn served() -> (Self, Daemon) {
        Self::served_on(Bus::start()).await
    }

    async fn served_on(bus: Bus) -> (Self, Daemon) {
        let daemon = Daemon::start(&bus);
        let scene = Self::on(bus).await;
        scene.menu.wait_for("Turned off").await;
        (scene, daemon)
    }

    /// With the service, turned on by the menu.
    pub async fn running() -> (Self, Daemon) {
        Self::running_on(Bus::start()).await
    }

    /// The same, on a bus that others are on already.
    pub async fn running_on(bus: Bus) -> (Self, Daemon) {
        let (scene, daemon) = Self::served_on(bus).await;
        scene.menu.click("Use Scherzo").await;
        scene.menu.wait_for("Interactive").await;
        (scene, daemon)
    }

    async fn on(bus: Bus) -> Self {
        let panel = Panel::start(&bus).await;
        let tray = bus.tray();
        let menu = Menu::of(&panel).await;
        Self { bus, panel, tray, menu }
    }
}

/// Asks until the answer is yes.
pub async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < PATIENCE, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
