//! The item in the panel: a [`View`] as the StatusNotifierItem protocol wants it.

use ksni::menu::{CheckmarkItem, RadioGroup, RadioItem, StandardItem};
use ksni::{Category, MenuItem, Status, ToolTip, Tray};
use scherzo_api::autostart::Autostart;
use scherzo_api::types::RequestedMode;
use scherzo_i18n::gettext;
use tokio::sync::mpsc::UnboundedSender;

use crate::session::escaped;
use crate::view::{MenuAction, View};

/// The item. Clicks become [`MenuAction`]s.
pub struct StatusNotifierItem {
    /// What is shown.
    pub view: View,
    autostart: Option<Autostart>,
    /// As last looked at; `None` where nothing can start at login.
    starts_at_login: Option<bool>,
    actions: UnboundedSender<MenuAction>,
}

impl StatusNotifierItem {
    /// Shows `view`, sends what is clicked.
    pub fn new(view: View, autostart: Option<Autostart>, actions: UnboundedSender<MenuAction>) -> Self {
        let mut item = Self { view, autostart, starts_at_login: None, actions };
        item.look_at_autostart();
        item
    }

    /// Looks whether it starts at login: others write that file too.
    pub fn look_at_autostart(&mut self) {
        self.starts_at_login = self.autostart.as_ref().map(Autostart::is_on);
    }

    fn send(&self, action: MenuAction) {
        // It fails only when the program ends.
        let _ = self.actions.send(action);
    }

    fn headline(&self) -> MenuItem<Self> {
        StandardItem { label: label(&self.view.headline), enabled: false, ..StandardItem::default() }.into()
    }

    fn modes(&self) -> MenuItem<Self> {
        let choices = self.view.choices.as_ref();
        let requested = choices.and_then(|choices| choices.requested);
        let option = |mode| RadioItem {
            label: label(&self.view.label(mode)),
            enabled: choices.is_some(),
            ..RadioItem::default()
        };
        RadioGroup {
            // An index out of range: no option is marked.
            selected: RequestedMode::ALL
                .iter()
                .position(|mode| Some(*mode) == requested)
                .unwrap_or(RequestedMode::ALL.len()),
            select: Box::new(|item: &mut Self, index| {
                if let Some(mode) = RequestedMode::ALL.get(index) {
                    item.send(MenuAction::Mode(*mode));
                }
            }),
            options: RequestedMode::ALL.map(option).into(),
        }
        .into()
    }

    fn preemption(&self) -> MenuItem<Self> {
        let preemption = self.view.choices.as_ref().map(|choices| choices.preemption);
        check(&gettext("Interrupt Background Work"), preemption, MenuAction::Preemption)
    }

    fn autostart(&self) -> MenuItem<Self> {
        // Translators: a switch, in the menu of the icon in the panel, about that icon.
        check(&gettext("Show After Login"), self.starts_at_login, MenuAction::Autostart)
    }

    fn enabled(&self) -> MenuItem<Self> {
        // Translators: a switch, in a menu.
        check(&gettext("Use Scherzo"), self.view.enabled, MenuAction::Enabled)
    }
}

/// A switch; without a position it cannot be used.
fn check(title: &str, position: Option<bool>, action: fn(bool) -> MenuAction) -> MenuItem<StatusNotifierItem> {
    let is_on = position.unwrap_or_default();
    CheckmarkItem {
        label: label(title),
        enabled: position.is_some(),
        checked: is_on,
        activate: Box::new(move |item: &mut StatusNotifierItem| item.send(action(!is_on))),
        ..CheckmarkItem::default()
    }
    .into()
}

fn button(title: &str, action: fn() -> MenuAction) -> MenuItem<StatusNotifierItem> {
    StandardItem {
        label: label(title),
        activate: Box::new(move |item: &mut StatusNotifierItem| item.send(action())),
        ..StandardItem::default()
    }
    .into()
}

fn open_app() -> MenuAction {
    MenuAction::OpenApp(ksni::current_xdg_activation_token())
}

/// In labels of menus an underscore marks a key, unless it is doubled.
fn label(text: &str) -> String {
    text.replace('_', "__")
}

