//! `scherzoctl applications watch`: holds modes for the applications of this session while they run.
//!
//! It runs as the person whose applications they are, so neither it nor the service needs a right to look into the
//! processes of others. Nothing is polled: control groups, rules and the service all send notices.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt;
use scherzo_api::names::BUS_NAME;
use scherzo_api::types::{Mode, RequestedMode};
use scherzo_api::{HoldReleasedStream, SchedulerProxy};
use scherzo_i18n::{fill, gettext};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};
use zbus::names::OwnedUniqueName;

use super::cgroups::{DirectoryNotices, applications_of, executables};
use super::games::{GAME_MODE, GameMode};
use super::running::{Running, Step};
use super::unit;
use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::groups;
use crate::output;
use scherzo_rules::Places;

/// When a new unit is looked into for executables: launchers take a moment to become what they launch.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(4)];

/// An executable that was seen in a unit.
type Seen = (PathBuf, String);

/// Runs until a signal ends it. `slice` stands in for the session's own in tests.
pub(super) async fn run(client: &CommandClient, places: Places, slice: Option<PathBuf>) -> Result<(), Failure> {
    let slice = slice.unwrap_or_else(|| applications_of(rustix::process::getuid().as_raw()));
    let (seen, mut news) = mpsc::channel(16);
    let mut watcher = Watcher::new(client, places, slice, seen).await?;
    // Registered before the loop: a signal that arrives while the watcher is busy is kept until the next iteration.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| own_failure(&error))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| own_failure(&error))?;
    watcher.play().await;
    loop {
        tokio::select! {
            asked = watcher.ask() => asked?,
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
        tokio::select! {
            changed = watcher.notices.changed() => {
                changed.map_err(|error| own_failure(&error))?;
                watcher.look();
            }
            () = games_changed(&mut watcher.game_mode) => watcher.play().await,
            Some((unit, executable)) = news.recv() => watcher.seen_in(unit, executable),
            Some(signal) = watcher.released.next() => watcher.taken(*signal.args()?.cookie()),
            owner = watcher.owners.next() => if owner.is_none() {
                return Err(Failure::new(Kind::Failure, gettext("The bus is gone.")));
            },
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

/// For ever where there is no bus of a session.
async fn games_changed(game_mode: &mut Option<GameMode>) {
    match game_mode {
        Some(game_mode) => game_mode.changed().await,
        None => std::future::pending().await,
    }
}

struct Watcher<'a> {
    client: &'a CommandClient,
    /// Who granted the holds.
    granter: Option<OwnedUniqueName>,
    released: HoldReleasedStream,
    owners: NameOwnerChangedStream,
    notices: DirectoryNotices,
    game_mode: Option<GameMode>,
    places: Places,
    slice: PathBuf,
    running: Running,
    /// Each stands for a unit.
    games: BTreeSet<PathBuf>,
    units: BTreeSet<PathBuf>,
    complaints: BTreeSet<String>,
    seen: mpsc::Sender<Seen>,
}

impl<'a> Watcher<'a> {
    async fn new(
        client: &'a CommandClient,
        places: Places,
        slice: PathBuf,
        seen: mpsc::Sender<Seen>,
    ) -> Result<Self, Failure> {
        let scheduler = client.scheduler().await?;
        let released = scheduler.receive_hold_released().await?;
        let dbus = DBusProxy::new(&client.bus).await?;
        let owners = dbus.receive_name_owner_changed_with_args(&[(0, BUS_NAME)]).await?;
        let notices = DirectoryNotices::new().map_err(|error| own_failure(&error))?;
        notices.units(&slice).map_err(|error| {
            let sentence =
                gettext("This session is not run by systemd ({slice}: {error}), so no application can be recognised.");
            Failure::new(Kind::Failure, fill(&sentence, &[("slice", &slice.display()), ("error", &error)]))
        })?;
        places.prepare();
        // Without a bus of the session there is no GameMode.
        let game_mode = GameMode::follow().await.ok();
        let (granter, running, units, games, complaints) = Default::default();
        Ok(Self {
            client,
            granter,
            released,
            owners,
            notices,
            game_mode,
            places,
            slice,
            running,
            games,
            units,
            complaints,
            seen,
        })
    }

    /// Finds out which games run, and what else has changed.
    async fn play(&mut self) {
        if let Some(game_mode) = &self.game_mode {
            let games = game_mode.games().await;
            self.games = games.iter().map(|process| Path::new(GAME_MODE).join(process.to_string())).collect();
        }
        self.look();
    }

    /// Finds out what has changed.
    fn look(&mut self) {
        for directory in self.places.directories() {
            // A missing directory has no rules.
            let _ = self.notices.watch_files(directory);
        }
        let of_games = (GAME_MODE.to_owned(), RequestedMode::Mode(Mode::Interactive).into());
        let (rules, problems) = self.places.read_above([of_games].into());
        // New rules may name applications that run already.
        let afresh = self.running.rule(rules.into_iter().map(|(key, rule)| (as_executed(key), rule)).collect());
        self.complain(problems);
        let units = self.notices.units(&self.slice).unwrap_or_default();
        self.running.only(&units.union(&self.games).cloned().collect());
        for game in &self.games {
            self.running.started(game.clone(), GAME_MODE.to_owned());
        }
        for path in &units {
            if afresh || !self.units.contains(path) {
                self.started(path);
            }
        }
        self.units = units;
    }

    fn started(&mut self, path: &Path) {
        let Some(application) = path.file_name().and_then(|name| unit::application(name.to_str()?)) else { return };
        self.running.started(path.to_owned(), application);
        if self.running.needs_executables() {
            tokio::spawn(look_into(path.to_owned(), self.seen.clone()));
        }
    }

    /// Ignores units that have ended since their processes were read.
    fn seen_in(&mut self, unit: PathBuf, executable: String) {
        if self.units.contains(&unit) {
            self.running.started(unit, executable);
        }
    }

    /// Says each problem once.
    fn complain(&mut self, problems: Vec<String>) {
        let problems: BTreeSet<_> = problems.into_iter().collect();
        for problem in problems.difference(&self.complaints) {
            output::remark(problem);
        }
        self.complaints = problems;
    }

    fn taken(&mut self, cookie: u32) {
        if let Some(application) = self.running.taken(cookie) {
            let sentence = gettext("{application} no longer decides the mode, because someone chose one.");
            output::remark(&fill(&sentence, &[("application", &application)]));
        }
    }

    /// Asks the service for what has to be held, if it runs. Asking must not start it.
    async fn ask(&mut self) -> Result<(), Failure> {
        let owner = self.client.owner().await?;
        // Compared here because NameOwnerChanged may arrive after a new service has granted its first hold.
        if owner != self.granter {
            self.running.service_gone();
            self.granter.clone_from(&owner);
        }
        let Some(owner) = owner else { return Ok(()) };
        let scheduler = self.client.scheduler_at(owner).await?;
        let reason = gettext("A rule for this application");
        for step in self.running.steps() {
            match step {
                // Errors do not matter: a service that does not know the hold does not hold it.
                Step::Release(cookie) => drop(scheduler.release_mode(cookie).await),
                Step::Front(name, cookie, front) => put_in_front(&scheduler, &name, cookie, front.as_deref()).await,
                Step::Hold(name, terms) => match scheduler.hold_mode_quietly(terms.mode.name(), &reason, &name).await {
                    Ok(cookie) => {
                        if let Some(front) = &terms.front {
                            put_in_front(&scheduler, &name, cookie, Some(front)).await;
                        }
                        self.running.granted(name, cookie, terms);
                    }
                    Err(error) if error.is_unreachable() => {}
                    Err(error) => {
                        let sentence = gettext("No mode is held for {application}: {error}");
                        output::remark(&fill(&sentence, &[("application", &name), ("error", &error)]));
                        self.running.refused(name);
                    }
                },
            }
        }
        Ok(())
    }
}

/// What the kernel says is executed where a rule names this file: links have been followed, such as those of Debian's alternatives.
fn as_executed(key: String) -> String {
    let path = Path::new(&key);
    let target = path.is_absolute().then(|| path.canonicalize().ok()?.into_os_string().into_string().ok()).flatten();
    target.unwrap_or(key)
}

/// Has a unit of this application, or none, in front while the hold with this cookie lasts. The mode is held in any case.
async fn put_in_front(scheduler: &SchedulerProxy<'_>, application: &str, cookie: u32, front: Option<&Path>) {
    let group = front.and_then(group_of).unwrap_or_default();
    match scheduler.set_hold_foreground_quietly(cookie, &group).await {
        Err(error) if !error.is_unreachable() => {
            let sentence = gettext("{application} is not in front: {error}");
            output::remark(&fill(&sentence, &[("application", &application), ("error", &error)]));
        }
        _ => {}
    }
}

/// The control group of a unit, or of the game that stands for one.
fn group_of(unit: &Path) -> Option<String> {
    match unit.strip_prefix(GAME_MODE) {
        Ok(process) => groups::of_process(process.display()),
        Err(_) => groups::of_unit(unit),
    }
}

/// Reports the executables in a unit that has just started.
async fn look_into(unit: PathBuf, seen: mpsc::Sender<Seen>) {
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        for executable in executables(&unit) {
            if seen.send((unit.clone(), executable)).await.is_err() {
                return;
            }
        }
    }
}

fn own_failure(error: &std::io::Error) -> Failure {
    Failure::new(Kind::Failure, fill(&gettext("Cannot watch this session: {error}."), &[("error", error)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_links_are_about_what_they_lead_to() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("vim.basic"), directory.path().join("vim"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("vim.basic", &link).unwrap();
        let executed = |key: &Path| as_executed(key.to_str().unwrap().to_owned());
        let file = file.canonicalize().unwrap();
        assert_eq!(Path::new(&executed(&link)), file);
        let missing = directory.path().join("missing");
        assert_eq!(Path::new(&executed(&missing)), missing);
        assert_eq!(as_executed("org.gnome.Builder".to_owned()), "org.gnome.Builder");
    }
}
