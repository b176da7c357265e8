//! On, off, loaded and anew.

use crate::Refusal;
use scherzo_catalogue::types::State;
use scherzo_model::FailKind;

use super::super::*;
use super::histories::Op;
use super::world::World;
use super::*;

#[test]
fn what_is_wanted_is_loaded_at_the_start() {
    assert_eq!(running().state.view().why.reason, Reason::Default);
}

#[test]
fn nothing_is_answered_before_the_kernel_agrees() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    world.engine_acts();
    assert_eq!((world.answer(id), world.state.view().state), (None, State::Starting));
    world.engine_says(EngineEvent::Loaded);
    assert_eq!(world.answer(id), None, "the engine alone does not count");
    world.kernel = Kernel::Loaded { ops: OURS.into() };
    world.wait(SECOND);
    assert_eq!(world.answer(id), Some(&Ok(())));
    assert!(world.stored.enabled);
}

#[test]
fn a_switch_is_answered_by_the_engine_or_not_at_all() {
    let mut world = running();
    let id = world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    assert_eq!((world.answer(id), world.state.view().choice.mode), (None, Mode::Interactive));
    world.engine_acts();
    assert_eq!((world.answer(id), world.state.view().choice.mode), (Some(&Ok(())), Mode::Fifo));
    let again = world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    assert_eq!(world.answer(again), Some(&Ok(())), "nothing to do");
    let stuck = world.ask(Request::SetMode(RequestedMode::Auto));
    world.wait(SECOND * 19);
    assert_eq!(world.answer(stuck), None, "it may only be slow");
    world.wait(SECOND * 2);
    assert!(matches!(world.answer(stuck), Some(Err(Refusal::Busy(_)))));
    world.engine_acts();
    assert_eq!(world.state.view().choice.mode, Mode::Interactive, "it switches once it is back");
}

#[test]
fn degraded_shows_and_passes() {
    let mut world = running();
    world.degraded = true;
    world.wait(SECOND * 2);
    assert_eq!(world.state.view().state, State::Degraded);
    let asked = world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.wait(SECOND * 4);
    assert_eq!(world.answer(asked), None);
    world.wait(SECOND * 2);
    assert!(matches!(world.answer(asked), Some(Err(Refusal::Busy(_)))), "who is known not to answer is not waited for");
    world.degraded = false;
    world.wait(SECOND * 2);
    assert_eq!(world.state.view().state, State::Running);
}

#[test]
fn what_loading_turned_off_is_turned_off_again_once() {
    let mut world = running();
    world.compaction = true;
    world.wait(SECOND * 2);
    assert!(!world.compaction, "it was not noticed");
    world.compaction = true;
    world.wait(SECOND * 20);
    assert!(world.compaction, "whoever insists is not fought");
    world.engine_says(EngineEvent::HungUp);
    world.calm_down();
    assert_eq!(world.state.view().state, State::Running);
    world.wait(SECOND * 2);
    assert!(!world.compaction, "every load counts anew");
}

#[test]
fn a_loaded_scheduler_is_looked_at_rarely_unless_someone_subscribes() {
    let mut world = running();
    let wakeup = |world: &World| world.state.next_wakeup().unwrap().saturating_sub(world.now);
    for _ in 0..3 {
        let until_looked_at = wakeup(&world);
        world.wait(until_looked_at);
    }
    assert!(wakeup(&world) > SECOND && wakeup(&world) <= SECOND * 2);
    world.ask(Request::Subscribe);
    assert!(wakeup(&world) <= SECOND);
    world.wait(SECOND);
    assert!(wakeup(&world) <= SECOND);
    let mut off = World::new(Desired::default(), Kernel::Idle);
    off.wait(SECOND * 60);
    assert_eq!(off.state.next_wakeup(), None, "nothing to wait for");
}

#[test]
fn a_leftover_scheduler_is_waited_for() {
    let mut world = World::new(Desired { enabled: true, ..Desired::default() }, Kernel::Loaded { ops: OURS.into() });
    world.noted = true;
    world.wait(SECOND);
    assert!(world.process.is_none());
    world.kernel = Kernel::Idle;
    world.wait(SECOND);
    assert!(world.process.is_some());
}

#[test]
fn statistics_are_asked_for_once_however_many_ask() {
    let mut world = running();
    let first = world.ask(Request::GetStats);
    let second = world.ask(Request::GetStats);
    assert_eq!(world.process.as_ref().unwrap().to_do.len(), 1);
    assert_eq!(world.answer(first), None);
    world.engine_acts();
    assert!(world.answer(first).is_some() && world.answer(second).is_some());
}

#[test]
fn statistics_of_a_silent_engine_come_all_the_same() {
    let mut world = running();
    let id = world.ask(Request::GetStats);
    world.wait(SECOND);
    assert_eq!(world.answer(id), Some(&Ok(())));
}

#[test]
fn who_asks_for_statistics_only_takes_half_of_the_room() {
    let mut world = running();
    for user in 1..=4 {
        for _ in 0..32 {
            let id = world.ask_as(user, Request::GetStats);
            assert_eq!(world.answer(id), None);
        }
        let id = world.ask_as(user, Request::GetStats);
        assert!(matches!(world.answer(id), Some(Err(Refusal::LimitReached(_)))), "one user has a part of the room");
    }
    let id = world.ask_as(5, Request::GetStats);
    assert!(matches!(world.answer(id), Some(Err(Refusal::LimitReached(_)))), "{:?}", world.answer(id));
    let id = world.ask(Request::SetEnabled(false));
    assert_eq!(world.answer(id), None, "there is room for a choice");
    world.calm_down();
    assert_eq!(world.answer(id), Some(&Ok(())));
}

