//! A line chart with its title, what it says now, and a legend if it has more than one line.

use std::cell::RefCell;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, glib};

use super::LineChart;
use super::swatch::Swatch;
use crate::model::plot::Plot;

mod imp {
    use super::{
        BinImpl, CompositeTemplate, LineChart, ObjectImpl, ObjectSubclass, RefCell, TemplateChild, WidgetImpl, glib,
    };
    use gtk::prelude::StaticTypeExt;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "chart_card.ui")]
    pub struct ChartCard {
        #[template_child]
        pub(super) title: TemplateChild<gtk::Label>,
        #[template_child]
        pub(super) now: TemplateChild<gtk::Label>,
        #[template_child]
        pub(super) legend: TemplateChild<gtk::FlowBox>,
        #[template_child]
        pub(super) chart: TemplateChild<LineChart>,
        /// What the legend says now of each line.
        pub(super) values: RefCell<Vec<gtk::Label>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ChartCard {
        const NAME: &'static str = "ScherzoChartCard";
        type Type = super::ChartCard;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            LineChart::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for ChartCard {}
    impl WidgetImpl for ChartCard {}
    impl BinImpl for ChartCard {}
}

glib::wrapper! {
    /// A card with a chart.
    pub struct ChartCard(ObjectSubclass<imp::ChartCard>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl ChartCard {
    /// Shows this from now on; `more` is said beside what the line says now.
    pub(crate) fn set_plot(&self, plot: Plot, more: Option<&str>) {
        let imp = self.imp();
        let last = plot.nr_moments().checked_sub(1);
        let value = |series: &crate::model::plot::Series| {
            last.and_then(|last| series.points.get(last)).map(|point| (plot.format)(point.value)).unwrap_or_default()
        };
        imp.title.set_label(&plot.title);
        if let [series] = plot.series.as_slice() {
            let now = [Some(value(series)), more.map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>();
            imp.now.set_label(&now.join(" · "));
        } else {
            self.make_legend(&plot);
            for (label, series) in imp.values.borrow().iter().zip(&plot.series) {
                label.set_label(&value(series));
            }
        }
        imp.chart.set_plot(plot);
    }

    fn make_legend(&self, plot: &Plot) {
        let imp = self.imp();
        if !imp.values.borrow().is_empty() {
            return;
        }
        for series in &plot.series {
            let entry = gtk::Box::new(gtk::Orientation::Horizontal, 6);
            entry.append(&Swatch::new(series.hue, series.stroke));
            entry.append(&gtk::Label::builder().label(&series.name).css_classes(["caption"]).build());
            let value = gtk::Label::builder().css_classes(["caption", "numeric", "dim-label"]).build();
            entry.append(&value);
            let cell = gtk::FlowBoxChild::builder().child(&entry).focusable(false).halign(gtk::Align::Start).build();
            imp.legend.append(&cell);
            imp.values.borrow_mut().push(value);
        }
        imp.legend.set_visible(true);
    }
}
