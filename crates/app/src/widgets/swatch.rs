//! How a line looks, for legends.

use std::cell::Cell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib;

use super::canvas::Canvas;
use crate::model::plot::{Hue, Stroke};

const WIDTH_PX: i32 = 28;
const HEIGHT_PX: i32 = 12;

mod imp {
    use super::{
        Canvas, Cell, HEIGHT_PX, Hue, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt, Stroke, WIDTH_PX,
        WidgetClassExt, WidgetExt, WidgetImpl, glib,
    };

    #[derive(Debug, Default)]
    pub struct Swatch {
        pub(super) look: Cell<Option<(Hue, Stroke)>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for Swatch {
        const NAME: &'static str = "ScherzoSwatch";
        type Type = super::Swatch;
        type ParentType = gtk::Widget;

        fn class_init(class: &mut Self::Class) {
            class.set_accessible_role(gtk::AccessibleRole::Presentation);
        }
    }

    impl ObjectImpl for Swatch {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().set_size_request(WIDTH_PX, HEIGHT_PX);
            self.obj().set_valign(gtk::Align::Center);
        }
    }

    impl WidgetImpl for Swatch {
        fn snapshot(&self, snapshot: &gtk::Snapshot) {
            let Some((hue, stroke)) = self.look.get() else { return };
            let swatch = self.obj();
            let canvas = Canvas::new(snapshot, &*swatch);
            let (right, middle) = (swatch.width() as f32 - 2.0, swatch.height() as f32 / 2.0);
            canvas.line(&[(2.0, middle), (right, middle)], stroke, &canvas.hue(hue));
        }
    }
}

glib::wrapper! {
    /// A piece of a line.
    pub struct Swatch(ObjectSubclass<imp::Swatch>)
        @extends gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl Swatch {
    pub(super) fn new(hue: Hue, stroke: Stroke) -> Self {
        let swatch: Self = glib::Object::new();
        swatch.imp().look.set(Some((hue, stroke)));
        swatch
    }
}
