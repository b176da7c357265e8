//! The engine's scheduling loop: queued tasks in, dispatched tasks out, then sleep.
//!
//! The engine runs it over libbpf's rings and sleeps in epoll; the simulator runs the same code over emulated rings, as a task
//! whose steps take time. So nothing here blocks, makes a system call or reads a clock:
//!
//! - [`EngineLoop`] is the loop. Each [`EngineLoop::step`] ends where time passes, and says what comes next; who runs it decides how
//!   long that takes, and sleeps for it.
//! - [`environment`] is what it needs: a ring of records, a ring of dispatched tasks, a doorbell, shared memory.
//! - [`Core`] is the code between records and dispatched tasks: the policy, and what is published of it.
//! - [`parking`] is the handshake with BPF before the engine sleeps.
//!
//! Every part is a type parameter, so that the engine's loop is compiled for its own rings. Nothing is allocated once it is built.

#![forbid(unsafe_code)]

mod core;
pub mod environment;
pub mod parking;
mod turn;

pub use crate::core::{Core, publish_limits};
pub use crate::environment::{DispatchedRing, Doorbell, EnginePages, QueuedRing, RecordSink};
pub use crate::turn::{EngineLoop, EngineSleep, LoopStep, MAX_BATCH, RETRY_NS};
