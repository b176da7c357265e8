//! Where else Scherzo can be at hand: GNOME Shell's quick settings, and the panel's tray. Each is offered only on a desktop
//! that has it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, gio, glib};
use scherzo_api::autostart::Autostart;

use crate::model::quick_access::{EXTENSION, Toggle, no_autostart, no_start, nothing_changed};
use crate::session_bus::Place;

const SHELL: Place<'_> =
    Place { name: "org.gnome.Shell", path: "/org/gnome/Shell", interface: "org.gnome.Shell.Extensions" };
const TRAYS: Place<'_> = Place {
    name: "org.kde.StatusNotifierWatcher",
    path: "/StatusNotifierWatcher",
    interface: "org.kde.StatusNotifierWatcher",
};
const OUR_TRAY: Place<'_> =
    Place { name: "org.scherzo.Tray", path: "/org/scherzo/Tray", interface: "org.freedesktop.Application" };

mod imp {
    use super::{
        Autostart, Cell, CompositeTemplate, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt,
        PreferencesGroupImpl, RefCell, TemplateChild, Toggle, WidgetImpl, gio, glib,
    };
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "quick_access_group.ui")]
    pub struct QuickAccessGroup {
        #[template_child]
        pub(super) toggle: TemplateChild<adw::SwitchRow>,
        #[template_child]
        pub(super) icon: TemplateChild<adw::SwitchRow>,
        /// What is shown of the toggle; nothing without GNOME Shell.
        pub(super) shown_toggle: Cell<Option<Toggle>>,
        /// A panel shows icons of programs.
        pub(super) has_tray: Cell<bool>,
        pub(super) autostart: RefCell<Option<Autostart>>,
        /// Watches the file as long as it lives.
        pub(super) followed: RefCell<Vec<gio::DBusProxy>>,
        pub(super) monitor: RefCell<Option<gio::FileMonitor>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for QuickAccessGroup {
        const NAME: &'static str = "ScherzoQuickAccessGroup";
        type Type = super::QuickAccessGroup;
        type ParentType = adw::PreferencesGroup;

        fn class_init(class: &mut Self::Class) {
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for QuickAccessGroup {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().set_up();
        }
    }

    impl WidgetImpl for QuickAccessGroup {}
    impl PreferencesGroupImpl for QuickAccessGroup {}
}

glib::wrapper! {
    /// The group.
    pub struct QuickAccessGroup(ObjectSubclass<imp::QuickAccessGroup>)
        @extends adw::PreferencesGroup, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl QuickAccessGroup {
    fn set_up(&self) {
        let imp = self.imp();
        imp.autostart.replace(Autostart::of_this_person(&scherzo_i18n::data_dir()));
        self.follow_file();
        let this = self.downgrade();
        imp.toggle.connect_active_notify(move |row| {
            let used = this.upgrade().filter(|group| {
                let shown = group.imp().shown_toggle.get().filter(|toggle| toggle.is_usable());
                shown.is_some_and(|shown| (shown == Toggle::On) != row.is_active())
            });
            if let Some(group) = used {
                let on = row.is_active();
                glib::spawn_future_local(async move { group.set_toggle(on).await });
            }
        });
        let this = self.downgrade();
        imp.icon.connect_active_notify(move |row| {
            if let Some(group) = this.upgrade().filter(|group| group.starts_at_login() != row.is_active()) {
                let on = row.is_active();
                glib::spawn_future_local(async move { group.set_icon(on).await });
            }
        });
        self.show();
        for (place, look) in [(&SHELL, Self::look_at_shell as fn(Self)), (&TRAYS, Self::look_at_trays)] {
            let this = self.downgrade();
            glib::spawn_future_local(async move {
                if let (Ok(proxy), Some(group)) = (place.proxy().await, this.upgrade()) {
                    group.follow(proxy, look);
                }
            });
        }
    }

    /// Looks now, when its owner changes, and when it says that something has changed.
    fn follow(&self, proxy: gio::DBusProxy, look: fn(Self)) {
        let this = self.downgrade();
        proxy.connect_notify_local(Some("g-name-owner"), move |_, _| {
            this.upgrade().map(look);
        });
        let this = self.downgrade();
        proxy.connect_local("g-signal", false, move |_| {
            this.upgrade().map(look);
            None
        });
        let this = self.downgrade();
        proxy.connect_local("g-properties-changed", false, move |_| {
            this.upgrade().map(look);
            None
        });
        self.imp().followed.borrow_mut().push(proxy);
        look(self.clone());
    }

    fn look_at_shell(self) {
        glib::spawn_future_local(async move {
            let toggle = read_toggle().await.ok();
            self.imp().shown_toggle.set(toggle);
            self.show();
        });
    }

    fn look_at_trays(self) {
        glib::spawn_future_local(async move {
            let has_tray = TRAYS.property::<bool>("IsStatusNotifierHostRegistered").await;
            self.imp().has_tray.set(has_tray.unwrap_or_default());
            self.show();
        });
    }

    /// Watches the autostart file, which the tray's own menu changes too. GIO polls for a directory that does not exist yet
    /// only every few seconds, and misses changes in it until then, so its nearest existing ancestor is watched first.
    fn follow_file(&self) {
        let file = self.imp().autostart.borrow().as_ref().map(|autostart| autostart.file().to_owned());
        let Some(file) = file else { return };
        let has_place = |path: &&Path| path.parent().is_some_and(Path::is_dir);
        let watched = file.ancestors().find(has_place).unwrap_or(&file);
        let is_file = watched == file;
        let monitor =
            gio::File::for_path(watched).monitor_file(gio::FileMonitorFlags::NONE, gio::Cancellable::NONE).ok();
        if let Some(monitor) = &monitor {
            let this = self.downgrade();
            monitor.connect_changed(move |_, _, _, _| {
                if let Some(group) = this.upgrade() {
                    if !is_file {
                        group.follow_file();
                    }
                    group.show();
                }
            });
        }
        self.imp().monitor.replace(monitor);
    }

    fn starts_at_login(&self) -> bool {
        self.imp().autostart.borrow().as_ref().is_some_and(Autostart::is_on)
    }

    fn show(&self) {
        let imp = self.imp();
        if let Some(toggle) = imp.shown_toggle.get() {
            imp.toggle.set_subtitle(&toggle.explanation());
            imp.toggle.set_sensitive(toggle.is_usable());
            imp.toggle.set_active(toggle == Toggle::On);
        }
        imp.toggle.set_visible(imp.shown_toggle.get().is_some());
        let is_on = self.starts_at_login();
        imp.icon.set_active(is_on);
        // If it was turned on elsewhere, it can be turned off here.
        imp.icon.set_visible(imp.autostart.borrow().is_some() && (imp.has_tray.get() || is_on));
        // Uses the rows' own visibility: both are invisible while the group is hidden.
        self.set_visible(imp.toggle.get_visible() || imp.icon.get_visible());
    }

    async fn set_toggle(self, on: bool) {
        let method = if on { "EnableExtension" } else { "DisableExtension" };
        if let Err(problem) = SHELL.call(method, &(EXTENSION,).to_variant()).await {
            self.tell(&nothing_changed(&problem));
        }
        self.look_at_shell();
    }

    /// Writes the autostart file and starts the tray. If the tray does not start now, it would not after a login either.
    async fn set_icon(self, on: bool) {
        let Some(autostart) = self.imp().autostart.borrow().clone() else { return };
        if let Err(problem) = autostart.set(on) {
            self.tell(&no_autostart(&problem));
        } else if on {
            if let Err(problem) = OUR_TRAY.start().await {
                self.tell(&no_start(&problem));
                // Removes the file that was just written.
                let _ = autostart.set(false);
            }
        } else {
            let quit = ("quit", Vec::<glib::Variant>::new(), HashMap::<String, glib::Variant>::new());
            // The tray may not be running.
            let _ = OUR_TRAY.call("ActivateAction", &quit.to_variant()).await;
        }
        self.show();
    }

    fn tell(&self, text: &str) {
        if let Some(dialog) =
            self.ancestor(adw::PreferencesDialog::static_type()).and_downcast::<adw::PreferencesDialog>()
        {
            dialog.add_toast(adw::Toast::builder().title(text).use_markup(false).build());
        }
    }
}

async fn read_toggle() -> Result<Toggle, glib::Error> {
    let extensions_are_on = SHELL.property::<bool>("UserExtensionsEnabled").await?;
    let answer = SHELL.call("GetExtensionInfo", &(EXTENSION,).to_variant()).await?;
    let info = glib::VariantDict::new(Some(&answer.child_value(0)));
    Ok(Toggle::of(&info, extensions_are_on))
}
