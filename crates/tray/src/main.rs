//! `scherzo-tray`: Scherzo in the panel, for desktops with a tray.
//!
//! [`view`] is what is shown, worked out from what is known of the service; [`item`] shows it through the
//! StatusNotifierItem protocol; [`session`] is everything else that the session bus is needed for. The loop here follows
//! the service (on the client's own thread) and the session bus, and begins anew when the latter is lost.

mod item;
mod remote;
mod session;
mod view;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use ksni::TrayMethods;
use scherzo_api::Error;
use scherzo_api::autostart::Autostart;
use scherzo_api::client::{Bus, Client, ClientState, TELL_AFTER};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use item::StatusNotifierItem;
use session::Session;
use view::{MenuAction, View};

/// Wait before the session bus is tried again, at first and at most.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_AT_MOST: Duration = Duration::from_secs(30);

const AFTER_HELP: &str = "\
It stays until \"Remove From Panel\" is chosen in its menu; \"Show After Login\" makes it return by itself.
Desktops without a tray do not show it: there is the app, scherzo, and for GNOME a toggle in the quick settings,
which the app's preferences turn on.";

/// An icon in the panel that shows what the Scherzo scheduler does, with a menu to turn it on and choose its mode.
#[derive(Debug, Parser)]
#[command(name = "scherzo-tray", version, after_help = AFTER_HELP)]
struct Options {
    /// For developers: use the session bus, where `scherzod --simulate` serves
    #[arg(long)]
    session: bool,
}

fn main() -> ExitCode {
    scherzo_i18n::init();
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scherzo-tray: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let (seen, states) = watch::channel(ClientState::default());
    let bus = if options.session { Bus::Session } else { Bus::System };
    let client = Client::start(bus, move |state| drop(seen.send_replace(state.clone())))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            ended = stay(Arc::new(client), states) => ended,
            _ = terminate.recv() => Ok(()),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}

/// Why the icon leaves the panel.
enum End {
    /// The person wants it to go.
    Quit,
    /// The session bus has gone.
    BusLost,
}

/// Stays in the panel until the person quits.
async fn stay(client: Arc<Client>, mut states: watch::Receiver<ClientState>) -> Result<()> {
    let mut wait = RETRY;
    let mut exits = Exits::default();
    let mut actions = mpsc::unbounded_channel();
    loop {
        match Session::connect(actions.0.clone()).await {
            Ok(Some(session)) => {
                wait = RETRY;
                if let End::Quit = show(&client, &mut states, &session, &mut actions, &mut exits).await? {
                    return Ok(());
                }
            }
            Ok(None) => anyhow::bail!("it is in the panel already"),
            Err(error) => eprintln!("scherzo-tray: the session bus is not reachable: {error}"),
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_AT_MOST);
    }
}

/// Shows what is known until the session bus is lost or the person quits.
async fn show(
    client: &Arc<Client>,
    states: &mut watch::Receiver<ClientState>,
    session: &Session,
    (actions, chosen): &mut (mpsc::UnboundedSender<MenuAction>, mpsc::UnboundedReceiver<MenuAction>),
    exits: &mut Exits,
) -> Result<End> {
    let (problems, mut failed) = mpsc::unbounded_channel();
    let autostart = Autostart::of_this_person(&scherzo_i18n::data_dir());
    let item = StatusNotifierItem::new(View::of(&states.borrow_and_update()), autostart.clone(), actions.clone());
    let Ok(tray) = item.assume_sni_available(true).spawn().await else { return Ok(End::BusLost) };
    let end = loop {
        tokio::select! {
            changed = states.changed() => {
                changed.context("the thread that follows the service has ended")?;
                let state = states.borrow_and_update().clone();
                exits.note(&state);
                tray.update(|item| item.view = View::of(&state)).await;
            }
            Some(action) = chosen.recv() => match action {
                MenuAction::Quit => break End::Quit,
                MenuAction::OpenApp(token) => {
                    if let Err(problem) = session.open_app(token).await {
                        session.tell(&view::no_app(&problem)).await;
                    }
                }
                MenuAction::Autostart(on) => {
                    if let Some(Err(problem)) = autostart.as_ref().map(|autostart| autostart.set(on)) {
                        session.tell(&view::no_autostart(&problem)).await;
                    }
                    tray.update(StatusNotifierItem::look_at_autostart).await;
                }
                action => drop(tokio::spawn(act(Arc::clone(client), action, problems.clone()))),
            },
            () = exits.due() => {
                let notice = view::ejection(&states.borrow());
                if let Some(notice) = notice && session.is_notifier().await {
                    session.tell(&notice).await;
                }
            }
            Some(problem) = failed.recv() => session.tell(&view::refusal(&problem)).await,
            () = session.lost() => break End::BusLost,
        }
    };
    tray.shutdown().await;
    Ok(end)
}

/// Ejections of the scheduler. Each one that lasts is announced once, even if a bus is lost meanwhile.
#[derive(Default)]
struct Exits {
    nr_noted: u64,
    /// When to tell of the last one.
    due_at: Option<Instant>,
}

impl Exits {
    fn note(&mut self, state: &ClientState) {
        if state.nr_exits > self.nr_noted {
            *self = Self { nr_noted: state.nr_exits, due_at: Some(Instant::now() + TELL_AFTER) };
        }
    }

    /// Waits until an ejection is to be announced.
    async fn due(&mut self) {
        match self.due_at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.due_at = None;
    }
}

/// Does what was chosen. It may take a while: a person may be asked for a password.
async fn act(client: Arc<Client>, action: MenuAction, problems: mpsc::UnboundedSender<Error>) {
    let done = match action {
        MenuAction::Mode(mode) => client.set_mode(mode).await,
        MenuAction::Preemption(on) => client.set_preemption(on).await,
        MenuAction::Enabled(on) => client.set_enabled(on).await,
        MenuAction::OpenApp(_) | MenuAction::Autostart(_) | MenuAction::Quit => Ok(()),
    };
    if let Err(problem) = done {
        // The receiver ends with the icon; then nobody can be told.
        let _ = problems.send(problem);
    }
}
