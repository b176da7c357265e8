//! The bridge between the client, which has a thread of its own, and the main loop with its widgets.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use gtk::glib;
use gtk::glib::subclass::Signal;
use gtk::prelude::*;
use gtk::subclass::prelude::*;
use scherzo_api::client::{Bus, Client, ClientState};

mod imp {
    use std::sync::LazyLock;

    use super::{Client, ClientState, ObjectImpl, ObjectSubclass, OnceCell, Rc, RefCell, Signal, glib};

    #[derive(Debug, Default)]
    pub struct Service {
        pub(super) client: OnceCell<Rc<Client>>,
        pub(super) state: RefCell<Rc<ClientState>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Service {
        const NAME: &'static str = "ScherzoService";
        type Type = super::Service;
    }

    impl ObjectImpl for Service {
        fn signals() -> &'static [Signal] {
            static SIGNALS: LazyLock<[Signal; 1]> = LazyLock::new(|| [Signal::builder("changed").build()]);
            &*SIGNALS
        }
    }
}

glib::wrapper! {
    /// The state of the client as a GObject, with a signal `changed`.
    pub struct Service(ObjectSubclass<imp::Service>);
}

impl Service {
    /// Starts to follow the service on this bus.
    pub(crate) fn start(bus: Bus) -> std::io::Result<Self> {
        let (states, inbox) = async_channel::unbounded();
        // It fails only after the main loop has ended.
        let client = Client::start(bus, move |state| drop(states.try_send(state.clone())))?;
        let service: Self = glib::Object::new();
        // The object is new.
        let _ = service.imp().client.set(Rc::new(client));
        let this = service.downgrade();
        glib::spawn_future_local(async move {
            while let Ok(state) = inbox.recv().await {
                let Some(service) = this.upgrade() else { return };
                service.imp().state.replace(Rc::new(state));
                service.emit_by_name::<()>("changed", &[]);
            }
        });
        Ok(service)
    }

    /// For calls.
    pub(crate) fn client(&self) -> Rc<Client> {
        Rc::clone(self.imp().client.get().expect("a service is only made with a client"))
    }

    /// What is known now.
    pub(crate) fn state(&self) -> Rc<ClientState> {
        self.imp().state.borrow().clone()
    }

    /// Calls this with every change of what is known, and once at the start, as long as `widget` lives.
    pub(crate) fn follow<W: IsA<glib::Object>>(&self, widget: &W, show: impl Fn(&W, &ClientState) + 'static) {
        show(widget, &self.state());
        let this = widget.downgrade();
        let handler = self.connect_local("changed", false, move |values| {
            let service = values.first()?.get::<Self>().ok()?;
            show(&this.upgrade()?, &service.state());
            None
        });
        let handler = RefCell::new(Some(handler));
        let service = self.downgrade();
        widget.add_weak_ref_notify_local(move || {
            if let (Some(service), Some(handler)) = (service.upgrade(), handler.take()) {
                service.disconnect(handler);
            }
        });
    }
}
