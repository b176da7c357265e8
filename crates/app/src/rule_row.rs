//! The row of one rule: what it says, and below it what can be changed.

use std::cell::Cell;
use std::rc::Rc;

use adw::prelude::*;
use gtk::{gio, glib};
use scherzo_api::catalogue;
use scherzo_api::types::{Mode, RequestedMode};
use scherzo_i18n::{fill, gettext};
use scherzo_rules::ApplicationRule;

/// What can be changed in a rule.
struct RuleControls {
    row: adw::ExpanderRow,
    mode: adw::ComboRow,
    foreground: adw::SwitchRow,
}

/// A row for the rule of an application; `offers_foreground` says whether the service can put it in front. `change` stores another
/// rule, and answers whether that worked; `remove` is called with the button that was pressed.
pub(crate) fn rule_row(
    application: &str,
    rule: ApplicationRule,
    offers_foreground: bool,
    change: impl Fn(ApplicationRule) -> bool + 'static,
    remove: impl Fn(&gtk::Button) + 'static,
) -> adw::ExpanderRow {
    let (name, icon) = known_application(application);
    let titles = Mode::ALL.map(|mode| title(RequestedMode::Mode(mode)));
    let titles = gtk::StringList::new(&titles.each_ref().map(|title| &**title));
    let controls = RuleControls {
        row: adw::ExpanderRow::builder().use_markup(false).title(&name).build(),
        mode: adw::ComboRow::builder().title(gettext("Mode")).model(&titles).build(),
        foreground: adw::SwitchRow::builder()
            .title(gettext("In Front"))
            .subtitle(gettext("It gets more of the processors than others while it runs"))
            .visible(offers_foreground)
            .build(),
    };
    let image = gtk::Image::builder().gicon(&icon).pixel_size(32).build();
    image.set_accessible_role(gtk::AccessibleRole::Presentation);
    controls.row.add_prefix(&image);
    let button = gtk::Button::builder().icon_name("edit-delete-symbolic").valign(gtk::Align::Center).build();
    button.add_css_class("flat");
    button.set_tooltip_text(Some(&fill(&gettext("Remove {application}"), &[("application", &name)])));
    button.connect_clicked(remove);
    controls.row.add_suffix(&button);
    controls.show(rule);
    controls.connect(rule, change);
    controls.row.add_row(&controls.mode);
    controls.row.add_row(&controls.foreground);
    controls.row
}

impl RuleControls {
    fn show(&self, rule: ApplicationRule) {
        let position = Mode::ALL.iter().position(|known| RequestedMode::Mode(*known) == rule.mode);
        self.mode.set_selected(position.unwrap_or(0) as u32);
        self.foreground.set_active(rule.foreground);
        let mode = title(rule.mode);
        // Translators: {mode} is the title of a mode, such as Interactive.
        let in_front = gettext("{mode}, in front");
        let is_in_front = rule.foreground && self.foreground.get_visible();
        self.row.set_subtitle(&if is_in_front { fill(&in_front, &[("mode", &mode)]) } else { mode });
    }

    /// What is chosen; nothing while the list of modes is without a choice.
    fn chosen(&self) -> Option<ApplicationRule> {
        let mode = Mode::ALL.get(self.mode.selected() as usize)?;
        Some(ApplicationRule { mode: RequestedMode::Mode(*mode), foreground: self.foreground.is_active() })
    }

    /// Stores what is chosen. What could not be stored is not shown either, once the control has finished handling the choice.
    fn connect(&self, rule: ApplicationRule, change: impl Fn(ApplicationRule) -> bool + 'static) {
        let (row, mode, foreground) = (self.row.downgrade(), self.mode.downgrade(), self.foreground.downgrade());
        let saved = Cell::new(rule);
        let choose = Rc::new(move || {
            let (Some(row), Some(mode)) = (row.upgrade(), mode.upgrade()) else { return };
            let Some(foreground) = foreground.upgrade() else { return };
            let controls = Self { row, mode, foreground };
            let Some(rule) = controls.chosen().filter(|rule| *rule != saved.get()) else { return };
            if change(rule) {
                saved.set(rule);
                controls.show(rule);
            } else {
                let saved = saved.get();
                glib::idle_add_local_once(move || controls.show(saved));
            }
        });
        let chosen = Rc::clone(&choose);
        self.mode.connect_selected_notify(move |_| chosen());
        self.foreground.connect_active_notify(move |_| choose());
    }
}

fn title(mode: RequestedMode) -> String {
    catalogue::translated(catalogue::mode_title(mode)).into_owned()
}

/// Name and icon of a desktop id or of the path of an executable.
fn known_application(application: &str) -> (String, gio::Icon) {
    let id = format!("{application}.desktop");
    let info = gio::AppInfo::all().into_iter().find(|info| info.id().is_some_and(|known| known == id));
    let icon = info.as_ref().and_then(gio::prelude::AppInfoExt::icon);
    let name = info.map_or_else(|| application.to_owned(), |info| info.display_name().into());
    (name, icon.unwrap_or_else(|| gio::ThemedIcon::new("application-x-executable").upcast()))
}
