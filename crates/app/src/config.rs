//! Names that the desktop knows the app by.

/// Of the app, its desktop file, its icon and its metadata.
pub(crate) const APP_ID: &str = "org.scherzo.Scherzo";
/// Where its resources are.
pub(crate) const RESOURCES: &str = "/org/scherzo/Scherzo";
/// Its version, which is the service's as well.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
