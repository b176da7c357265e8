//! What runs and why; on, off, modes, preemption, holds.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, glib};
use scherzo_api::Error;
use scherzo_api::catalogue;
use scherzo_api::client::{Client, ClientState};
use scherzo_api::types::RequestedMode;
use scherzo_i18n::{fill, gettext};

use super::compare::forget_comparison;
use super::plain_row;
use crate::model::format::with_commands;
use crate::model::overview::{Controls, HoldRow, Obstacle, Page, Way};
use crate::notices::Notices;
use crate::service::Service;
use crate::window_state::{SEEN_ON, WindowState};

mod imp {
    use super::{
        BinImpl, CompositeTemplate, HoldRow, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt, OnceCell,
        Page, Rc, RefCell, RequestedMode, Service, TemplateChild, WidgetImpl, WindowState, glib,
    };
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "overview.ui")]
    pub struct OverviewPage {
        #[template_child]
        pub(super) stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub(super) obstacle: TemplateChild<adw::StatusPage>,
        #[template_child]
        pub(super) way: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) other: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) banner: TemplateChild<adw::Banner>,
        #[template_child]
        pub(super) badge: TemplateChild<gtk::Image>,
        #[template_child]
        pub(super) title: TemplateChild<gtk::Label>,
        #[template_child]
        pub(super) text: TemplateChild<gtk::Label>,
        #[template_child]
        pub(super) enabled: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) modes: TemplateChild<adw::PreferencesGroup>,
        #[template_child]
        pub(super) preemption: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) holds: TemplateChild<adw::PreferencesGroup>,
        pub(super) service: OnceCell<Service>,
        pub(super) remembered: OnceCell<Rc<WindowState>>,
        pub(super) choices: OnceCell<Vec<(RequestedMode, gtk::CheckButton)>>,
        pub(super) page: RefCell<Option<Page>>,
        pub(super) shown_holds: RefCell<Vec<(HoldRow, adw::ActionRow)>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for OverviewPage {
        const NAME: &'static str = "ScherzoOverviewPage";
        type Type = super::OverviewPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for OverviewPage {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().add_choices();
        }
    }

    impl WidgetImpl for OverviewPage {}
    impl BinImpl for OverviewPage {}
}

