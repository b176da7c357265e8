//! From idle to loaded and back, expected or not.

use scherzo_catalogue::details::Details;
use scherzo_catalogue::types::{HistoryEvent, Reason};
use scherzo_model::WIRE_VERSION;
use scherzo_model::{ExitKind, FailKind};

use super::Supervisor;
use super::action::{Action, EngineCommand, FileAction};
use super::backoff::GOOD_RUN;
use super::event::{BootWatch, EngineEvent, Fault, Gone, Kernel, Run};
use super::phase::{
    Applied, Cause, DRAIN_LIMIT, EXIT_LIMIT, Ending, KERNEL_POLL, LOAD_LIMIT, Loaded, PROBE_EVERY,
    PROBE_FOR_SUBSCRIBERS, Phase, SLOW_KERNEL_POLL, Stage, UNLOAD_LIMIT,
};
use super::request::Refresh;

/// What is said of an engine that was too slow: to do what.
const WHAT: &str = "what";
const END: &str = "end";

impl Supervisor {
    pub(super) fn start(&mut self) {
        if self.kernel.has_ours() || matches!(self.kernel, Kernel::Changing { .. }) {
            // The engine of a service that died is about to notice and unload, or does already.
            self.drain();
        } else {
            self.become_idle();
        }
    }

    pub(super) fn kernel_says(&mut self, kernel: Kernel) {
        self.kernel = kernel;
        match &self.phase {
            Phase::Loading { stage: Stage::Confirming { applied, .. }, .. } if self.kernel.has_ours() => {
                let applied = applied.clone();
                self.become_loaded(applied);
            }
            // Why is about to be told: by the engine, or by how its process ended.
            Phase::Loaded(_) if !self.kernel.has_ours() => self.end(Cause::Unknown),
            Phase::Draining { .. } if self.kernel_has_let_go() => self.become_idle(),
            // The kernel tells that something goes before it is gone, and nothing afterwards: look until it is.
            Phase::Idle if !self.kernel_has_let_go() => self.drain(),
            _ => {}
        }
    }

    fn kernel_has_let_go(&self) -> bool {
        match &self.kernel {
            Kernel::Missing | Kernel::Idle => true,
            Kernel::Changing { .. } => false,
            Kernel::Loaded { .. } => !self.kernel.has_ours(),
        }
    }

    /// Brings the actual state closer to the desired one.
    pub(super) fn converge(&mut self) {
        let wanted = self.wants_to_run();
        match &self.phase {
            Phase::Loading { .. } | Phase::Loaded(_) if !wanted => self.unload(),
            // It is loaded anew once it is gone.
            Phase::Loaded(loaded) if loaded.applied.tunables.must_reload_for(&self.settings.tunables) => self.unload(),
            Phase::Loaded(_) => self.switch(),
            Phase::Idle if wanted && self.may_load() && self.backoff.finds_a_cpu(self.now) => self.load(),
            _ => {}
        }
        // One engine that replaces another at once is watched like one: noting that takes the disk its time.
        if matches!(self.phase, Phase::Idle) {
            self.renewal = None;
            self.watch_boot(if wanted { BootWatch::Paused } else { BootWatch::Over });
        }
    }

    fn may_load(&self) -> bool {
        self.kernel == Kernel::Idle && self.load_at().is_some_and(|at| at <= self.now)
    }

    /// Acts on deadlines that have passed.
    pub(super) fn expire_phase(&mut self) {
        let (now, run) = (self.now, self.run);
        match &mut self.phase {
            Phase::Loading { deadline, .. } if *deadline <= now => self.give_up_loading(),
            Phase::Loaded(loaded) if loaded.probe_at <= now => {
                loaded.probe_at = now + if self.subscribers.is_empty() { PROBE_EVERY } else { PROBE_FOR_SUBSCRIBERS };
                self.probe();
            }
            Phase::Ending(ending) if ending.kill_at.is_some_and(|at| at <= now) => {
                ending.kill_at = None;
                if ending.cause == Cause::Unknown {
                    // That it dies by a signal now is our doing.
                    ending.cause = Cause::Fault(too_slow(END));
                }
                self.act(EngineCommand::Kill(run));
            }
            Phase::Draining { deadline: deadline @ Some(_), .. } if deadline.is_some_and(|at| at <= now) => {
                *deadline = None;
                self.restore_settings();
            }
            Phase::Draining { poll_at, deadline } if *poll_at <= now => {
                *poll_at = now + if deadline.is_some() { KERNEL_POLL } else { SLOW_KERNEL_POLL };
                self.act(Action::ReadKernel);
            }
            Phase::Loading { stage: Stage::Confirming { poll_at, .. }, .. } if *poll_at <= now => {
                *poll_at = now + KERNEL_POLL;
                self.act(Action::ReadKernel);
            }
            _ => {}
        }
    }

    fn probe(&mut self) {
        if self.phase.ran(self.now).is_some_and(|ran| ran >= GOOD_RUN) {
            self.watch_boot(BootWatch::Over);
        }
        self.act(Action::ReadKernel);
        self.act(Action::ReadHealth);
        if !self.subscribers.is_empty() {
            // The engine's own counters are those of its last refresh, at most one probe old.
            self.act(Action::SendStats(self.subscribers.keys().cloned().collect()));
            self.ask_to_refresh();
        }
    }

