//! Seats: where the policy is applied.

use crate::gettext_noop;

/// Where the policy is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seat {
    /// The engine in user space decides.
    User,
    /// The kernel side decides by itself.
    Kernel,
}

impl Seat {
    /// Every seat.
    pub const ALL: [Self; 2] = [Self::User, Self::Kernel];

    /// The stable name used on D-Bus and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }

    /// The seat of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|seat| seat.name() == name)
    }

    /// What it is called; to be translated.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::User => gettext_noop("User Space"),
            Self::Kernel => gettext_noop("Kernel"),
        }
    }

    /// What the setting `kernel_seat` calls it.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel)
    }
}

impl From<bool> for Seat {
    /// A value of the setting `kernel_seat`.
    fn from(kernel_seat: bool) -> Self {
        if kernel_seat { Self::Kernel } else { Self::User }
    }
}
