//! What goes wrong, and what follows.

use crate::Refusal;
use scherzo_catalogue::types::State;
use scherzo_model::WIRE_VERSION;
use scherzo_model::{ExitKind, FailKind};

use super::super::*;
use super::histories::Op;
use super::world::World;
use super::*;

#[test]
fn a_killed_engine_is_back_within_a_second() {
    let mut world = running();
    world.apply(Op::EngineIsKilled);
    come_back(&mut world);
    // Right after it has loaded: then there is a moment to wait.
    world.apply(Op::EngineIsKilled);
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (State::Fallback, Reason::EngineKilled));
    assert!(view.last_error.text.contains("signal 9"), "{}", view.last_error.text);
    assert_eq!(world.exits, [Reason::EngineKilled, Reason::EngineKilled]);
    come_back(&mut world);
}

/// Within half a second, if the engine takes none.
fn come_back(world: &mut World) {
    world.wait(SECOND / 2);
    for _ in 0..3 {
        world.engine_acts();
    }
    assert_eq!(world.state.view().state, State::Running);
}

#[test]
fn an_engine_that_has_run_is_replaced_without_delay() {
    let mut world = running();
    world.wait(SECOND);
    let nr_boot_notes = world.nr_boot_notes;
    world.process_ends(Gone::Signal(9));
    assert_eq!(
        (world.state.view().state, world.exits.as_slice()),
        (State::Starting, [Reason::EngineKilled].as_slice())
    );
    assert_eq!(world.nr_boot_notes, nr_boot_notes, "it waits for the disk");
}

#[test]
fn before_it_is_known_why_the_kernel_let_go_that_it_did_is_said() {
    let mut world = running();
    world.kernel = Kernel::Idle;
    world.happen(Event::Kernel(Kernel::Idle));
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (State::Fallback, Reason::Leftover));
    world.happen(Event::Kernel(Kernel::Loaded { ops: "lavd".into() }));
    assert_eq!(world.state.view().state, State::Foreign);
}

#[test]
fn what_the_kernel_does_not_let_go_of_is_told_and_looked_at() {
    let mut world = running();
    world.apply(Op::KernelClings(true));
    world.apply(Op::EngineIsKilled);
    let told = |world: &World| (world.state.view().state, world.state.view().why.reason);
    assert_eq!(told(&world), (State::Running, Reason::Leftover), "no fallback, and no advice about others' schedulers");
    world.wait(SECOND * 60);
    assert_eq!(told(&world), (State::Running, Reason::Leftover));
    let enabling = world.ask(Request::SetEnabled(true));
    assert!(matches!(world.answer(enabling), Some(Err(Refusal::Busy(_)))), "{:?}", world.answer(enabling));
    // Nobody tells that it has let go.
    world.kernel_clings = false;
    world.kernel = Kernel::Idle;
    world.wait(SECOND * 3);
    for _ in 0..3 {
        world.engine_acts();
    }
    assert_eq!(world.state.view().state, State::Running);
    assert!(world.process.is_some());
}

#[test]
fn what_the_kernel_does_not_let_go_of_is_not_called_off() {
    let mut world = running();
    world.apply(Op::KernelClings(true));
    let id = world.ask(Request::SetEnabled(false));
    world.engine_acts();
    world.wait(SECOND * 11);
    assert!(matches!(world.answer(id), Some(Err(Refusal::Busy(_)))), "{:?}", world.answer(id));
    assert_eq!((world.state.view().state, world.state.view().enabled), (State::Running, false));
    world.apply(Op::KernelClings(false));
    assert_eq!(world.state.view().state, State::Stopped);
}

#[test]
fn what_could_not_be_stored_is_told_and_stored_later() {
    let mut world = running();
    world.apply(Op::DiskFull(true));
    let id = world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.engine_acts();
    assert_eq!((world.answer(id), world.stored.mode), (Some(&Ok(())), RequestedMode::Auto), "it takes effect");
    assert_eq!(world.state.view().choice.mode, Mode::Fifo);
    assert!(world.state.view().errors().contains("cannot write"), "{:?}", world.state.view());
    world.wait(SECOND * 60);
    assert!(world.state.view().not_stored.contains_key(&Stored::Desired));
    world.apply(Op::DiskFull(false));
    world.wait(SECOND * 6);
    assert_eq!(world.stored.mode, RequestedMode::Mode(Mode::Fifo));
    assert_eq!(world.state.view().errors(), "");
}

#[test]
fn what_could_not_be_stored_is_tried_once_more_when_the_service_ends() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    world.apply(Op::DiskFull(true));
    world.ask(Request::SetPreemption(false));
    world.apply(Op::DiskFull(false));
    world.apply(Op::Shutdown);
    assert!(world.ended && !world.stored.preemption);
}

