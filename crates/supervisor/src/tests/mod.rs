//! The supervisor against a small model of what is around it, by theme.

mod choosing;
mod disk;
mod failures;
mod histories;
mod invariants;
mod loading;
mod supervision;
mod table;
mod world;

use std::time::Duration;

use scherzo_catalogue::types::{Reason, State};
use scherzo_model::Seat;

use super::*;
use world::World;

const OURS: &str = "scherzo_test";
const SECOND: Duration = Duration::from_secs(1);

fn hold(mode: Mode) -> HoldRequest {
    HoldRequest {
        mode,
        reason: "a test".into(),
        application: "org.example.Test".into(),
        tie: Tie::Connection,
        seconds: None,
    }
}

fn running() -> World {
    let mut world = World::new(Desired { enabled: true, ..Desired::default() }, Kernel::Idle);
    world.calm_down();
    assert_eq!(world.state.view().state, State::Running);
    world
}

fn decided(world: &World) -> (Mode, Reason) {
    let view = world.state.view();
    (view.choice.mode, view.why.reason)
}
