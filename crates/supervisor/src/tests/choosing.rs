//! Choices, holds and power.

use crate::Refusal;

use super::super::*;
use super::histories::Op;
use super::*;

#[test]
fn holds_end_with_their_holder() {
    let mut world = running();
    world.ask_as(1, Request::HoldMode(hold(Mode::LowPower)));
    world.ask_as(2, Request::HoldMode(hold(Mode::Fifo)));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::LowPower, Reason::Hold));
    world.apply(Op::PeerGone(1));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Hold));
    world.apply(Op::PeerGone(2));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Interactive, Reason::Default));
    assert!(world.released.is_empty() && world.watched.is_empty());
}

#[test]
fn a_choice_releases_holds_and_tells_their_holders() {
    let mut world = running();
    world.ask_as(1, Request::HoldMode(hold(Mode::LowPower)));
    world.ask_as(2, Request::HoldMode(hold(Mode::LowPower)));
    world.ask(Request::ReleaseMode(1));
    assert_eq!(world.released, [(":1.1".to_owned(), 1)], "someone else released it");
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    assert_eq!(world.released.last(), Some(&(":1.2".to_owned(), 2)));
    let gone = world.ask(Request::ReleaseMode(2));
    assert!(matches!(world.answer(gone), Some(Err(Refusal::NoSuchHold(_)))));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    assert_eq!(world.stored.chosen_by, Some(1000));
    world.ask(Request::SetMode(RequestedMode::Auto));
    assert_eq!(world.stored.chosen_by, None);
}

#[test]
fn a_choice_for_a_time_ends_then_and_survives_a_restart() {
    let mut world = running();
    for (mode, seconds) in [(Mode::Fifo, 0), (Mode::Fifo, u32::MAX)] {
        let asked = world.ask(Request::SetModeFor(mode, seconds));
        assert!(matches!(world.answer(asked), Some(Err(Refusal::InvalidArgs(_)))));
    }
    assert_eq!(decided(&world), (Mode::Interactive, Reason::Default), "refused, it has changed nothing");
    world.ask(Request::SetModeFor(Mode::Fifo, 600));
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    assert!(
        world.stored.chosen_until_s.is_some() && world.stored.chosen_until_s == world.state.view().requested_until_s
    );
    world.wait(300 * SECOND);
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    world.wait(302 * SECOND);
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::Interactive, Reason::Default));
    assert_eq!((world.stored.mode, world.stored.chosen_until_s), (RequestedMode::Auto, None));

    world.ask(Request::SetModeFor(Mode::Fifo, 600));
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::LowPower)));
    assert_eq!(world.state.view().requested_until_s, None, "another choice has no end");
    let stored = Desired { mode: RequestedMode::Mode(Mode::Fifo), chosen_until_s: Some(1), ..world.stored };
    let late = World::new(stored, Kernel::Idle);
    assert_eq!(late.state.view().requested_mode, RequestedMode::Auto, "it has ended while the service was not there");
}

#[test]
fn what_was_asked_for_a_time_has_another_end_after_the_machine_has_slept() {
    const ASLEEP_S: u64 = 8 * 3_600;
    let mut world = running();
    world.ask_as(1, Request::HoldMode(HoldRequest { seconds: Some(600), ..hold(Mode::LowPower) }));
    world.engine_acts();
    let ends = |world: &World| {
        let view = world.state.view();
        (view.requested_until_s, view.holds.first().and_then(|hold| hold.until_s))
    };
    let (_, held_until_s) = ends(&world);
    world.apply(Op::ClockMoves(ASLEEP_S as i32));
    assert_eq!(ends(&world), (None, held_until_s.map(|until_s| until_s + ASLEEP_S)));
    world.ask(Request::SetModeFor(Mode::Fifo, 600));
    world.engine_acts();
    let (chosen_until_s, _) = ends(&world);
    world.apply(Op::ClockMoves(-60));
    assert_eq!(ends(&world).0, chosen_until_s.map(|until_s| until_s - 60));
    assert_eq!(world.stored.chosen_until_s, ends(&world).0, "the service may be restarted");
    world.wait(590 * SECOND);
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    world.wait(12 * SECOND);
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::Interactive, Reason::Default));
}

#[test]
fn a_stored_end_stays_when_the_clock_is_set() {
    let mut world = running();
    world.ask(Request::SetModeFor(Mode::Fifo, 600));
    world.apply(Op::Restart);
    let until_s = world.state.view().requested_until_s;
    assert!(until_s.is_some());
    world.apply(Op::ClockMoves(100));
    assert_eq!(world.state.view().requested_until_s, until_s);
    world.apply(Op::ClockMoves(600));
    assert_eq!(world.state.view().requested_mode, RequestedMode::Auto);
}

