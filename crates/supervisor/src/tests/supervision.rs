//! Quarantine and probation.

use scherzo_model::FailKind;

use super::super::*;
use super::histories::Op;
use super::world::World;
use super::*;

/// A world in which the scheduler was ejected so often that it is no longer tried.
fn quarantined() -> World {
    let mut world = running();
    for _ in 0..6 {
        world.calm_down();
        world.eject();
    }
    world.wait(SECOND * 600);
    assert!(world.process.is_none());
    world
}

fn shown(world: &World) -> (State, Reason) {
    let view = world.state.view();
    (view.state, view.why.reason)
}

#[test]
fn six_ejections_in_a_row_are_enough_until_someone_asks() {
    let mut world = quarantined();
    assert_eq!(shown(&world), (State::Fallback, Reason::Quarantined));
    let text = world.state.view().last_error.text;
    assert!(text.contains("Linux 6.18") && text.contains("The kernel ejected"), "{text}");
    assert_eq!(world.exits, [Reason::KernelError; 6]);
    let id = world.ask(Request::SetEnabled(true));
    world.calm_down();
    assert_eq!((world.answer(id), shown(&world).0), (Some(&Ok(())), State::Running));
    assert_eq!(world.quarantine, None);
    let end = &world.history[world.history.len() - 4..];
    assert_eq!(
        end,
        [HistoryEvent::Ejected, HistoryEvent::Quarantined, HistoryEvent::QuarantineLifted, HistoryEvent::Loaded]
    );
}

#[test]
fn after_the_same_failure_lifting_takes_more() {
    for restarts in [false, true] {
        let mut world = quarantined();
        assert!(!world.state.view().lifting_needs_more, "the first time");
        world.ask(Request::SetEnabled(true));
        world.calm_down();
        for _ in 0..6 {
            world.calm_down();
            world.eject();
        }
        if restarts {
            world.apply(Op::Restart);
        }
        assert!(world.state.view().lifting_needs_more);
        // Turning it off in between is no way around.
        world.ask(Request::SetEnabled(false));
        let id = world.ask(Request::SetEnabled(true));
        assert!(matches!(world.answer(id), Some(Err(Refusal::AccessDenied(_)))), "{:?}", world.answer(id));
        world.calm_down();
        assert!(world.process.is_none() && !world.state.view().enabled);
        let id = world.ask(Request::TurnOnAgain);
        world.calm_down();
        assert_eq!((world.answer(id), shown(&world).0), (Some(&Ok(())), State::Running));
    }
}

#[test]
fn another_failure_or_another_boot_is_another_matter() {
    let mut world = quarantined();
    world.ask(Request::SetEnabled(true));
    world.calm_down();
    for _ in 0..6 {
        world.calm_down();
        world.apply(Op::EngineCrashes);
    }
    world.wait(SECOND * 600);
    assert_eq!(shown(&world), (State::Fallback, Reason::Quarantined));
    assert!(!world.state.view().lifting_needs_more, "{:?}", world.lifted);
    assert_eq!(world.lifted, [Reason::KernelError].into());
}

#[test]
fn lifting_the_guard_against_unclean_boots_is_heeded_by_the_next_service() {
    let boot = Boot { first_start: false, nr_unclean: 2 };
    let mut world = World::boot(Desired { enabled: true, ..Desired::default() }, Kernel::Idle, boot);
    assert_eq!(shown(&world), (State::Fallback, Reason::UncleanBoots));
    world.ask(Request::SetEnabled(true));
    world.calm_down();
    assert_eq!(shown(&world).0, State::Running);
    assert_eq!(world.lifted, [Reason::UncleanBoots].into());
    world.apply(Op::Restart);
    world.calm_down();
    assert_eq!(shown(&world).0, State::Running);
}