    pub(super) fn health(&mut self, degraded: bool, compaction: bool) {
        let Phase::Loaded(loaded) = &mut self.phase else { return };
        loaded.degraded = degraded;
        if compaction && !loaded.put_right {
            loaded.put_right = true;
            self.act(FileAction::ForbidCompaction);
        }
    }

    fn load(&mut self) {
        self.run = Run(self.run.0 + 1);
        self.noted = true;
        let deadline = self.now + self.renewal.take().unwrap_or(LOAD_LIMIT);
        self.phase = Phase::Loading { stage: Stage::Starting, deadline };
        self.watch_boot(BootWatch::On);
        self.act(FileAction::NoteSettings);
        self.act(EngineCommand::Spawn(self.run));
    }

    fn unload(&mut self) {
        self.end(Cause::Asked);
        self.act(EngineCommand::Unload(self.run));
    }

    fn give_up_loading(&mut self) {
        self.kill(too_slow("load the scheduler"));
    }

    fn kill(&mut self, fault: Fault) {
        self.end(Cause::Fault(fault));
        if let Phase::Ending(ending) = &mut self.phase {
            ending.kill_at = None;
        }
        self.act(EngineCommand::Kill(self.run));
    }

    fn end(&mut self, cause: Cause) {
        let limit = if cause == Cause::Asked { UNLOAD_LIMIT } else { EXIT_LIMIT };
        let ran = self.phase.ran(self.now);
        self.phase = Phase::Ending(Ending { cause, ran, kill_at: Some(self.now + limit) });
    }

    fn drain(&mut self) {
        self.phase = Phase::Draining { poll_at: self.now, deadline: Some(self.now + DRAIN_LIMIT) };
    }

    fn become_idle(&mut self) {
        self.phase = Phase::Idle;
        self.restore_settings();
    }

    fn restore_settings(&mut self) {
        if std::mem::take(&mut self.noted) {
            self.act(FileAction::RestoreSettings);
        }
    }

    fn become_loaded(&mut self, applied: Applied) {
        self.on_trial = false;
        self.fault = None;
        self.refresh = Refresh::default();
        let mode = applied.decision.choice.mode.name();
        self.record(HistoryEvent::Loaded, Details::from([("mode".to_owned(), mode.into())]));
        self.phase = Phase::Loaded(Loaded {
            since: self.now,
            applied,
            switching: None,
            degraded: false,
            put_right: false,
            probe_at: self.now + PROBE_FOR_SUBSCRIBERS,
        });
    }

    fn switch(&mut self) {
        let wanted = self.wanted();
        let seq = self.next_seq.wrapping_add(1);
        let Phase::Loaded(loaded) = &mut self.phase else { return };
        if loaded.switching.is_some() {
            // One at a time; the newest choice is sent after the answer.
        } else if loaded.applied.settings() == wanted.settings() {
            loaded.applied = wanted;
        } else {
            let settings = wanted.settings();
            loaded.switching = Some((seq, wanted));
            self.next_seq = seq;
            self.act(EngineCommand::Switch { run: self.run, seq, settings });
        }
    }