#[test]
fn one_user_cannot_take_all_subscriptions() {
    let mut world = running();
    let mut subscribe = |name: u32, uid| {
        let caller = Caller { name: format!(":1.{name}"), uid: Some(uid) };
        let id = world.ask_by(caller, Request::Subscribe);
        world.answer(id).cloned()
    };
    for name in 0..32 {
        assert_eq!(subscribe(name, 1000), Some(Ok(())));
    }
    assert!(matches!(subscribe(32, 1000), Some(Err(Refusal::LimitReached(_)))));
    assert_eq!(subscribe(31, 1000), Some(Ok(())), "subscribing twice is subscribing once");
    assert_eq!(subscribe(33, 1001), Some(Ok(())), "others are not kept from it");
}

#[test]
fn after_a_boot_loading_waits_for_a_person_or_a_while() {
    let desired = Desired { enabled: true, ..Desired::default() };
    let boot = Boot { first_start: true, nr_unclean: 1 };
    let mut world = World::boot(desired, Kernel::Idle, boot);
    world.wait(SECOND * 29);
    let view = world.state.view();
    assert_eq!((view.state, view.why.reason), (State::Starting, Reason::BootDelay));
    assert!(world.process.is_none());
    world.wait(SECOND);
    assert!(world.process.is_some());

    let mut world = World::boot(desired, Kernel::Idle, boot);
    world.happen(Event::Session);
    assert!(world.process.is_some(), "someone has logged in");
    let mut world = World::boot(desired, Kernel::Idle, boot);
    world.ask(Request::SetEnabled(true));
    assert!(world.process.is_some(), "someone has asked");
}

#[test]
fn settings_change_in_place_but_for_what_the_kernel_fixes_at_load() {
    let mut world = running();
    let seq = world.state.next_seq;
    world.apply(Op::Configure(100, false));
    assert_eq!(world.state.next_seq, seq, "rules change nothing that is loaded");
    world.apply(Op::Configure(7, false));
    world.calm_down();
    assert_ne!(world.state.next_seq, seq, "the engine was told");
    assert_eq!(world.process.as_ref().unwrap().run, Run(1));
    let mut settings = world.settings;
    settings.tunables.partial = true;
    world.configure(settings);
    world.calm_down();
    assert_eq!(world.state.view().state, State::Running);
    assert_eq!(world.process.as_ref().unwrap().run, Run(2));
    assert!(world.exits.is_empty());
}

#[test]
fn an_outdated_engine_is_replaced_and_that_is_no_failure() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    for _ in 0..3 {
        world.engine_acts();
        world.apply(Op::EngineFails(FailKind::Outdated));
        world.process_ends(Gone::Code(0));
    }
    assert_eq!((world.answer(id), world.state.run), (None, Run(4)));
    world.calm_down();
    assert_eq!((world.answer(id), world.state.view().state), (Some(&Ok(())), State::Running));
    assert!(world.exits.is_empty(), "{:?}", world.exits);
    assert_eq!(world.history, [HistoryEvent::TurnedOn, HistoryEvent::Loaded]);
}

#[test]
fn an_engine_that_is_outdated_again_and_again_has_no_more_time_than_another() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    let id = world.ask(Request::SetEnabled(true));
    for _ in 0..30 {
        world.engine_acts();
        world.apply(Op::EngineFails(FailKind::Outdated));
        world.process_ends(Gone::Code(0));
        world.wait(SECOND);
    }
    assert!(matches!(world.answer(id), Some(Err(Refusal::LoadFailed(_)))), "{:?}", world.answer(id));
}

/// The kernel keeps the scheduler of the outdated one until the time is over in which that should have loaded.
#[test]
fn an_engine_that_comes_once_the_kernel_has_let_go_has_its_own_time() {
    let mut world = World::new(Desired::default(), Kernel::Idle);
    world.apply(Op::KernelClings(true));
    world.ask(Request::SetEnabled(true));
    world.engine_acts();
    world.apply(Op::EngineFails(FailKind::Outdated));
    world.engine_acts();
    world.wait(SECOND * 18);
    world.apply(Op::KernelClings(false));
    world.calm_down();
    assert_eq!(world.state.view().state, State::Running);
    assert!(world.exits.is_empty(), "{:?}", world.exits);
}

#[test]
fn what_happens_is_remembered() {
    use HistoryEvent::{Ejected, Loaded, Mode as NewMode, NotLoaded, Reverted, TurnedOff, TurnedOn, Unloaded};
    let mut world = World::new(Desired::default(), Kernel::Idle);
    world.ask(Request::SetEnabled(true));
    world.ask(Request::SetEnabled(true));
    world.calm_down();
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.apply(Op::EngineIsKilled);
    world.wait(SECOND * 2);
    world.apply(Op::EngineFails(FailKind::Other));
    world.apply(Op::EngineIsKilled);
    world.calm_down();
    world.ask(Request::SetEnabled(false));
    world.calm_down();
    let expected = [TurnedOn, Loaded, NewMode, Ejected, NotLoaded, Reverted, NewMode, Loaded, TurnedOff, Unloaded];
    assert_eq!(world.history, expected);
}