#[test]
fn holds_end_with_their_time_or_their_descriptor() {
    let mut world = running();
    world.ask_as(1, Request::HoldMode(HoldRequest { seconds: Some(60), ..hold(Mode::LowPower) }));
    world.ask_as(2, Request::HoldMode(HoldRequest { tie: Tie::Descriptor, ..hold(Mode::Fifo) }));
    world.apply(Op::PeerGone(2));
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::LowPower, Reason::Hold));
    world.wait(62 * SECOND);
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Hold), "who has left the bus holds it by its descriptor");
    assert_eq!(world.released, [(":1.1".to_owned(), 1)]);
    world.happen(Event::HoldClosed(2));
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::Interactive, Reason::Default));
    world.happen(Event::HoldClosed(2));
}

#[test]
fn unplugging_ends_a_choice_within_a_second() {
    let mut world = running();
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Mains))));
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.calm_down();
    assert_eq!(decided(&world), (Mode::Fifo, Reason::Choice));
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Battery))));
    world.wait(SECOND / 2);
    world.engine_acts();
    assert_eq!(decided(&world), (Mode::LowPower, Reason::OnBattery));
    assert_eq!(world.state.view().requested_mode, RequestedMode::Auto);
    assert!(world.state.view().on_battery);
}

#[test]
fn a_profile_is_held_while_low_power_is_in_effect_and_does_not_hold_itself() {
    let mut world = running();
    let settings = Settings { drive_power_profile: true, ..Settings::default() };
    world.settings = settings;
    world.happen(Event::Settings { settings, by: None });
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Mains))));
    world.apply(Op::Power(PowerEvent::Profile(Some("balanced".into()))));
    world.wait(SECOND * 9);
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Battery))));
    world.calm_down();
    assert_eq!((decided(&world), world.profile_held), ((Mode::LowPower, Reason::OnBattery), true));
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Mains))));
    world.calm_down();
    assert_eq!((decided(&world), world.profile_held), ((Mode::Interactive, Reason::PowerProfile), false));

    world.apply(Op::Power(PowerEvent::Source(Some(Source::Battery))));
    world.calm_down();
    world.apply(Op::Power(PowerEvent::Profile(Some("balanced".into()))));
    world.calm_down();
    assert_eq!((decided(&world), world.profile_held), ((Mode::Interactive, Reason::PowerProfileChanged), false));
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::LowPower)));
    world.calm_down();
    assert!(world.profile_held);
    world.ask(Request::SetEnabled(false));
    world.calm_down();
    assert!(!world.profile_held, "nothing is held while nothing runs");
}

#[test]
fn unplugging_while_the_service_is_not_there_ends_a_choice_too() {
    for (later, kept) in [(Source::Mains, RequestedMode::Mode(Mode::Fifo)), (Source::Battery, RequestedMode::Auto)] {
        let mut world = running();
        world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
        // UPower comes later than the choice.
        world.apply(Op::Power(PowerEvent::Source(Some(Source::Mains))));
        world.calm_down();
        world.apply(Op::Restart);
        world.calm_down();
        assert_eq!(world.state.view().requested_mode, RequestedMode::Mode(Mode::Fifo), "nobody knows yet");
        world.apply(Op::Power(PowerEvent::Source(Some(later))));
        world.calm_down();
        assert_eq!((world.state.view().requested_mode, world.stored.mode), (kept, kept));
    }
}

#[test]
fn an_engine_is_answered_for_when_it_has_switched() {
    let mut world = running();
    let asked = world.ask(Request::SetEngine(Seat::User));
    assert_eq!((world.answer(asked), world.state.view().choice.seat), (None, Seat::Kernel));
    world.engine_acts();
    assert_eq!((world.answer(asked), world.state.view().choice.seat), (Some(&Ok(())), Seat::User));
    assert_eq!(world.stored.seat, Some(Seat::User));
    world.ask(Request::SetEngine(Seat::Kernel));
    world.calm_down();
    assert_eq!((world.state.view().choice.seat, world.stored.seat), (Seat::Kernel, None), "as the setting says");
}

#[test]
fn the_engine_is_told_what_is_in_front_and_that_nothing_is_any_more() {
    let mut world = running();
    let group = |cgroup| Some(ForegroundGroup { path: format!("/{cgroup}"), cgroup });
    let in_front = |world: &super::world::World| world.state.view().choice.foreground_cgroup;
    let asked = world.ask(Request::SetForeground(group(7)));
    assert_eq!((world.answer(asked), in_front(&world)), (None, 0));
    world.engine_acts();
    assert_eq!((world.answer(asked), in_front(&world)), (Some(&Ok(())), 7));
    let (mode, stored) = (world.state.view().choice.mode, world.stored);

    // One that replaces the engine is told as well.
    world.process_ends(Gone::Signal(9));
    world.calm_down();
    assert_eq!((in_front(&world), world.state.view().foreground.unwrap().group), (7, group(7).unwrap()));

    let other = Caller { name: ":1.77".into(), uid: Some(1001) };
    world.ask_by(other.clone(), Request::SetForeground(group(8)));
    world.calm_down();
    assert_eq!(in_front(&world), 8);
    world.happen(Event::PeerGone(other.name));
    world.calm_down();
    assert_eq!(in_front(&world), 7);
    world.ask(Request::SetForeground(None));
    world.calm_down();
    assert_eq!((in_front(&world), world.state.view().foreground), (0, None));
    assert_eq!((world.state.view().choice.mode, world.stored), (mode, stored), "nothing else changes, or is kept");
}

