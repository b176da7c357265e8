//! Who may: a pretended polkit on the same bus says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use scherzo_api::Error;
use scherzo_api::names::{
    ACTION_CONFIGURE, ACTION_CONFIGURE_AUTOMATION, ACTION_HOLD_MODE, ACTION_INSPECT_HOLDS, ACTION_LIFT_GUARD,
    ACTION_SET_ENABLED, ACTION_SET_ENGINE, ACTION_SET_FOREGROUND, ACTION_SET_MODE,
};
use tokio::time::timeout;
use zbus::{Connection, OwnedVariant};

use crate::support::{Client, Stage, eventually};

#[derive(Clone, Copy)]
enum PolkitAnswer {
    Yes,
    No,
    AfterPassword,
    /// The person is thinking.
    Never,
}

struct Polkit {
    answer: Arc<Mutex<PolkitAnswer>>,
    asked: Arc<Mutex<Vec<(String, u32)>>>,
}

#[zbus::interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Polkit {
    async fn check_authorization(
        &self,
        subject: (String, HashMap<String, OwnedVariant>),
        action: String,
        details: HashMap<String, String>,
        flags: u32,
        cancellation: String,
    ) -> ((bool, bool, HashMap<String, String>),) {
        assert_eq!((subject.0.as_str(), details.len(), cancellation.as_str()), ("system-bus-name", 0, ""));
        // Before it is known to be asked: what is said from then on is for the next.
        let answer = *self.answer.lock().unwrap();
        self.asked.lock().unwrap().push((action, flags));
        match answer {
            PolkitAnswer::Yes => ((true, false, HashMap::new()),),
            PolkitAnswer::No => ((false, false, HashMap::new()),),
            PolkitAnswer::AfterPassword => ((false, true, HashMap::new()),),
            PolkitAnswer::Never => std::future::pending().await,
        }
    }
}

struct Authority {
    answer: Arc<Mutex<PolkitAnswer>>,
    asked: Arc<Mutex<Vec<(String, u32)>>>,
    _bus: Connection,
}

impl Authority {
    async fn appear(stage: &Stage) -> Self {
        let (answer, asked) = (Arc::new(Mutex::new(PolkitAnswer::Yes)), Arc::default());
        let polkit = Polkit { answer: Arc::clone(&answer), asked: Arc::clone(&asked) };
        let bus = zbus::connection::Builder::address(stage.address.as_str())
            .serve_at("/org/freedesktop/PolicyKit1/Authority", polkit)
            .name("org.freedesktop.PolicyKit1")
            .build()
            .await
            .unwrap();
        Self { answer, asked, _bus: bus }
    }

    fn say(&self, answer: PolkitAnswer) {
        *self.answer.lock().unwrap() = answer;
    }
}

#[tokio::test]
async fn polkit_decides_and_reading_is_free() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    client.scheduler.set_mode("fifo").await.unwrap();
    client.scheduler.set_preemption(false).await.unwrap();
    client.scheduler.set_engine("user").await.unwrap();
    let interactive = 1;
    let actions = [ACTION_SET_ENABLED, ACTION_SET_MODE, ACTION_SET_MODE, ACTION_SET_ENGINE];
    let expected = actions.map(|id| (id.to_owned(), interactive));
    assert_eq!(*polkit.asked.lock().unwrap(), expected);

    polkit.say(PolkitAnswer::No);
    let before = client.snapshot().await;
    assert!(matches!(client.scheduler.set_enabled(false).await, Err(Error::AccessDenied(_))));
    assert!(matches!(client.scheduler.set_mode("auto").await, Err(Error::AccessDenied(_))));
    assert!(matches!(client.scheduler.set_engine("kernel").await, Err(Error::AccessDenied(_))));
    client.scheduler.get_stats().await.unwrap();
    client.scheduler.subscribe().await.unwrap();
    assert_eq!(client.snapshot().await, before);
}

/// As after six ejections because of a stall.
fn give_up(stage: &Stage) {
    let version = env!("CARGO_PKG_VERSION");
    let file = format!(
        "kernel = \"6.18.0-simulated\"\nversion = \"{version}\"\nreason = \"stall\"\n[details]\ntext = \"cc1\"\n"
    );
    std::fs::create_dir_all(stage.file("var/lib/scherzo")).unwrap();
    std::fs::write(stage.file("var/lib/scherzo/quarantine.toml"), file).unwrap();
}

#[tokio::test]
async fn trying_a_second_time_what_has_failed_takes_an_administrator() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    give_up(&stage);
    let daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(polkit.asked.lock().unwrap().last().unwrap().0, ACTION_SET_ENABLED, "the first time");
    daemon.signal(Signal::TERM);
    daemon.end();

    give_up(&stage);
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    polkit.say(PolkitAnswer::No);
    assert!(matches!(client.scheduler.set_enabled(true).await, Err(Error::AccessDenied(_))));
    assert_eq!(polkit.asked.lock().unwrap().last().unwrap().0, ACTION_LIFT_GUARD);
    assert_eq!(client.snapshot().await.reason, "quarantined");
    polkit.say(PolkitAnswer::Yes);
    // Off and on again is no way around.
    client.scheduler.set_enabled(false).await.unwrap();
    assert_eq!(polkit.asked.lock().unwrap().last().unwrap().0, ACTION_SET_ENABLED);
    client.scheduler.set_enabled(true).await.unwrap();
    assert_eq!(polkit.asked.lock().unwrap().last().unwrap().0, ACTION_LIFT_GUARD);
    assert_eq!(client.snapshot().await.state, "running");
}

