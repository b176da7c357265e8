//! Random histories; the invariants are checked after every event.

use crate::Refusal;
use proptest::prelude::*;
use scherzo_catalogue::types::State;
use scherzo_model::{ExitKind, FailKind};

use super::super::*;
use super::hold;
use super::world::World;

/// What may happen next.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Ask(u8, Request),
    Power(PowerEvent),
    Configure(u32, bool),
    PeerGone(u8),
    EngineActs,
    EngineFails(FailKind),
    EngineEnds(ExitKind),
    EngineBabbles,
    EngineHangsUp,
    EngineIsKilled,
    EngineCrashes,
    Restart,
    NewKernel,
    ForeignComes,
    ForeignGoes,
    KernelClings(bool),
    DiskFull(bool),
    Degrade(bool),
    Wait(u32),
    /// The clock is set, or the machine has slept, by so many seconds.
    ClockMoves(i32),
    Shutdown,
}

pub(super) fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        3 => any::<bool>().prop_map(Request::SetEnabled),
        2 => (0usize..4).prop_map(|mode| Request::SetMode(RequestedMode::ALL[mode])),
        1 => any::<bool>().prop_map(Request::SetPreemption),
        1 => any::<bool>().prop_map(|kernel_seat| Request::SetEngine(kernel_seat.into())),
        1 => groups().prop_map(Request::SetForeground),
        1 => (1u32..6, groups()).prop_map(|(cookie, group)| Request::SetHoldForeground(cookie, group)),
        1 => Just(Request::GetStats),
        1 => Just(Request::GetWaitHistogram),
        1 => Just(Request::Subscribe),
        1 => Just(Request::Unsubscribe),
        2 => (0usize..3).prop_map(|mode| Request::HoldMode(hold(Mode::ALL[mode]))),
        1 => (0usize..3, 0u32..90).prop_map(|(mode, seconds)| Request::SetModeFor(Mode::ALL[mode], seconds)),
        1 => (0usize..3, 0u32..90).prop_map(|(mode, seconds)| Request::HoldMode(HoldRequest {
            tie: if seconds % 2 == 0 { Tie::Descriptor } else { Tie::Connection },
            seconds: Some(seconds),
            ..hold(Mode::ALL[mode])
        })),
        1 => (1u32..6).prop_map(Request::ReleaseMode),
    ]
}

fn groups() -> impl Strategy<Value = Option<ForegroundGroup>> {
    (0u64..3).prop_map(|cgroup| (cgroup != 0).then(|| ForegroundGroup { path: format!("/{cgroup}"), cgroup }))
}

pub(super) fn power() -> impl Strategy<Value = PowerEvent> {
    prop_oneof![
        3 => any::<bool>().prop_map(|on| PowerEvent::Source(Some(if on { Source::Battery } else { Source::Mains }))),
        1 => Just(PowerEvent::Source(None)),
        1 => any::<bool>().prop_map(PowerEvent::BatteryLow),
        2 => proptest::sample::select(&["power-saver", "balanced", "odd"][..])
            .prop_map(|name| PowerEvent::Profile(Some(name.into()))),
        1 => Just(PowerEvent::Profile(None)),
        1 => Just(PowerEvent::Resumed),
    ]
}

pub(super) fn ops() -> impl Strategy<Value = Op> {
    let fails = prop_oneof![
        Just(FailKind::NotSupported),
        Just(FailKind::MalformedBtf),
        Just(FailKind::Permission),
        Just(FailKind::Conflict),
        Just(FailKind::Other),
        Just(FailKind::Outdated),
    ];
    let exits =
        prop_oneof![Just(ExitKind::Unloaded), Just(ExitKind::Kernel), Just(ExitKind::Error), Just(ExitKind::Stall)];
    prop_oneof![
        12 => (0u8..3, requests()).prop_map(|(peer, request)| Op::Ask(peer, request)),
        4 => power().prop_map(Op::Power),
        1 => (5u32..8, any::<bool>()).prop_map(|(starvation_ms, holds)| Op::Configure(starvation_ms, holds)),
        1 => (0u8..3).prop_map(Op::PeerGone),
        12 => Just(Op::EngineActs),
        1 => fails.prop_map(Op::EngineFails),
        1 => exits.prop_map(Op::EngineEnds),
        1 => Just(Op::EngineBabbles),
        1 => Just(Op::EngineHangsUp),
        2 => Just(Op::EngineIsKilled),
        1 => Just(Op::EngineCrashes),
        1 => Just(Op::Restart),
        1 => Just(Op::NewKernel),
        1 => Just(Op::ForeignComes),
        1 => Just(Op::ForeignGoes),
        1 => any::<bool>().prop_map(Op::KernelClings),
        1 => any::<bool>().prop_map(Op::DiskFull),
        1 => any::<bool>().prop_map(Op::Degrade),
        6 => (0u32..30_000).prop_map(Op::Wait),
        1 => (-100_000i32..100_000).prop_map(Op::ClockMoves),
        1 => Just(Op::Shutdown),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_the_invariants(enabled: bool, ops in proptest::collection::vec(ops(), 0..120)) {
        let mut world = World::new(Desired { enabled, ..Desired::default() }, Kernel::Idle);
        for op in ops {
            world.apply(op);
            if world.ended {
                return Ok(());
            }
        }
        world.degraded = false;
        let nr_profile_holds = world.nr_profile_holds;
        world.apply(Op::ForeignGoes);
        world.apply(Op::KernelClings(false));
        world.apply(Op::DiskFull(false));
        world.calm_down();
        prop_assert!(world.unanswered.is_empty());
        prop_assert!(world.nr_profile_holds <= nr_profile_holds + 2, "mode and profile chase each other");
        if !world.ended {
            let enabling = world.ask(Request::TurnOnAgain);
            world.calm_down();
            prop_assert_eq!(world.answer(enabling), Some(&Ok(())));
            prop_assert_eq!(world.state.view().state, State::Running);
            prop_assert!(world.stored.enabled);
            world.apply(Op::Shutdown);
            world.calm_down();
        }
        prop_assert!(world.ended || world.process.is_none());
    }

    #[test]
    fn a_refusal_changes_nothing(ops in proptest::collection::vec(ops(), 0..60), request in requests()) {
        let mut world = World::new(Desired::default(), Kernel::Idle);
        for op in ops {
            world.apply(op);
            if world.ended {
                return Ok(());
            }
        }
        let (before, stored) = (world.state.view(), world.stored);
        let id = world.ask(request);
        if let Some(Err(
            Refusal::Conflict(_) | Refusal::NotSupported(_) | Refusal::LimitReached(_) | Refusal::AccessDenied(_),
        )) = world.answer(id)
        {
            prop_assert_eq!(world.state.view(), before);
            prop_assert_eq!(world.stored, stored);
        }
    }
}
