//! What becomes of calls before the library has them.

use std::time::{Duration, Instant};

use scherzo_api::Error;
use scherzo_api::names::{BUS_NAME, INTERFACE, OBJECT_PATH};
use tokio::time::timeout;
use zbus::Message;
use zbus::message::Flags;

use crate::support::{Client, PATIENCE, Stage};

#[tokio::test]
async fn a_call_that_is_too_long_is_refused_and_the_next_one_answered() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let mode = "x".repeat(64 << 10);
    let error = client.scheduler.set_mode(&mode).await.unwrap_err();
    assert!(matches!(error, Error::LimitReached(_)), "{error}");
    let error = client.scheduler.set_mode("xxx").await.unwrap_err();
    assert!(matches!(error, Error::InvalidMode(_)), "{error}");
}

/// A user has one turn for long answers, which would be lost for a minute.
#[tokio::test]
async fn a_call_without_answer_gives_its_turn_back() {
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let client = Client::new(&stage).await;
    let mut heard = zbus::MessageStream::from(&client.bus);
    let call = || Message::method_call(OBJECT_PATH, "GetHistory").destination(BUS_NAME).interface(INTERFACE);
    for _ in 0..10 {
        let unanswered = call().with_flags(Flags::NO_REPLY_EXPECTED).build(&(0u32,)).unwrap();
        client.bus.send(&unanswered).await.unwrap();
    }
    let answered = call().build(&(0u32,)).unwrap();
    client.bus.send(&answered).await.unwrap();
    let first = async {
        loop {
            let message = futures_util::StreamExt::next(&mut heard).await.unwrap().unwrap();
            if let Some(serial) = message.header().reply_serial() {
                return serial;
            }
        }
    };
    let first = timeout(PATIENCE, first).await.expect("the last call is answered");
    assert_eq!(first, answered.primary_header().serial_num(), "nothing else is");
}

/// What turns cost those who do not flood is printed: the median, the 90th percentile and the longest time.
#[tokio::test]
async fn many_programs_of_a_user_that_read_everything_at_once_are_all_answered() {
    const NR_PROGRAMS: usize = 30;
    const NR_ROUNDS: u32 = 8;
    let stage = Stage::new();
    let _daemon = stage.serve(&[]).await;
    let mut programs = Vec::new();
    for _ in 0..NR_PROGRAMS {
        programs.push(Client::new(&stage).await);
    }
    let mut times = Vec::new();
    for _ in 0..NR_ROUNDS {
        let asked_at = Instant::now();
        let reading = programs.iter().map(async |program| {
            assert_eq!(program.snapshot().await.state, "stopped");
            asked_at.elapsed()
        });
        times.extend(futures_util::future::join_all(reading).await);
        tokio::time::sleep(Duration::from_millis(250).saturating_sub(asked_at.elapsed())).await;
    }
    times.sort_unstable();
    let [median, most, all] = [50, 90, 100].map(|percent| times[(times.len() * percent).div_ceil(100) - 1]);
    eprintln!("{NR_PROGRAMS} programs, every 250 ms: {median:?} / {most:?} / {all:?}");
}
