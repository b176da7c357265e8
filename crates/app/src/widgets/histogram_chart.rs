//! Bars on a logarithmic axis, with percentiles marked.
//!
//! The cursor moves from bar to bar; the bar's range, number and share are written into the chart.

use std::cell::{Cell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{AccessibleRole, glib};

use super::browse::{self, Browsable};
use super::canvas::{Anchor, Canvas, LINE_PX};
use crate::model::buckets::Chart;
use crate::model::plot::Hue;

const HEIGHT_PX: i32 = 130;
/// Between bars.
const GAP_PX: f32 = 2.0;

mod imp {
    use super::{
        AccessibleRole, Canvas, Cell, Chart, HEIGHT_PX, Hue, ObjectImpl, ObjectImplExt, ObjectSubclass,
        ObjectSubclassExt, RefCell, WidgetClassExt, WidgetImpl, browse, glib,
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
            browse::set_up(&*self.obj(), HEIGHT_PX);
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
            // A bar that is not empty is at least a pixel high.
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

    /// Draws the percentiles; their names are left out while a bar is described.
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
}

impl Browsable for HistogramChart {
    fn cursor(&self) -> &Cell<Option<usize>> {
        &self.imp().cursor
    }

    fn nr_places(&self) -> usize {
        self.imp().chart.borrow().bars.len()
    }

    fn place_at(&self, x: f64) -> Option<usize> {
        let nr_bars = self.nr_places();
        Some((x * nr_bars as f64) as usize).filter(|bar| *bar < nr_bars)
    }

    fn describe(&self, place: usize) -> Option<String> {
        self.imp().chart.borrow().bars.get(place).map(|bar| bar.text.clone())
    }
}
