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
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use scherzo_api::SchedulerProxy;
use scherzo_daemon::authorize::Polkit;
use scherzo_daemon::cli::serve;
use scherzo_daemon::engine::simulated::{Simulated, Tree};
use scherzo_daemon::shell::{NR_INPUTS, Parts};
use scherzo_host::Root;
use tokio::sync::{mpsc, oneshot};
use zbus::connection::Builder;
use zbus::{Connection, OwnedVariant, Variant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A bus that is both the session's and the system's.
pub struct Bus {
    process: Child,
    pub address: String,
    directory: tempfile::TempDir,
}

impl Bus {
    pub fn start(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = format!("unix:path={}", directory.path().join(name).display());
        let config = format!(
            r#"<busconfig>
              <listen>{address}</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow user="*"/><allow own="*"/>
                <allow send_type="method_call"/><allow send_type="signal"/>
                <allow send_type="method_return"/><allow send_type="error"/>
                <allow receive_type="method_call"/><allow receive_type="signal"/>
                <allow receive_type="method_return"/><allow receive_type="error"/>
              </policy>
            </busconfig>"#
        );
        std::fs::write(directory.path().join("bus.conf"), config).unwrap();
        Self { process: Self::spawn(&directory), address, directory }
    }

    fn spawn(directory: &tempfile::TempDir) -> Child {
        let mut process = Command::new("dbus-daemon")
            .arg(format!("--config-file={}", directory.path().join("bus.conf").display()))
            .args(["--nofork", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon must be installed");
        // It says its address when it is ready.
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        process
    }

    /// The same address, and nobody on it.
    pub fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = Self::spawn(&self.directory);
    }

    /// The program under test.
    pub fn tray(&self) -> tokio::process::Child {
        tokio::process::Command::new(env!("CARGO_BIN_EXE_scherzo-tray"))
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.address)
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub async fn connect(&self) -> Connection {
        Builder::address(self.address.as_str()).build().await.unwrap()
    }

    pub async fn own(&self, name: &'static str) -> Connection {
        Builder::address(self.address.as_str()).name(name).build().await.unwrap()
    }

    pub async fn scheduler(&self) -> SchedulerProxy<'static> {
        SchedulerProxy::new(&self.connect().await).await.unwrap()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
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
        let root = Root::new(bus.directory.path());
        Tree::plant(root.clone()).unwrap();
        let (end, ended) = oneshot::channel();
        let (address, at) = (bus.address.clone(), root.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (inputs, inbox) = mpsc::channel(NR_INPUTS);
                let bus = Builder::address(address.as_str()).build().await.unwrap();
                let engine = Simulated::new(Tree::at(at.clone()), inputs.clone());
                let authorizer = Polkit { trusted_uid: own_uid() };
                let parts = Parts { root: at, engine, bus, inputs };
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
        let bus = Builder::address(bus.address.as_str())
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
        let bus = Builder::address(bus.address.as_str())
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

/// Asks until the answer is yes.
pub async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !done().await {
        assert!(started.elapsed() < PATIENCE, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
