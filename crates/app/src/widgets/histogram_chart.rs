//! Bars on a logarithmic axis, with percentiles marked.
//!
//! The arrow keys and the pointer move from bar to bar; the bar's range, number and share are written into the chart and
//! told to screen readers.

use std::cell::{Cell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{AccessibleRole, gdk, glib};

use super::canvas::{Anchor, Canvas, LINE_PX};
use crate::model::buckets::Chart;
use crate::model::plot::Hue;

const HEIGHT_PX: i32 = 130;
/// Between bars.
const GAP_PX: f32 = 2.0;

mod imp {
    use super::{
        AccessibleRole, Canvas, Cell, Chart, HEIGHT_PX, Hue, ObjectImpl, ObjectImplExt, ObjectSubclass,
        ObjectSubclassExt, RefCell, WidgetClassExt, WidgetExt, WidgetImpl, glib,
    };

    #[derive(Debug, Default)]
    pub struct HistogramChart {
        pub(super) chart: RefCell<Chart>,
        pub(super) hue: Cell<Option<Hue>>,
        /// The bar that is looked at.
        pub(super) cursor: Cell<Option<usize>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for HistogramChart {
        const NAME: &'static str = "ScherzoHistogramChart";
        type Type = super::HistogramChart;
        type ParentType = gtk::Widget;

        fn class_init(class: &mut Self::Class) {
            class.set_css_name("chart");
            class.set_accessible_role(AccessibleRole::Img);
        }
    }

    impl ObjectImpl for HistogramChart {
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

    impl WidgetImpl for HistogramChart {
        fn snapshot(&self, snapshot: &gtk::Snapshot) {
            self.obj().draw(&Canvas::new(snapshot, &*self.obj()), &self.chart.borrow());
        }
    }
}

glib::wrapper! {
    /// A chart of a [`Chart`].
    pub struct HistogramChart(ObjectSubclass<imp::HistogramChart>)
        @extends gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl HistogramChart {
    /// Shows this from now on.
    pub(crate) fn set_chart(&self, hue: Hue, chart: Chart) {
        self.update_property(&[
            gtk::accessible::Property::Label(&chart.title),
            gtk::accessible::Property::Description(&chart.summary()),
        ]);
        self.imp().hue.set(Some(hue));
        self.imp().chart.replace(chart);
        self.queue_draw();
    }

    fn draw(&self, canvas: &Canvas<'_>, chart: &Chart) {
        let (width, height) = (self.width() as f32, self.height() as f32);
        let (top, bottom) = (LINE_PX + 4.0, height - LINE_PX - 4.0);
        let color = canvas.hue(self.imp().hue.get().unwrap_or(Hue::Blue));
        let bar_width = width / chart.bars.len().max(1) as f32;
        let cursor = self.imp().cursor.get();
        for (nth, bar) in chart.bars.iter().enumerate().filter(|(_, bar)| bar.share > 0.0) {
            // A single wait among millions is a pixel still.
            let bar_height = ((bar.share / chart.top) as f32 * (bottom - top)).max(1.5);
            let color = if cursor.is_none_or(|cursor| cursor == nth) { color } else { color.with_alpha(0.5) };
            let left = nth as f32 * bar_width + GAP_PX / 2.0;
            canvas.bar(left, bottom - bar_height, (bar_width - GAP_PX).max(1.0), bar_height, &color);
        }
        canvas.rule((0.0, bottom), (width, bottom), &[], &canvas.ink(0.3));
        for tick in &chart.ticks {
            let x = tick.place as f32 * width;
            canvas.rule((x, bottom), (x, bottom + 3.0), &[], &canvas.ink(0.5));
            canvas.text(&tick.text, x, bottom + 4.0, Anchor::Middle, &canvas.ink(0.7));
        }
        if let Some(bar) = cursor.and_then(|cursor| chart.bars.get(cursor)) {
            canvas.text(
                &bar.text,
                (cursor.unwrap_or(0) as f32 + 0.5) * bar_width,
                0.0,
                Anchor::Middle,
                &canvas.ink(1.0),
            );
        }
        self.draw_marks(canvas, chart, cursor.is_none(), top, bottom);
    }

    /// Percentiles; their names give way to what is written about a bar.
    fn draw_marks(&self, canvas: &Canvas<'_>, chart: &Chart, named: bool, top: f32, bottom: f32) {
        let width = self.width() as f32;
        for (nth, mark) in chart.marks.iter().enumerate() {
            let x = mark.place as f32 * width;
            canvas.rule((x, top - 2.0), (x, bottom), &[4.0, 3.0], &canvas.ink(0.8));
            if named {
                // The lower to the left, the higher to the right: they never cover each other.
                let (x, anchor) = if nth == 0 { (x + 2.0, Anchor::End) } else { (x - 2.0, Anchor::Start) };
                canvas.text(&format!("{} {}", mark.name, mark.value), x, 0.0, anchor, &canvas.ink(0.9));
            }
        }
    }

    fn follow_keys(&self) {
        let keys = gtk::EventControllerKey::new();
        let this = self.downgrade();
        keys.connect_key_pressed(move |_, key, _, _| {
            let Some(chart) = this.upgrade() else { return glib::Propagation::Proceed };
            let Some(last) = chart.imp().chart.borrow().bars.len().checked_sub(1) else {
                return glib::Propagation::Proceed;
            };
            let now = chart.imp().cursor.get();
            let to = match key {
                gdk::Key::Left => now.map_or(last, |now| now.saturating_sub(1)),
                gdk::Key::Right => now.map_or(0, |now| (now + 1).min(last)),
                gdk::Key::Home => 0,
                gdk::Key::End => last,
                _ => return glib::Propagation::Proceed,
            };
            chart.move_cursor(Some(to));
            let text = chart.imp().chart.borrow().bars.get(to).map(|bar| bar.text.clone()).unwrap_or_default();
            chart.announce(&text, gtk::AccessibleAnnouncementPriority::Medium);
            glib::Propagation::Stop
        });
        self.add_controller(keys);
        let focus = gtk::EventControllerFocus::new();
        let this = self.downgrade();
        focus.connect_leave(move |_| {
            if let Some(chart) = this.upgrade() {
                chart.move_cursor(None);
            }
        });
        self.add_controller(focus);
    }

    fn follow_pointer(&self) {
        let pointer = gtk::EventControllerMotion::new();
        let this = self.downgrade();
        pointer.connect_motion(move |_, x, _| {
            let Some(chart) = this.upgrade() else { return };
            let nr_bars = chart.imp().chart.borrow().bars.len();
            let bar = (x / f64::from(chart.width().max(1)) * nr_bars as f64) as usize;
            chart.move_cursor((bar < nr_bars).then_some(bar));
        });
        let this = self.downgrade();
        pointer.connect_leave(move |_| {
            if let Some(chart) = this.upgrade() {
                chart.move_cursor(None);
            }
        });
        self.add_controller(pointer);
    }

    fn move_cursor(&self, bar: Option<usize>) {
        if self.imp().cursor.replace(bar) != bar {
            self.queue_draw();
        }
    }
}
