//! The service of version 0.1.0 as a program, for scenarios on desktops: its argument is the bus's address.

use scherzo_test_bus::of_0_1_0;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).expect("the address of a bus is an argument");
    of_0_1_0::serve(&address).await;
    std::future::pending::<()>().await;
}
