//! A bus that the tests play: what it sends, and what it does not take.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::*;

#[tokio::test]
async fn abstract_addresses_are_connected_to_and_those_of_other_kinds_refused() {
    let name = format!("scherzo-test-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let connect = async |address: &str| BusSocket::connect(&address.try_into().unwrap(), Arc::default()).await;
    connect(&format!("unix:abstract={name}")).await.unwrap();
    connect("unix:path=/nonexistent").await.unwrap_err();
    connect("tcp:host=localhost,port=1").await.unwrap_err();
}

#[tokio::test]
async fn little_stands_before_the_next_answer() {
    let name = format!("scherzo-test-unread-{}", std::process::id());
    let _bus = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let address = format!("unix:abstract={name}").as_str().try_into().unwrap();
    let (_, mut answers) = BusSocket::connect(&address, Arc::default()).await.unwrap().split().take();
    let mut nr_unread = 0;
    while let Ok(nr_written) = timeout(Duration::from_millis(200), answers.sendmsg(&[0; 1000], &[])).await {
        nr_unread += nr_written.unwrap();
    }
    assert!((1000..3 * UNREAD_BYTES).contains(&nr_unread), "{nr_unread}");
}

fn state_call(sender: &str, serial: u32) -> Vec<u8> {
    let call = Message::method_call("/org/scherzo/Scheduler1", "Get").interface("org.freedesktop.DBus.Properties");
    let call = call.destination(INTERFACE).sender(sender).serial(serial.try_into().unwrap());
    call.build(&(INTERFACE, "State")).unwrap().data().to_vec()
}

/// More than may wait of a user's calls, and the bus takes no refusal.
#[tokio::test]
async fn calls_beyond_the_limit_do_not_keep_others_waiting() {
    let (here, mut bus) = UnixStream::pair().unwrap();
    let callers: Arc<Callers> = Arc::default();
    callers.know(":1.7".into(), Some(65534));
    callers.know(":1.8".into(), Some(1000));
    let (mut calls, _answers) = BusSocket { stream: here, callers }.split().take();
    let flooding = tokio::spawn(async move {
        for serial in 1..20_000 {
            bus.write_all(&state_call(":1.7", serial)).await.unwrap();
        }
        bus.write_all(&state_call(":1.8", 1)).await.map(|()| bus).unwrap()
    });
    let mut senders = Vec::new();
    while senders.last().is_none_or(|sender| sender != ":1.8") {
        let (mut bytes, mut fds) = (Vec::new(), Vec::new());
        let next = calls.receive_message(1, &mut bytes, &mut fds);
        let call = timeout(Duration::from_mins(1), next).await.expect("in time").unwrap();
        senders.push(call.header().sender().unwrap().to_string());
    }
    assert_eq!(senders, [":1.7", ":1.8"], "a call that is not answered yet is followed by others'");
    assert!(!calls.refusals.are_empty(), "none was refused");
    drop(flooding.await.unwrap());
}

#[tokio::test]
async fn beside_a_flood_the_bus_always_has_a_question_to_read() {
    let (here, bus) = UnixStream::pair().unwrap();
    let (from_service, mut to_service) = bus.into_split();
    let callers: Arc<Callers> = Arc::default();
    callers.know(":1.7".into(), Some(65534));
    callers.know(":1.8".into(), Some(1000));
    let (mut calls, _answers) = BusSocket { stream: here, callers }.split().take();
    for serial in 1..100 {
        to_service.write_all(&state_call(":1.7", serial)).await.unwrap();
    }
    let bus = tokio::spawn(async move {
        let mut incoming = Incoming::new(from_service);
        let mut nr_questions = 0;
        while nr_questions < 3 {
            let Some(arrived) = incoming.next().unwrap() else {
                incoming.read().await.unwrap();
                continue;
            };
            let message = parse(arrived.bytes, 0).await.unwrap();
            if message.header().member().is_some_and(|member| member == "Ping") {
                nr_questions += 1;
                let pong = Message::method_return(&message.header()).sender(BUS).build(&()).unwrap();
                to_service.write_all(pong.data()).await.unwrap();
            }
        }
        to_service.write_all(&state_call(":1.8", 1)).await.map(|()| (incoming, to_service)).unwrap()
    });
    for sender in [":1.7", ":1.8"] {
        let (mut bytes, mut fds) = (Vec::new(), Vec::new());
        let next = calls.receive_message(1, &mut bytes, &mut fds);
        let call = timeout(Duration::from_mins(1), next).await.expect("in time").unwrap();
        assert_eq!(call.header().sender().unwrap(), sender, "the bus's answers are not for the library");
    }
    drop(bus.await.unwrap());
}

#[test]
fn methods_that_ask_are_those_of_the_interface() {
    let interface = include_str!("../../../../dbus/org.scherzo.Scheduler1.xml");
    for member in ASKING {
        assert!(interface.contains(&format!("<method name=\"{member}\">")), "{member}");
    }
    let documented = interface.split("<!--").filter_map(|part| part.split_once("-->"));
    for (comment, element) in documented {
        let method = element.trim_start().strip_prefix("<method name=\"").and_then(|rest| rest.split('"').next());
        let asks = comment.contains("polkit action") && !comment.contains("polkit action that a change needs");
        if let Some(method) = method.filter(|_| asks) {
            assert!(ASKING.contains(&method), "{method}");
        }
    }
}