#[tokio::test]
async fn ones_own_hold_is_released_freely() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let (client, other) = (Client::new(&stage).await, Client::new(&stage).await);
    let cookie = client.scheduler.hold_mode("fifo", "a test", "org.example.Test").await.unwrap();
    assert_eq!(polkit.asked.lock().unwrap().last().unwrap().0, ACTION_HOLD_MODE);
    polkit.say(PolkitAnswer::No);
    assert!(matches!(other.scheduler.release_mode(cookie).await, Err(Error::AccessDenied(_))));
    assert_eq!(polkit.asked.lock().unwrap().last().unwrap().0, ACTION_SET_MODE);
    assert!(matches!(other.scheduler.hold_mode("fifo", "a", "b").await, Err(Error::AccessDenied(_))));
    client.scheduler.release_mode(cookie).await.unwrap();
    assert_eq!(polkit.asked.lock().unwrap().len(), 3);
    let nobody = other.scheduler.hold_mode("fifo", "", "b").await.unwrap_err();
    assert!(matches!(nobody, Error::InvalidArgs(_)), "{nobody:?}");
    let quiet = other.scheduler.hold_mode_quietly("fifo", "a", "b").await.unwrap_err();
    assert!(matches!(quiet, Error::AccessDenied(_)), "{quiet:?}");
    assert_eq!(
        polkit.asked.lock().unwrap()[3..],
        [(ACTION_HOLD_MODE.to_owned(), 0)],
        "nonsense is not worth a password"
    );
}

#[tokio::test]
async fn putting_something_in_front_takes_a_right_of_its_own() {
    let stage = Stage::new();
    let group = format!("/user.slice/user-{}.slice/app-game.scope", rustix::process::geteuid().as_raw());
    std::fs::create_dir_all(stage.file(&format!("sys/fs/cgroup{group}"))).unwrap();
    std::fs::write(stage.file("sys/fs/cgroup/cgroup.controllers"), "cpu\n").unwrap();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    let cookie = client.scheduler.hold_mode("fifo", "a test", "org.example.Test").await.unwrap();
    let holds = client.snapshot().await.holds;
    polkit.say(PolkitAnswer::No);
    assert!(matches!(client.scheduler.set_foreground(&group).await, Err(Error::AccessDenied(_))));
    assert!(matches!(client.scheduler.set_hold_foreground(cookie, &group).await, Err(Error::AccessDenied(_))));
    assert!(matches!(client.scheduler.set_hold_foreground_quietly(cookie, &group).await, Err(Error::AccessDenied(_))));
    client.scheduler.set_hold_foreground(cookie, "").await.unwrap();
    assert_eq!(client.snapshot().await.holds, holds);
    let expected = [1, 1, 0].map(|flags| (ACTION_SET_FOREGROUND.to_owned(), flags));
    assert_eq!(polkit.asked.lock().unwrap()[1..], expected, "an empty path takes no right");
}

#[tokio::test]
async fn holds_of_others_are_for_administrators() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    client.scheduler.inspect_holds().await.unwrap();
    polkit.say(PolkitAnswer::No);
    assert!(matches!(client.scheduler.inspect_holds().await, Err(Error::AccessDenied(_))));
    let asked: Vec<_> = polkit.asked.lock().unwrap().iter().map(|(action, _)| action.clone()).collect();
    assert_eq!(asked, [ACTION_INSPECT_HOLDS; 2]);
}

#[tokio::test]
async fn automation_needs_less_right_than_tunables() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    let rule = ("follow_holds", zbus::Variant::from(false));
    let tunable = ("starvation_ms", zbus::Variant::from(90u32));
    client.scheduler.configure(HashMap::from([("follow_holds", true.into())])).await.unwrap();
    client.scheduler.configure(HashMap::from([rule, tunable])).await.unwrap();
    let asked: Vec<_> = polkit.asked.lock().unwrap().iter().map(|(action, _)| action.clone()).collect();
    assert_eq!(asked, [ACTION_CONFIGURE_AUTOMATION, ACTION_CONFIGURE]);
}

#[tokio::test]
async fn a_password_is_asked_for_only_where_the_caller_allows_it() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    polkit.say(PolkitAnswer::AfterPassword);
    // A plain call, as from `busctl --allow-interactive-authorization=no`.
    let refused = Error::from(client.scheduler.inner().call_method("SetEnabled", &true).await.unwrap_err());
    assert!(matches!(refused, Error::InteractiveAuthorizationRequired(_)), "{refused:?}");
    let refused = client.scheduler.set_enabled(true).await.unwrap_err();
    assert!(matches!(refused, Error::AccessDenied(_)), "{refused:?}");
}

#[tokio::test]
async fn a_person_who_thinks_blocks_nobody() {
    let stage = Stage::new();
    let polkit = Authority::appear(&stage).await;
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let (slow, quick) = (Client::new(&stage).await, Client::new(&stage).await);
    polkit.say(PolkitAnswer::Never);
    let thinking = tokio::spawn(async move { slow.scheduler.set_enabled(true).await });
    eventually("polkit is asked", async || !polkit.asked.lock().unwrap().is_empty()).await;
    polkit.say(PolkitAnswer::Yes);
    timeout(Duration::from_secs(2), quick.scheduler.set_mode("fifo")).await.unwrap().unwrap();
    assert_eq!(quick.snapshot().await.state, "stopped");
    assert!(!thinking.is_finished());
    thinking.abort();
}

#[tokio::test]
async fn without_polkit_only_the_trusted_user_may() {
    let stage = Stage::new();
    let _daemon = stage.serve(&["--simulate-polkit"]).await;
    let client = Client::new(&stage).await;
    let refused = client.scheduler.set_enabled(true).await.unwrap_err();
    assert!(matches!(&refused, Error::AccessDenied(text) if text.contains("polkit")), "{refused:?}");
}