/// Has a new hold name a group, with whose number the hold is numbered as well.
fn hold_in_front(world: &mut super::world::World, caller: u8, wanted: HoldRequest) -> u32 {
    world.ask_as(caller, Request::HoldMode(wanted));
    let cookie = world.state.view().holds.last().unwrap().cookie;
    let group = ForegroundGroup { path: format!("/{cookie}"), cgroup: cookie.into() };
    world.ask_as(caller, Request::SetHoldForeground(cookie, Some(group)));
    world.calm_down();
    assert_eq!(world.state.view().choice.foreground_cgroup, cookie.into());
    cookie
}

#[test]
fn what_a_hold_puts_in_front_ends_with_it_however_that_ends() {
    type End = fn(&mut super::world::World, u32);
    let mut world = running();
    let ends: [(HoldRequest, End); 5] = [
        (hold(Mode::Fifo), |world, _| world.apply(Op::PeerGone(1))),
        (hold(Mode::Fifo), |world, cookie| {
            world.ask_as(1, Request::ReleaseMode(cookie));
        }),
        (hold(Mode::Fifo), |world, _| {
            world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
        }),
        (HoldRequest { tie: Tie::Descriptor, ..hold(Mode::Fifo) }, |world, cookie| {
            world.apply(Op::PeerGone(1));
            assert_eq!(world.state.view().choice.foreground_cgroup, cookie.into(), "the descriptor is open");
            world.happen(Event::HoldClosed(cookie));
        }),
        (HoldRequest { seconds: Some(60), ..hold(Mode::Fifo) }, |world, _| world.wait(62 * SECOND)),
    ];
    for (wanted, end) in ends {
        let cookie = hold_in_front(&mut world, 1, wanted.clone());
        end(&mut world, cookie);
        world.calm_down();
        assert_eq!(world.state.view().choice.foreground_cgroup, 0, "{wanted:?}");
    }
}

#[test]
fn only_its_holder_has_a_hold_put_something_in_front() {
    let mut world = running();
    let cookie = hold_in_front(&mut world, 1, hold(Mode::Fifo));
    let other = ForegroundGroup { path: "/other".into(), cgroup: 99 };
    for (caller, cookie) in [(2, cookie), (1, cookie + 1)] {
        let asked = world.ask_as(caller, Request::SetHoldForeground(cookie, Some(other.clone())));
        assert!(matches!(world.answer(asked), Some(Err(Refusal::NoSuchHold(_)))), "{caller} {cookie}");
    }
    world.calm_down();
    assert_eq!(world.state.view().choice.foreground_cgroup, cookie.into());
    world.settings.rules.holds = false;
    world.happen(Event::Settings { settings: world.settings, by: None });
    world.calm_down();
    assert_eq!(world.state.view().choice.foreground_cgroup, 0, "holds are ignored");
}

#[test]
fn an_engine_counts_until_the_setting_changes() {
    let mut world = running();
    let with = |world: &mut super::world::World, kernel_seat| {
        world.settings.tunables.kernel_seat = kernel_seat;
        world.happen(Event::Settings { settings: world.settings, by: None });
        world.calm_down();
        world.state.view().choice.seat
    };
    world.ask(Request::SetEngine(Seat::User));
    world.calm_down();
    assert_eq!(with(&mut world, false), Seat::User);
    assert_eq!(world.stored.seat, None);
    assert_eq!(with(&mut world, true), Seat::Kernel, "the last word counts");
}

#[test]
fn the_kernel_seat_is_refused_where_a_setting_needs_user_space() {
    let mut world = running();
    world.settings.tunables.builtin_idle = false;
    world.settings.tunables.full_user = true;
    world.happen(Event::Settings { settings: world.settings, by: None });
    world.calm_down();
    assert_eq!(world.state.view().choice.seat, Seat::User, "whatever kernel_seat says");
    let asked = world.ask(Request::SetEngine(Seat::Kernel));
    assert!(matches!(world.answer(asked), Some(Err(Refusal::Conflict(text))) if text.contains("full_user")));
    assert_eq!(world.stored.seat, None);
    world.settings.tunables.full_user = false;
    world.happen(Event::Settings { settings: world.settings, by: None });
    world.calm_down();
    assert_eq!(world.state.view().choice.seat, Seat::Kernel);
}