    pub(super) fn engine(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::NotStarted(text) => self.gone(Some(Fault::with_text(Reason::EngineMissing, text))),
            EngineEvent::Hello { wire_version } => self.hello(wire_version),
            EngineEvent::Loaded => self.engine_has_loaded(),
            EngineEvent::Failed { kind: FailKind::Outdated, .. } => self.renew_engine(),
            EngineEvent::Failed { kind, text } => self.engine_fault(fail_fault(kind, text, &self.kernel)),
            EngineEvent::Done { seq } => self.done(seq),
            EngineEvent::Exited { kind, code, text } => self.engine_fault(exit_fault(kind, code, text)),
            EngineEvent::Garbled(text) => self.kill(Fault::with_text(Reason::EngineMismatch, text)),
            EngineEvent::HungUp => {
                if !matches!(self.phase, Phase::Ending(_)) {
                    self.end(Cause::Unknown);
                }
            }
            EngineEvent::Gone(how) => {
                let fault = match &self.phase {
                    Phase::Ending(Ending { cause: Cause::Asked, .. }) => None,
                    // It was about to end by itself, and we were too early.
                    Phase::Ending(Ending { cause: Cause::Fault(fault), .. })
                        if is_slow_end(fault) && how != Gone::Signal(SIGKILL) =>
                    {
                        Some(gone_fault(how))
                    }
                    Phase::Ending(Ending { cause: Cause::Fault(fault), .. }) => Some(fault.clone()),
                    _ => Some(gone_fault(how)),
                };
                self.gone(fault);
            }
        }
    }

    fn hello(&mut self, wire_version: u32) {
        let applied = self.wanted();
        match &mut self.phase {
            Phase::Ending(_) => {}
            Phase::Loading { stage: stage @ Stage::Starting, .. } if wire_version == WIRE_VERSION => {
                let settings = applied.settings();
                *stage = Stage::Sent(applied);
                self.act(EngineCommand::Load(self.run, settings));
            }
            Phase::Loading { stage: Stage::Starting, .. } => {
                let text = format!("it speaks version {wire_version}, the service {WIRE_VERSION}");
                self.kill(Fault::with_text(Reason::EngineMismatch, text));
            }
            _ => self.kill(Fault::with_text(Reason::EngineMismatch, "it said hello twice")),
        }
    }

    fn engine_has_loaded(&mut self) {
        match &mut self.phase {
            Phase::Ending(_) => {}
            Phase::Loading { stage, .. } if matches!(stage, Stage::Sent(_)) => {
                if let Stage::Sent(applied) = stage {
                    *stage = Stage::Confirming { applied: applied.clone(), poll_at: self.now + KERNEL_POLL };
                }
                self.act(Action::ReadKernel);
            }
            _ => self.kill(Fault::with_text(Reason::EngineMismatch, "it loaded without having been told")),
        }
    }

    /// What the engine has prepared does not fit any more. Nothing went wrong: another one is started, which has to load within
    /// the time that this one had left, from when it is started: the kernel may take its own to let go of what this one loaded.
    fn renew_engine(&mut self) {
        match &self.phase {
            Phase::Ending(_) => {}
            // It is given up in a moment.
            Phase::Loading { deadline, .. } if *deadline <= self.now => {}
            Phase::Loading { stage: Stage::Sent(_), deadline } => {
                self.renewal = Some(deadline.saturating_sub(self.now));
                self.end(Cause::Asked);
            }
            _ => {
                self.kill(Fault::with_text(Reason::EngineMismatch, "it was outdated without having been told to load"));
            }
        }
    }

    /// The engine says why it ends. That is more than the kernel or the process could tell.
    fn engine_fault(&mut self, fault: Fault) {
        match &mut self.phase {
            Phase::Ending(Ending { cause: Cause::Asked, .. }) => {}
            Phase::Ending(ending) => ending.cause = Cause::Fault(fault),
            _ => self.end(Cause::Fault(fault)),
        }
    }

    fn done(&mut self, seq: u32) {
        self.refreshed(seq);
        if let Phase::Loaded(loaded) = &mut self.phase
            && let Some((_, applied)) = loaded.switching.take_if(|(sent, _)| *sent == seq)
        {
            loaded.applied = applied;
        }
    }

    fn gone(&mut self, fault: Option<Fault>) {
        let ran = self.phase.ran(self.now);
        self.drain();
        match fault {
            Some(fault) => self.failed(&fault, ran),
            None if ran.is_some() => self.record(HistoryEvent::Unloaded, Details::new()),
            None => {}
        }
    }
}

fn fail_fault(kind: FailKind, text: String, kernel: &Kernel) -> Fault {
    match kind {
        FailKind::NotSupported => Fault::plain(Reason::NoSchedExt),
        FailKind::MalformedBtf => Fault::with_text(Reason::MalformedBtf, text),
        FailKind::Permission => Fault::with_text(Reason::Permission, text),
        FailKind::Conflict => Fault::foreign(kernel.foreign_ops().unwrap_or(&text)),
        // Outdated is no fault, and is not asked here.
        FailKind::Other | FailKind::Outdated => Fault::with_text(Reason::LoadFailed, text),
    }
}

fn exit_fault(kind: ExitKind, code: i64, text: String) -> Fault {
    let reason = match kind {
        ExitKind::Unloaded => Reason::EngineEnded,
        ExitKind::Kernel => Reason::KernelUnloaded,
        ExitKind::Error => Reason::KernelError,
        ExitKind::Stall => Reason::Stall,
        ExitKind::RtStarvation => Reason::RtStarvation,
        ExitKind::ReenqueueLimit => Reason::ReenqueueLimit,
        ExitKind::RescueOverload => Reason::RescueOverload,
    };
    let mut fault = Fault::with_text(reason, text);
    fault.details.insert("code".to_owned(), code.into());
    fault
}

fn too_slow(what: &str) -> Fault {
    Fault { reason: Reason::EngineTimeout, details: Details::from([(WHAT.to_owned(), what.into())]) }
}

/// The engine was about to end, nobody knows why, and had not ended in time.
pub(super) fn is_slow_end(fault: &Fault) -> bool {
    fault.reason == Reason::EngineTimeout && fault.details.get(WHAT).is_some_and(|what| *what == END.into())
}

const SIGKILL: i32 = 9;

/// Signals that a program brings upon itself: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS.
const CRASHES: [i32; 9] = [4, 5, 6, 7, 8, 11, 24, 25, 31];

fn gone_fault(how: Gone) -> Fault {
    let (reason, name, number) = match how {
        Gone::Code(code) => (Reason::EngineEnded, "code", code),
        Gone::Signal(signal) if CRASHES.contains(&signal) => (Reason::EngineCrashed, "signal", signal),
        Gone::Signal(signal) => (Reason::EngineKilled, "signal", signal),
    };
    Fault { reason, details: Details::from([(name.to_owned(), i64::from(number).into())]) }
}