#[test]
fn the_service_ends_although_the_kernel_does_not_let_go() {
    let mut world = running();
    world.apply(Op::KernelClings(true));
    world.apply(Op::EngineIsKilled);
    world.apply(Op::Shutdown);
    world.wait(SECOND * 11);
    assert!(world.ended);
}

#[test]
fn however_often_it_is_killed_it_comes_back_at_once() {
    let mut world = running();
    for _ in 0..200 {
        world.apply(Op::EngineIsKilled);
        come_back(&mut world);
    }
    assert_eq!((world.quarantine.as_ref(), world.exits.len()), (None, 200));
}

#[test]
fn an_engine_that_hangs_at_its_end_is_no_killed_engine() {
    let mut world = running();
    world.apply(Op::EngineHangsUp);
    world.wait(SECOND * 5);
    assert_eq!(world.exits, [Reason::EngineTimeout]);
    let mut world = running();
    world.apply(Op::EngineCrashes);
    assert_eq!(world.exits, [Reason::EngineCrashed]);
}

/// Giving back its memory took longer than it has, on a busy machine.
#[test]
fn an_engine_that_was_ended_and_is_slow_to_die_counts_as_killed() {
    for (signal, reason) in [(15, Reason::EngineKilled), (11, Reason::EngineCrashed), (9, Reason::EngineTimeout)] {
        let mut world = running();
        world.dying_of = Some(signal);
        world.apply(Op::EngineHangsUp);
        world.wait(SECOND * 5);
        assert_eq!(world.exits, [reason], "{signal}");
    }
}

#[test]
fn a_choice_outlasts_an_engine_that_is_slow_to_die() {
    for (signal, mode) in
        [(9, RequestedMode::Mode(Mode::Fifo)), (15, RequestedMode::Mode(Mode::Fifo)), (11, RequestedMode::Auto)]
    {
        let mut world = running();
        world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
        world.engine_acts();
        world.dying_of = Some(signal);
        world.apply(Op::EngineHangsUp);
        world.wait(SECOND * 5);
        assert_eq!(world.stored.mode, mode, "{signal}");
    }
}

#[test]
fn a_first_attempt_that_fails_leaves_it_off() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.apply(Op::EngineFails(FailKind::MalformedBtf));
    world.apply(Op::EngineIsKilled);
    assert!(matches!(world.answer(id), Some(Err(Refusal::NotSupported(_)))), "{:?}", world.answer(id));
    let view = world.state.view();
    assert_eq!((view.state, view.enabled), (State::Unsupported, false));
    assert!(!world.stored.enabled);
    world.wait(SECOND * 120);
    assert!(world.process.is_none(), "not tried again");
}

#[test]
fn a_kernel_that_is_known_to_refuse_is_not_tried() {
    for enabled in [false, true] {
        let mut world = World::unfit(Desired { enabled, ..Desired::default() }, Kernel::Idle);
        let view = world.state.view();
        assert_eq!((view.state, view.why.reason), (State::Unsupported, Reason::MalformedBtf));
        assert_eq!(world.state.next_wakeup(), None, "there is nothing to wait for");
        let id = world.ask(Request::SetEnabled(true));
        assert!(matches!(world.answer(id), Some(Err(Refusal::NotSupported(_)))), "{:?}", world.answer(id));
        assert_eq!(world.state.view().enabled, enabled, "refused without having changed anything");
        world.ask(Request::SetEnabled(false));
        world.wait(SECOND * 120);
        assert_eq!((world.state.view().state, world.state.view().enabled), (State::Unsupported, false));
        assert!(world.process.is_none());
    }
    let world = World::unfit(Desired::default(), Kernel::Loaded { ops: "lavd".into() });
    assert_eq!(world.state.view().state, State::Foreign, "a scheduler that runs all the same");
}

#[test]
fn a_foreign_scheduler_is_named_and_left_alone() {
    let mut world = World::new(Desired::default(), Kernel::Loaded { ops: "lavd".into() });
    let id = world.ask(Request::SetEnabled(true));
    let Some(Err(Refusal::Conflict(sentence))) = world.answer(id) else { panic!("{:?}", world.answer(id)) };
    assert!(sentence.contains("lavd"));
    assert_eq!(world.state.view().state, State::Foreign);
    assert!(!world.state.view().enabled && world.process.is_none());
}

