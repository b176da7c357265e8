//! Lines over the last minutes.
//!
//! The arrow keys and the pointer move a cursor from moment to moment; what it stands on is written into the chart and
//! told to screen readers.

use std::cell::{Cell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{gdk, glib};
use scherzo_i18n::{fill, gettext, ngettext};

use super::canvas::{Anchor, Canvas, LINE_PX};
use crate::model::plot::Plot;

const HEIGHT_PX: i32 = 150;
const NR_GRID_LINES: usize = 2;

mod imp {
    use super::{
        AccessibleRole, Canvas, Cell, HEIGHT_PX, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt, Plot,
        RefCell, WidgetClassExt, WidgetExt, WidgetImpl, glib,
    };

    #[derive(Debug, Default)]
    pub struct LineChart {
        pub(super) plot: RefCell<Option<Plot>>,
        /// The moment that the cursor stands on.
        pub(super) cursor: Cell<Option<usize>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for LineChart {
        const NAME: &'static str = "ScherzoLineChart";
        type Type = super::LineChart;
        type ParentType = gtk::Widget;

        fn class_init(class: &mut Self::Class) {
            class.set_css_name("chart");
            class.set_accessible_role(AccessibleRole::Img);
        }
    }

    impl ObjectImpl for LineChart {
        fn constructed(&self) {
            self.parent_constructed();
            let chart = self.obj();
            chart.set_focusable(true);
            chart.set_height_request(HEIGHT_PX);
            chart.set_hexpand(true);
            chart.follow_keys();
            chart.follow_pointer();
        }
    }

    impl WidgetImpl for LineChart {
        fn snapshot(&self, snapshot: &gtk::Snapshot) {
            if let Some(plot) = self.plot.borrow().as_ref() {
                self.obj().draw(&Canvas::new(snapshot, &*self.obj()), plot);
            }
        }
    }
}

use gtk::AccessibleRole;

glib::wrapper! {
    /// A chart of a [`Plot`].
    pub struct LineChart(ObjectSubclass<imp::LineChart>)
        @extends gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl LineChart {
    /// Shows this from now on.
    pub(crate) fn set_plot(&self, plot: Plot) {
        let now = plot.nr_moments().checked_sub(1).map_or_else(|| gettext("Nothing yet"), |last| plot.describe(last));
        self.update_property(&[
            gtk::accessible::Property::Label(&plot.title),
            gtk::accessible::Property::Description(&fill(&gettext("Now {values}"), &[("values", &now)])),
        ]);
        self.imp().plot.replace(Some(plot));
        self.queue_draw();
    }

    fn draw(&self, canvas: &Canvas<'_>, plot: &Plot) {
        let (width, height) = (self.width() as f32, self.height() as f32);
        let (top, bottom) = (LINE_PX, height - LINE_PX - 4.0);
        let place = |point| {
            let (x, y) = plot.place(point);
            (x as f32 * width, bottom - y as f32 * (bottom - top))
        };
        for nth in 0..=NR_GRID_LINES {
            let y = top + (bottom - top) * nth as f32 / NR_GRID_LINES as f32;
            canvas.rule((0.0, y), (width, y), &[], &canvas.ink(0.15));
        }
        for series in &plot.series {
            let color = canvas.hue(series.hue);
            for piece in series.pieces() {
                let points: Vec<_> = piece.iter().map(|point| place(*point)).collect();
                if plot.series.len() == 1 {
                    canvas.area(&points, bottom, &color.with_alpha(0.15));
                }
                canvas.line(&points, series.stroke, &color);
            }
        }
        let faint = canvas.ink(0.7);
        let minutes = (plot.span_s / 60.0) as u32;
        let begin = fill(&ngettext("{number} minute ago", "{number} minutes ago", minutes), &[("number", &minutes)]);
        canvas.text(&begin, 0.0, bottom + 4.0, Anchor::Start, &faint);
        canvas.text(&gettext("Now"), width, bottom + 4.0, Anchor::End, &faint);
        let top_width = canvas.text(&(plot.format)(plot.top), 0.0, 0.0, Anchor::Start, &faint);
        if let Some(moment) = self.imp().cursor.get().filter(|moment| *moment < plot.nr_moments()) {
            let x = plot.series.first().map_or(0.0, |series| place(series.points[moment]).0);
            canvas.rule((x, top), (x, bottom), &[], &canvas.ink(0.5));
            for series in &plot.series {
                canvas.dot(place(series.points[moment]), &canvas.hue(series.hue));
            }
            if width > 4.0 * top_width {
                canvas.text(&plot.describe(moment), width, 0.0, Anchor::End, &canvas.ink(1.0));
            }
        }
    }

    fn follow_keys(&self) {
        let keys = gtk::EventControllerKey::new();
        let this = self.downgrade();
        keys.connect_key_pressed(move |_, key, _, _| {
            let Some(chart) = this.upgrade() else { return glib::Propagation::Proceed };
            let Some(nr_moments) = chart.imp().plot.borrow().as_ref().map(Plot::nr_moments).filter(|nr| *nr > 0) else {
                return glib::Propagation::Proceed;
            };
            let last = nr_moments - 1;
            let now = chart.imp().cursor.get().unwrap_or(last).min(last);
            let to = match key {
                gdk::Key::Left => now.saturating_sub(1),
                gdk::Key::Right => (now + 1).min(last),
                gdk::Key::Home => 0,
                gdk::Key::End => last,
                _ => return glib::Propagation::Proceed,
            };
            chart.move_cursor(Some(to));
            chart.tell_cursor();
            glib::Propagation::Stop
        });
        self.add_controller(keys);
    }

    fn follow_pointer(&self) {
        let pointer = gtk::EventControllerMotion::new();
        let this = self.downgrade();
        pointer.connect_motion(move |_, x, _| {
            let Some(chart) = this.upgrade() else { return };
            let moment = chart.imp().plot.borrow().as_ref().and_then(|plot| plot.nearest(x / f64::from(chart.width())));
            chart.move_cursor(moment);
        });
        let this = self.downgrade();
        pointer.connect_leave(move |_| {
            if let Some(chart) = this.upgrade() {
                chart.move_cursor(None);
            }
        });
        self.add_controller(pointer);
    }

    fn move_cursor(&self, moment: Option<usize>) {
        self.imp().cursor.set(moment);
        self.queue_draw();
    }

    fn tell_cursor(&self) {
        let plot = self.imp().plot.borrow();
        let (Some(plot), Some(moment)) = (plot.as_ref(), self.imp().cursor.get()) else { return };
        let Some(point) = plot.series.first().and_then(|series| series.points.get(moment)) else { return };
        let age_s = point.age_s.round() as u32;
        let age = fill(&ngettext("{number} second ago", "{number} seconds ago", age_s), &[("number", &age_s)]);
        self.announce(&format!("{age}: {}", plot.describe(moment)), gtk::AccessibleAnnouncementPriority::Medium);
    }
}
