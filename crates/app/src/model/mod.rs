//! What the widgets show, computed from the client's state. Nothing here needs a display, so unit tests cover it.

pub(crate) mod automation;
pub(crate) mod buckets;
pub(crate) mod compare;
pub(crate) mod follower;
pub(crate) mod format;
pub(crate) mod history;
pub(crate) mod overview;
pub(crate) mod plot;
pub(crate) mod probe;
pub(crate) mod quick_access;
pub(crate) mod report;
pub(crate) mod timeline;
