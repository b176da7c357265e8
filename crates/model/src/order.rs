//! In which order waiting tasks run.

/// Which DSQs new work enters; the numbers are part of the layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Order {
    /// By deadline.
    #[default]
    Deadline = 0,
    /// By arrival.
    Fifo = 1,
}