#[test]
fn a_quarantine_survives_restarts_but_not_another_kernel() {
    let mut world = quarantined();
    world.apply(Op::Restart);
    world.wait(SECOND * 600);
    assert_eq!(shown(&world), (State::Fallback, Reason::Quarantined));
    assert!(world.state.view().last_error.text.contains("The kernel ejected"));
    world.apply(Op::NewKernel);
    world.calm_down();
    assert_eq!(shown(&world).0, State::Running);
    assert!(world.quarantine.is_none() && world.history.contains(&HistoryEvent::QuarantineLifted));
}

#[test]
fn another_version_ends_a_quarantine() {
    let mut world = quarantined();
    world.build.version.push('1');
    world.apply(Op::Restart);
    world.calm_down();
    assert_eq!((shown(&world).0, world.quarantine.as_ref()), (State::Running, None));
}

#[test]
fn settings_that_fail_are_taken_back() {
    let mut world = running();
    let good = world.settings;
    world.apply(Op::Configure(7, true));
    world.calm_down();
    world.eject();
    let view = world.state.view();
    assert!(
        view.last_error.text.contains("starvation_ms") && view.last_error.text.contains("ejected"),
        "{}",
        view.last_error.text
    );
    assert_eq!((view.settings, world.settings), (good, good));
    world.calm_down();
    assert_eq!(shown(&world).0, State::Running);
    assert!(world.history.contains(&HistoryEvent::Reverted));
}

#[test]
fn settings_that_cannot_even_be_loaded_are_taken_back() {
    let mut world = running();
    let good = world.settings;
    let mut settings = good;
    settings.tunables.partial = true;
    world.configure(settings);
    world.engine_acts();
    world.wait(SECOND / 10);
    world.apply(Op::EngineFails(FailKind::Other));
    world.apply(Op::EngineIsKilled);
    assert_eq!(world.settings, good);
    world.calm_down();
    assert_eq!(shown(&world).0, State::Running);
}

#[test]
fn settings_that_have_run_for_a_minute_stay() {
    let mut world = running();
    world.apply(Op::Configure(7, true));
    world.calm_down();
    world.wait(SECOND * 61);
    world.eject();
    assert_eq!(world.settings.tunables.starvation_ms, 7);
}

#[test]
fn a_killed_engine_is_no_fault_of_the_settings() {
    let mut world = running();
    let good = world.settings;
    world.apply(Op::Configure(7, true));
    world.calm_down();
    world.apply(Op::EngineIsKilled);
    world.wait(SECOND);
    for _ in 0..3 {
        world.engine_acts();
    }
    world.wait(SECOND * 45);
    assert_eq!(world.settings.tunables.starvation_ms, 7);
    world.eject();
    assert_eq!(world.settings, good, "the minute begins anew with the engine");
}

#[test]
fn choices_are_taken_back_like_settings() {
    let mut world = running();
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.ask(Request::SetPreemption(false));
    world.ask(Request::SetEngine(Seat::User));
    world.engine_acts();
    world.eject();
    let view = world.state.view();
    assert_eq!((view.requested_mode, view.choice.preemption, view.enabled), (RequestedMode::Auto, true, true));
    assert_eq!(view.choice.seat, Seat::Kernel);
    assert!(view.last_error.text.contains("mode, preemption, engine"), "{}", view.last_error.text);
    assert_eq!((world.stored.mode, world.stored.seat), (RequestedMode::Auto, None));
}

#[test]
fn a_choice_that_unplugging_has_ended_does_not_return() {
    let mut world = running();
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Mains))));
    world.ask(Request::SetMode(RequestedMode::Mode(Mode::Fifo)));
    world.calm_down();
    world.wait(SECOND * 61);
    world.ask(Request::SetPreemption(false));
    world.calm_down();
    world.apply(Op::Power(PowerEvent::Source(Some(Source::Battery))));
    world.calm_down();
    world.eject();
    let view = world.state.view();
    assert_eq!((view.requested_mode, view.choice.preemption), (RequestedMode::Auto, true));
}
