//! `scherzoctl run` and `scherzoctl hold`: a mode for as long as something lasts.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use scherzo_api::patience;
use scherzo_i18n::{fill, gettext};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::cli::{HoldOptions, RunOptions};
use crate::client::CommandClient;
use crate::failure::{Failure, Kind};
use crate::groups;
use crate::held::{Held, Wanted};
use crate::output::Output;
use crate::signals;

/// What shells add to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

/// A command starts after this time at the latest, whether or not its mode is held by then.
const START: Duration = Duration::from_millis(700);

/// Changes of a hold while a command runs.
enum News {
    Granted,
    Refused(Failure),
    /// Someone chose a mode.
    Released,
    /// Its time is over.
    Over,
}

/// `scherzoctl run`: the command matters more than the hold, so it does not wait for a service that hangs.
pub(crate) async fn run(session: bool, output: &Output, options: &RunOptions) -> Result<ExitCode, Failure> {
    let foreground = options.foreground.as_deref().map(groups::named).transpose();
    let (mode, reason, may_ask) = (options.mode.clone(), options.reason.clone(), options.ask);
    let application = name_of(&options.command);
    let (tell, mut news) = mpsc::channel(4);
    tokio::spawn(async move {
        let taken = async {
            let wanted = Wanted { mode, reason, application, foreground: foreground?, may_ask };
            Held::take(&CommandClient::connect(session).await?, wanted).await
        };
        match taken.await {
            Ok(held) => {
                let _ = tell.send(News::Granted).await;
                keep(held, None, tell).await;
            }
            Err(failure) => drop(tell.send(News::Refused(failure)).await),
        }
    });
    let first = before_start(&mut news).await;
    let is_late = first.is_none();
    match first {
        Some(News::Refused(failure)) => {
            not_held(&options.mode, &failure).report(output);
        }
        Some(_) => {}
        None if options.ask => output.note(&fill(
            &gettext("The mode {mode} is not held yet. The command starts all the same."),
            &[("mode", &options.mode)],
        )),
        None => {
            not_held(&options.mode, &Failure::no_answer()).report(output);
        }
    }
    accompany(output, &options.mode, news, is_late, &options.command).await
}

/// Whether the mode is held; `None` if that is not known by the time that the command has to start.
async fn before_start(news: &mut mpsc::Receiver<News>) -> Option<News> {
    timeout(START, news.recv()).await.ok().flatten()
}

/// `scherzoctl hold`.
pub(crate) async fn hold(client: &CommandClient, output: &Output, options: &HoldOptions) -> Result<ExitCode, Failure> {
    let application = if options.command.is_empty() { "scherzoctl".to_owned() } else { name_of(&options.command) };
    let (mode, reason) = (options.mode.clone(), options.reason.clone());
    let foreground = options.foreground.as_deref().map(groups::named).transpose()?;
    let wanted = Wanted { mode, reason, application, foreground, may_ask: true };
    let mut held = patience::change(&client.bus, Held::take(client, wanted)).await?;
    if !options.command.is_empty() {
        let (tell, news) = mpsc::channel(4);
        tokio::spawn(keep(held, options.seconds, tell));
        return accompany(output, &options.mode, news, false, &options.command).await;
    }
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        released = held.last() => released.map(|()| {
            output.note(&released_sentence());
            ExitCode::SUCCESS
        }),
        () = over(options.seconds) => {
            output.note(&over_sentence());
            Ok(ExitCode::SUCCESS)
        }
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
    }
}

/// Waits until so many seconds have passed; without a number for ever.
async fn over(seconds: Option<u32>) {
    match seconds {
        Some(seconds) => sleep(Duration::from_secs(seconds.into())).await,
        None => std::future::pending().await,
    }
}

/// Keeps a hold until it is released or lost, or its time is over.
async fn keep(mut held: Held, seconds: Option<u32>, tell: mpsc::Sender<News>) {
    let news = tokio::select! {
        last = held.last() => last.map_or_else(News::Refused, |()| News::Released),
        () = over(seconds) => News::Over,
    };
    if matches!(news, News::Over) {
        held.release().await;
    }
    let _ = tell.send(news).await;
}

/// The failure to hold a mode, with what follows from it.
fn not_held(mode: &str, failure: &Failure) -> Failure {
    let sentence = gettext("The mode {mode} is not held: {problem}");
    Failure::new(failure.kind(), fill(&sentence, &[("mode", &mode), ("problem", &failure.sentence())]))
}

fn released_sentence() -> String {
    gettext("The hold was released, because someone chose a mode.")
}

fn over_sentence() -> String {
    gettext("The hold has ended, because its time is over.")
}

/// The command's file name, as people know it.
fn name_of(command: &[OsString]) -> String {
    let name = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().chars().filter(|letter| !letter.is_control()).take(60).collect()
}

/// Runs the command to its end, and passes signals on to it. If the hold `is_late`, a message says when it is granted.
async fn accompany(
    output: &Output,
    mode: &str,
    mut news: mpsc::Receiver<News>,
    mut is_late: bool,
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut arrived = signals::listen()?;
    let mut child = start(program, arguments)?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(code_of(status?)),
            Some(signal) = arrived.recv() => signals::pass_on(signal, child.id()),
            Some(news) = news.recv() => match news {
                News::Granted if std::mem::take(&mut is_late) => {
                    output.note(&fill(&gettext("The mode {mode} is held now."), &[("mode", &mode)]));
                }
                News::Granted => {}
                News::Refused(failure) => {
                    not_held(mode, &failure).report(output);
                }
                News::Released => output.note(&released_sentence()),
                News::Over => output.note(&over_sentence()),
            },
        }
    }
}

fn start(program: &OsString, arguments: &[OsString]) -> Result<Child, Failure> {
    tokio::process::Command::new(program).args(arguments).spawn().map_err(|error| {
        let kind = if error.kind() == std::io::ErrorKind::NotFound { Kind::NotFound } else { Kind::CannotRun };
        let sentence = gettext("Cannot run {program}: {error}.");
        Failure::new(kind, fill(&sentence, &[("program", &program.display()), ("error", &error)]))
    })
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| SIGNALLED + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_starts_within_a_second_whatever_happens() {
        let (tell, mut news) = mpsc::channel(4);
        let asked = Instant::now();
        assert!(before_start(&mut news).await.is_none(), "nothing is known");
        let waited = asked.elapsed();
        assert!((START..=Duration::from_secs(1)).contains(&waited), "it waited {waited:?}");

        tell.send(News::Granted).await.expect("the receiver is there");
        let asked = Instant::now();
        assert!(matches!(before_start(&mut news).await, Some(News::Granted)));
        assert_eq!(asked.elapsed(), Duration::ZERO, "what is known is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_waits_for_a_hold_that_comes_soon() {
        let (tell, mut news) = mpsc::channel(4);
        tokio::spawn(async move {
            sleep(Duration::from_millis(500)).await;
            let _ = tell.send(News::Granted).await;
        });
        assert!(matches!(before_start(&mut news).await, Some(News::Granted)));
    }

    #[test]
    fn commands_are_named_by_their_file() {
        assert_eq!(name_of(&["/usr/games/supertux".into(), "--fast".into()]), "supertux");
        assert_eq!(name_of(&["a\nb".into()]), "ab");
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(code_of(ExitStatus::from_raw(7 << 8)), ExitCode::from(7));
        assert_eq!(code_of(ExitStatus::from_raw(15)), ExitCode::from(143));
    }
}
