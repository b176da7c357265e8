//! Names that never change within this major version.

/// Well-known name on the system bus.
pub const BUS_NAME: &str = "org.scherzo.Scheduler1";
/// The one object.
pub const OBJECT_PATH: &str = "/org/scherzo/Scheduler1";
/// Its interface.
pub const INTERFACE: &str = "org.scherzo.Scheduler1";
/// polkit action for turning the scheduler on and off.
pub const ACTION_SET_ENABLED: &str = "org.scherzo.Scheduler1.set-enabled";
/// polkit action for turning the scheduler on once more, after that was done on this boot and it failed for the same cause.
pub const ACTION_LIFT_GUARD: &str = "org.scherzo.Scheduler1.lift-guard";
/// polkit action for choosing mode and preemption.
pub const ACTION_SET_MODE: &str = "org.scherzo.Scheduler1.set-mode";
/// polkit action for choosing the engine.
pub const ACTION_SET_ENGINE: &str = "org.scherzo.Scheduler1.set-engine";
/// polkit action for holding a mode while a program runs.
pub const ACTION_HOLD_MODE: &str = "org.scherzo.Scheduler1.hold-mode";
/// polkit action for naming the control group of the application in front.
pub const ACTION_SET_FOREGROUND: &str = "org.scherzo.Scheduler1.set-foreground";
/// polkit action for changing how the scheduler works.
pub const ACTION_CONFIGURE: &str = "org.scherzo.Scheduler1.configure";
/// polkit action for changing which rules choose the mode.
pub const ACTION_CONFIGURE_AUTOMATION: &str = "org.scherzo.Scheduler1.configure-automation";
/// polkit action for seeing the applications and reasons of everybody's holds.
pub const ACTION_INSPECT_HOLDS: &str = "org.scherzo.Scheduler1.inspect-holds";
pub use scherzo_model::OPS_PREFIX;