/// The kernel tells that a scheduler goes before it is gone, and says nothing afterwards.
#[test]
fn a_kernel_in_transition_is_looked_at_until_it_is_over() {
    let desired = Desired { enabled: true, ..Desired::default() };
    let going = Kernel::Changing { ops: Some("lavd".into()) };
    for ours in [false, true] {
        let kernel = if ours { Kernel::Changing { ops: None } } else { Kernel::Loaded { ops: "lavd".into() } };
        let mut world = World::new(desired, kernel);
        if !ours {
            world.kernel = going.clone();
            world.happen(Event::Kernel(going.clone()));
        }
        world.wait(SECOND);
        assert!(world.process.is_none(), "nothing is loaded into a kernel that is not done");
        world.kernel = Kernel::Idle;
        world.wait(SECOND);
        assert!(world.process.is_some(), "it was never looked at again");
    }
}

#[test]
fn someone_who_unloads_through_the_kernel_is_obeyed() {
    let mut world = running();
    world.apply(Op::EngineEnds(ExitKind::Kernel));
    world.apply(Op::EngineIsKilled);
    world.wait(SECOND * 600);
    assert_eq!(world.state.view().why.reason, Reason::KernelUnloaded);
    assert!(world.process.is_none());
}

#[test]
fn a_hanging_engine_is_given_up_in_time() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.wait(SECOND * 19);
    assert!(matches!(world.answer(id), Some(Err(Refusal::LoadFailed(_)))), "{:?}", world.answer(id));
}

#[test]
fn other_versions_are_refused() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.engine_says(EngineEvent::Hello { wire_version: WIRE_VERSION + 1 });
    let Some(Err(Refusal::LoadFailed(sentence))) = world.answer(id) else { panic!("{:?}", world.answer(id)) };
    assert!(sentence.contains("versions"), "{sentence}");
}

#[test]
fn two_unclean_boots_are_enough_until_someone_asks() {
    let desired = Desired { enabled: true, ..Desired::default() };
    let mut world = World::boot(desired, Kernel::Idle, Boot { first_start: true, nr_unclean: 2 });
    world.happen(Event::Session);
    world.wait(SECOND * 600);
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (State::Fallback, Reason::UncleanBoots));
    assert!(world.process.is_none());
    world.ask(Request::SetEnabled(true));
    world.calm_down();
    assert_eq!(world.state.view().state, State::Running);
    assert_eq!(world.boot_watch, BootWatch::On);
    world.wait(SECOND * 301);
    assert_eq!(world.boot_watch, BootWatch::Over, "all is well");
}

#[test]
fn a_failure_does_not_forgive_earlier_boots_and_turning_off_does() {
    let mut world = running();
    assert_eq!(world.boot_watch, BootWatch::On);
    world.apply(Op::EngineCrashes);
    assert_eq!((world.process.is_none(), world.boot_watch), (true, BootWatch::Paused));
    world.wait(SECOND * 2);
    assert_eq!(world.boot_watch, BootWatch::On, "it is tried again");
    world.ask(Request::SetEnabled(false));
    world.calm_down();
    assert_eq!(world.boot_watch, BootWatch::Over);
}

#[test]
fn after_starvation_it_waits_until_the_service_itself_gets_a_cpu_in_time() {
    let mut world = running();
    world.apply(Op::EngineEnds(ExitKind::RtStarvation));
    world.apply(Op::EngineIsKilled);
    assert_eq!(world.state.view().why.reason, Reason::RtStarvation);
    for _ in 0..20 {
        // Real-time programs are still there: every wake-up comes late.
        world.now = world.state.next_wakeup().unwrap() + SECOND / 2;
        world.happen(Event::Tick);
        assert!(world.process.is_none());
    }
    world.wait(SECOND * 5);
    world.calm_down();
    assert_eq!(world.state.view().state, State::Running);
}

/// What the shell asks before it keeps a standby engine.
#[test]
fn another_engine_would_follow_as_long_as_the_scheduler_is_wanted_and_works() {
    let mut world = running();
    assert!(world.state.would_load_again());
    world.kernel = Kernel::Loaded { ops: "lavd".into() };
    world.happen(Event::Kernel(world.kernel.clone()));
    assert!(!world.state.would_load_again(), "beside somebody else's");
    let mut world = running();
    world.apply(Op::EngineIsKilled);
    assert!(world.state.would_load_again());
    world.ask(Request::SetEnabled(false));
    assert!(!world.state.would_load_again(), "although it is turned off");
    let mut world = running();
    world.apply(Op::EngineEnds(ExitKind::Kernel));
    world.apply(Op::EngineIsKilled);
    assert!(!world.state.would_load_again(), "although it has given up");
    let mut world = running();
    world.happen(Event::Shutdown);
    assert!(!world.state.would_load_again(), "although the service ends");
}