glib::wrapper! {
    /// The first view.
    pub struct OverviewPage(ObjectSubclass<imp::OverviewPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl OverviewPage {
    /// Shows this service from now on.
    pub(crate) fn bind(&self, service: &Service, remembered: &Rc<WindowState>) {
        // A page is bound once.
        let _ = self.imp().service.set(service.clone());
        let _ = self.imp().remembered.set(Rc::clone(remembered));
        self.connect_controls();
        service.follow(self, Self::update);
    }

    fn add_choices(&self) {
        let mut choices: Vec<(RequestedMode, gtk::CheckButton)> = Vec::new();
        for mode in RequestedMode::ALL {
            let check = gtk::CheckButton::builder().valign(gtk::Align::Center).build();
            check.set_group(choices.first().map(|(_, first)| first));
            let title = catalogue::translated(catalogue::mode_title(mode));
            let row = adw::ActionRow::builder()
                .title(&*title)
                .subtitle(&*catalogue::translated(catalogue::mode_summary(mode)))
                .activatable_widget(&check)
                .build();
            row.add_prefix(&check);
            check.update_property(&[gtk::accessible::Property::Label(&title)]);
            self.imp().modes.add(&row);
            choices.push((mode, check));
        }
        // An object is constructed once.
        let _ = self.imp().choices.set(choices);
    }

    fn connect_controls(&self) {
        let imp = self.imp();
        let this = self.downgrade();
        imp.enabled.connect_active_notify(move |row| {
            if let Some((page, shown)) = Self::context(&this).filter(|(_, shown)| shown.enabled != row.is_active()) {
                page.set_enabled(!shown.enabled);
            }
        });
        let this = self.downgrade();
        imp.preemption.connect_active_notify(move |row| {
            let used = Self::context(&this).filter(|(_, shown)| shown.preemption != row.is_active());
            if let Some((page, Controls { preemption, .. })) = used {
                page.act(|client, _| async move { client.set_preemption(!preemption).await });
            }
        });
        for (mode, check) in imp.choices.get().into_iter().flatten() {
            let (this, mode) = (self.downgrade(), *mode);
            check.connect_toggled(move |check| {
                let chosen = Self::context(&this).filter(|(_, shown)| check.is_active() && shown.mode != mode);
                if let Some((page, shown)) = chosen {
                    page.set_mode(mode, &shown);
                }
            });
        }
        for button in [&imp.way, &imp.other] {
            let (this, is_way) = (self.downgrade(), button == &imp.way);
            button.connect_clicked(move |_| {
                let Some(page) = this.upgrade() else { return };
                let way = match page.imp().page.borrow().as_ref() {
                    Some(Page::Obstacle(obstacle)) if is_way => Some(obstacle.way),
                    Some(Page::Obstacle(obstacle)) => obstacle.other,
                    _ => None,
                };
                if let Some(way) = way {
                    page.go(way);
                }
            });
        }
        let this = self.downgrade();
        imp.banner.connect_button_clicked(move |_| {
            if let Some((page, Controls { banner: Some((_, Some(way))), .. })) = Self::context(&this) {
                page.go(way);
            }
        });
    }

    /// For a handler of a control: the page, and what it shows. A control that was changed by `update` agrees with what is
    /// shown, which tells it from one that the user has changed.
    fn context(this: &glib::WeakRef<Self>) -> Option<(Self, Controls)> {
        let page = this.upgrade()?;
        let shown = match page.imp().page.borrow().as_ref()? {
            Page::Controls(controls) => (**controls).clone(),
            _ => return None,
        };
        Some((page, shown))
    }

    fn service(&self) -> &Service {
        self.imp().service.get().expect("controls are connected when the page is bound")
    }

    /// Calls the service, and says so if it fails.
    fn act<Call: Future<Output = Result<(), Error>> + 'static>(&self, call: impl FnOnce(Rc<Client>, Notices) -> Call) {
        if let Some(notices) = Notices::over(self) {
            notices.act(self.service(), call(self.service().client(), notices.clone()));
        }
    }

    /// What a button that leads out of an obstacle does.
    pub(crate) fn go(&self, way: Way) {
        match way {
            Way::TryAgain => self.service().client().retry(),
            Way::StartService => self.act(|client, _| async move {
                let started = client.start_service().await;
                // The service may have been removed meanwhile.
                client.retry();
                started
            }),
            Way::TurnOn => self.act(|client, _| async move { turn(&client, true).await }),
            Way::TurnOff => self.act(|client, notices| async move {
                turn(&client, false).await?;
                notices.say(&gettext("Scherzo is turned off"));
                Ok(())
            }),
            Way::Diagnose => {
                // win.diagnose is disabled without a service; this action is not.
                let _ = self.activate_action("win.show-view", Some(&"diagnosis".to_variant()));
            }
        }
    }

    fn set_enabled(&self, enabled: bool) {
        let this = self.downgrade();
        self.act(|client, notices| async move {
            turn(&client, enabled).await?;
            if enabled {
                Notices::end_offer();
            } else {
                notices.offer_undo(&gettext("Scherzo is turned off"), move || {
                    if let Some(page) = this.upgrade() {
                        page.set_enabled(true);
                    }
                });
            }
            Ok(())
        });
    }

    fn set_mode(&self, mode: RequestedMode, shown: &Controls) {
        let (this, before, can_undo) = (self.downgrade(), shown.mode, shown.can_choose_again);
        self.act(move |client, notices| async move {
            client.set_mode(mode).await?;
            let title = catalogue::translated(catalogue::mode_title(mode));
            let text = fill(&gettext("Mode: {mode}"), &[("mode", &title)]);
            if !can_undo {
                Notices::end_offer();
                notices.say(&text);
                return Ok(());
            }
            notices.offer_undo(&text, move || {
                if let Some(page) = this.upgrade() {
                    page.act(|client, _| async move { client.set_mode(before).await });
                }
            });
            Ok(())
        });
    }

    fn update(&self, state: &ClientState) {
        let imp = self.imp();
        let seen_on = imp.remembered.get().is_some_and(|remembered| remembered.flag(SEEN_ON));
        let page = Page::of(state, seen_on);
        // Replaced before the controls change, so that their handlers find nothing to do.
        imp.page.replace(Some(page.clone()));
        let name = match &page {
            Page::Waiting => "waiting",
            Page::Obstacle(obstacle) => {
                self.show_obstacle(obstacle);
                "obstacle"
            }
            Page::Controls(controls) => {
                self.show_controls(controls);
                "controls"
            }
        };
        imp.stack.set_visible_child_name(name);
    }

    fn show_obstacle(&self, obstacle: &Obstacle) {
        let imp = self.imp();
        imp.obstacle.set_icon_name(Some(obstacle.icon));
        imp.obstacle.set_title(&obstacle.title);
        imp.obstacle.set_description(Some(&with_commands(&obstacle.text)));
        imp.way.set_label(&obstacle.way.label());
        if let Some(other) = obstacle.other {
            imp.other.set_label(&other.label());
        }
        imp.other.set_visible(obstacle.other.is_some());
    }

    fn show_controls(&self, controls: &Controls) {
        let imp = self.imp();
        imp.badge.set_icon_name(Some(controls.health.icon()));
        imp.badge.set_css_classes(&["badge", controls.health.style()]);
        imp.title.set_label(&controls.title);
        imp.text.set_label(&controls.text);
        imp.enabled.set_active(controls.enabled);
        imp.preemption.set_active(controls.preemption);
        for (_, check) in imp.choices.get().into_iter().flatten().filter(|(mode, _)| *mode == controls.mode) {
            check.set_active(true);
        }
        if let Some((text, way)) = &controls.banner {
            imp.banner.set_title(text);
            imp.banner.set_button_label(way.map(Way::label).as_deref());
        }
        imp.banner.set_revealed(controls.banner.is_some());
        self.show_holds(&controls.holds);
    }

    /// Rows of holds that stay are kept, so that the keyboard focus stays.
    fn show_holds(&self, holds: &[HoldRow]) {
        let imp = self.imp();
        let mut shown = imp.shown_holds.borrow_mut();
        shown.retain(|(hold, row)| {
            let stays = holds.contains(hold);
            if !stays {
                imp.holds.remove(row);
            }
            stays
        });
        for hold in holds {
            if !shown.iter().any(|(known, _)| known == hold) {
                let row = self.hold_row(hold);
                imp.holds.add(&row);
                shown.push((hold.clone(), row));
            }
        }
        imp.holds.set_visible(!shown.is_empty());
    }

    fn hold_row(&self, hold: &HoldRow) -> adw::ActionRow {
        let row = plain_row(&hold.title, &hold.text);
        let release = gtk::Button::builder().label(gettext("_Release")).use_underline(true).build();
        release.set_valign(gtk::Align::Center);
        let (this, cookie) = (self.downgrade(), hold.cookie);
        release.connect_clicked(move |_| {
            if let Some((page, _)) = Self::context(&this) {
                page.act(|client, _| async move { client.release_mode(cookie).await });
            }
        });
        row.add_suffix(&release);
        row
    }
}

/// Turns Scherzo on or off as somebody has chosen: what a comparison has left to restore counts no more.
async fn turn(client: &Client, on: bool) -> Result<(), Error> {
    client.set_enabled(on).await?;
    forget_comparison();
    Ok(())
}