impl Tray for StatusNotifierItem {
    fn id(&self) -> String {
        "org.scherzo.Scherzo".to_owned()
    }

    fn category(&self) -> Category {
        Category::SystemServices
    }

    fn title(&self) -> String {
        "Scherzo".to_owned()
    }

    fn status(&self) -> Status {
        if self.view.is_alarming { Status::NeedsAttention } else { Status::Active }
    }

    fn icon_name(&self) -> String {
        self.view.icon.to_owned()
    }

    fn attention_icon_name(&self) -> String {
        self.view.icon.to_owned()
    }

    /// Where the icons are if this is not installed with the system.
    fn icon_theme_path(&self) -> String {
        let icons = scherzo_i18n::data_dir().join("icons");
        if icons.starts_with("/usr") || !icons.is_dir() { String::new() } else { icons.display().to_string() }
    }

    fn tool_tip(&self) -> ToolTip {
        ToolTip {
            icon_name: self.view.icon.to_owned(),
            title: format!("Scherzo: {}", self.view.headline),
            description: escaped(&self.view.detail),
            ..ToolTip::default()
        }
    }

    fn activate(&mut self, _x: i32, _y: i32) {
        self.send(open_app());
    }

    fn menu_about_to_show(&mut self) {
        self.look_at_autostart();
    }

    fn menu(&self) -> Vec<MenuItem<Self>> {
        vec![
            self.headline(),
            MenuItem::Separator,
            self.modes(),
            MenuItem::Separator,
            self.preemption(),
            self.enabled(),
            MenuItem::Separator,
            button(&gettext("Open Scherzo"), open_app),
            self.autostart(),
            button(&gettext("Remove From Panel"), || MenuAction::Quit),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scherzo_api::Snapshot;
    use scherzo_api::client::{ClientEvent, ClientState};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    fn item(requested: &str) -> (StatusNotifierItem, UnboundedReceiver<MenuAction>) {
        let service = Snapshot {
            state: "running".into(),
            mode: "fifo".into(),
            requested_mode: requested.into(),
            preemption: true,
            ..Snapshot::default()
        };
        let mut state = ClientState::default();
        state.apply(ClientEvent::Properties(Box::new(service)));
        let (actions, chosen) = unbounded_channel();
        (StatusNotifierItem::new(View::of(&state), None, actions), chosen)
    }

    fn modes(item: &StatusNotifierItem) -> RadioGroup<StatusNotifierItem> {
        match item.modes() {
            MenuItem::RadioGroup(group) => group,
            _ => panic!("not a group"),
        }
    }

    #[test]
    fn the_mode_that_was_asked_for_is_marked() {
        assert_eq!(modes(&item("auto").0).selected, 0);
        assert_eq!(modes(&item("fifo").0).selected, 2);
        assert_eq!(modes(&item("turbo").0).selected, 4);
    }

    #[test]
    fn clicks_become_actions() {
        let (mut item, mut chosen) = item("auto");
        let group = modes(&item);
        (group.select)(&mut item, 3);
        assert_eq!(chosen.try_recv().ok().map(|action| format!("{action:?}")), Some("Mode(Mode(LowPower))".into()));
        let MenuItem::Checkmark(preemption) = item.preemption() else { panic!("not a switch") };
        assert!(preemption.checked && preemption.enabled);
        (preemption.activate)(&mut item);
        assert_eq!(chosen.try_recv(), Ok(MenuAction::Preemption(false)));
        item.activate(0, 0);
        assert_eq!(chosen.try_recv(), Ok(MenuAction::OpenApp(None)));
    }

    #[test]
    fn without_a_service_only_opening_and_quitting_are_left() {
        let item = StatusNotifierItem::new(View::of(&ClientState::default()), None, unbounded_channel().0);
        assert!(modes(&item).options.iter().all(|option| !option.enabled));
        let MenuItem::Checkmark(enabled) = item.enabled() else { panic!("not a switch") };
        assert!(!enabled.enabled);
    }

    #[test]
    fn underscores_are_shown() {
        assert_eq!(label("scx_lavd"), "scx__lavd");
    }
}
