//! What other programs may ask the tray for, through the interface that every application has.

// The signatures are those of the Desktop Entry Specification.
#![allow(clippy::needless_pass_by_value, clippy::used_underscore_binding)]

use std::collections::HashMap;

use tokio::sync::mpsc::UnboundedSender;
use zbus::OwnedVariant;

use crate::view::MenuAction;

/// What other programs may ask for, as of any application: the app makes it leave the panel.
pub struct Remote(UnboundedSender<MenuAction>);

#[zbus::interface(name = "org.freedesktop.Application")]
impl Remote {
    fn activate(&self, platform_data: HashMap<String, OwnedVariant>) {
        let token = platform_data.get("activation-token").and_then(|token| String::try_from(token.clone()).ok());
        self.send(MenuAction::OpenApp(token));
    }

    fn open(&self, _uris: Vec<String>, platform_data: HashMap<String, OwnedVariant>) {
        self.activate(platform_data);
    }

    fn activate_action(
        &self,
        action: &str,
        _parameters: Vec<OwnedVariant>,
        _platform_data: HashMap<String, OwnedVariant>,
    ) -> zbus::fdo::Result<()> {
        match action {
            "quit" => {
                self.send(MenuAction::Quit);
                Ok(())
            }
            _ => Err(zbus::fdo::Error::InvalidArgs(format!("there is no action {action}"))),
        }
    }
}

impl Remote {
    /// Sends what is asked for.
    pub fn new(actions: UnboundedSender<MenuAction>) -> Self {
        Self(actions)
    }

    fn send(&self, action: MenuAction) {
        // The receiver lives as long as the program.
        let _ = self.0.send(action);
    }
}
