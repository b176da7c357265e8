//! What becomes of calls before the library has them.

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
