//! Lines over the last minutes.
//!
//! The cursor moves from moment to moment; what the lines say there is written into the chart.

use std::cell::{Cell, RefCell};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::glib;
use scherzo_i18n::{fill, gettext, ngettext};

use super::browse::{self, Browsable};
use super::canvas::{Anchor, Canvas, LINE_PX};
use crate::model::plot::Plot;

const HEIGHT_PX: i32 = 150;
const NR_GRID_LINES: usize = 2;

mod imp {
    use super::{
        AccessibleRole, Canvas, Cell, HEIGHT_PX, ObjectImpl, ObjectImplExt, ObjectSubclass, ObjectSubclassExt, Plot,
        RefCell, WidgetClassExt, WidgetImpl, browse, glib,
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
            browse::set_up(&*self.obj(), HEIGHT_PX);
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
}

impl Browsable for LineChart {
    fn cursor(&self) -> &Cell<Option<usize>> {
        &self.imp().cursor
    }

    fn nr_places(&self) -> usize {
        self.imp().plot.borrow().as_ref().map_or(0, Plot::nr_moments)
    }

    fn place_at(&self, x: f64) -> Option<usize> {
        self.imp().plot.borrow().as_ref()?.nearest(x)
    }

    fn describe(&self, place: usize) -> Option<String> {
        let plot = self.imp().plot.borrow();
        let plot = plot.as_ref()?;
        let age_s = plot.series.first()?.points.get(place)?.age_s.round() as u32;
        let age = fill(&ngettext("{number} second ago", "{number} seconds ago", age_s), &[("number", &age_s)]);
        Some(format!("{age}: {}", plot.describe(place)))
    }
}
