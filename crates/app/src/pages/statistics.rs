//! How long tasks wait, and what scheduling takes: live while someone looks.

use std::cell::{OnceCell, RefCell};
use std::time::{Instant, SystemTime};

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, gio, glib};
use scherzo_api::client::{ClientState, Reading, Topic, Watch};
use scherzo_i18n::{fill, gettext};
use scherzo_wire::layout::Class;

use crate::model::buckets::{Chart, Range};
use crate::model::format;
use crate::model::plot::Hue;
use crate::model::timeline::Timeline;
use crate::notices::Notices;
use crate::service::Service;
use crate::widgets::{ChartCard, HistogramChart};

mod imp {
    use super::{
        BinImpl, ChartCard, CompositeTemplate, HistogramChart, ObjectImpl, ObjectImplExt, ObjectSubclass,
        ObjectSubclassExt, OnceCell, Reading, RefCell, Service, TemplateChild, Timeline, Watch, WidgetImpl,
        WidgetImplExt, glib,
    };
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate)]
    #[template(file = "statistics.ui")]
    pub struct StatisticsPage {
        #[template_child]
        pub(super) stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub(super) interactive: TemplateChild<HistogramChart>,
        #[template_child]
        pub(super) batch: TemplateChild<HistogramChart>,
        #[template_child]
        pub(super) new: TemplateChild<HistogramChart>,
        #[template_child]
        pub(super) kernel: TemplateChild<HistogramChart>,
        #[template_child]
        pub(super) cpu: TemplateChild<ChartCard>,
        #[template_child]
        pub(super) dispatches: TemplateChild<ChartCard>,
        #[template_child]
        pub(super) queue: TemplateChild<ChartCard>,
        #[template_child]
        pub(super) engine: TemplateChild<ChartCard>,
        pub(super) service: OnceCell<Service>,
        pub(super) timeline: RefCell<Timeline>,
        pub(super) last: RefCell<Option<Box<Reading>>>,
        pub(super) watch: RefCell<Option<Watch>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for StatisticsPage {
        const NAME: &'static str = "ScherzoStatisticsPage";
        type Type = super::StatisticsPage;
        type ParentType = adw::Bin;

        fn class_init(class: &mut Self::Class) {
            HistogramChart::ensure_type();
            ChartCard::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    impl ObjectImpl for StatisticsPage {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().show_timeline();
        }
    }

    impl WidgetImpl for StatisticsPage {
        fn map(&self) {
            self.parent_map();
            self.obj().watch_while_seen();
        }

        fn unmap(&self) {
            self.parent_unmap();
            self.obj().watch_while_seen();
        }

        fn root(&self) {
            self.parent_root();
            let this = self.obj().downgrade();
            if let Some(window) = self.obj().root().and_downcast::<gtk::Window>() {
                window.connect_suspended_notify(move |_| {
                    if let Some(page) = this.upgrade() {
                        page.watch_while_seen();
                    }
                });
            }
        }
    }

    impl BinImpl for StatisticsPage {}
}

glib::wrapper! {
    /// The second view.
    pub struct StatisticsPage(ObjectSubclass<imp::StatisticsPage>)
        @extends adw::Bin, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

impl StatisticsPage {
    /// Shows this service from now on.
    pub(crate) fn bind(&self, service: &Service) {
        // A page is bound once.
        let _ = self.imp().service.set(service.clone());
        service.follow(self, Self::update);
    }

    /// Nothing is measured for a page that nobody sees: another view is shown, or the window is minimised or covered.
    fn watch_while_seen(&self) {
        let imp = self.imp();
        let is_suspended = self.root().and_downcast::<gtk::Window>().is_some_and(|window| window.is_suspended());
        let is_seen = self.is_mapped() && !is_suspended;
        let is_watched = imp.watch.borrow().is_some();
        if is_seen != is_watched {
            let service = imp.service.get().filter(|_| is_seen);
            imp.watch.replace(service.map(|service| service.client().watch(Topic::Statistics)));
        }
    }

    fn update(&self, state: &ClientState) {
        let imp = self.imp();
        imp.stack.set_visible_child_name(if state.is_loaded() { "live" } else { "off" });
        let Some(reading) = state.reading.as_ref().filter(|reading| imp.last.borrow().as_ref() != Some(*reading))
        else {
            return;
        };
        imp.last.replace(Some(reading.clone()));
        imp.timeline.borrow_mut().push(now_s(), unix_s(), reading);
        if self.is_mapped() {
            self.show_timeline();
        }
    }

    fn show_timeline(&self) {
        let imp = self.imp();
        let timeline = imp.timeline.borrow();
        let waits = timeline.waits();
        let range = Range::of(Class::ALL.iter().map(|class| waits.of(*class)));
        let charts = [
            (Class::Interactive, Hue::Blue, gettext("Interactive programs"), &imp.interactive),
            (Class::Batch, Hue::Orange, gettext("Background work"), &imp.batch),
            (Class::Unknown, Hue::Green, gettext("New tasks"), &imp.new),
            (Class::Kernel, Hue::Purple, gettext("Kernel threads"), &imp.kernel),
        ];
        for (class, hue, title, chart) in charts {
            let histogram = waits.of(class);
            // Interactive and batch are always shown, the other classes once they have waits.
            let is_main = matches!(class, Class::Interactive | Class::Batch);
            if let Some(section) = chart.parent() {
                section.set_visible(is_main || histogram.nr_total() > 0);
            }
            chart.set_chart(hue, Chart::new(title, histogram, range));
        }
        let memory = fill(&gettext("{memory} of memory"), &[("memory", &format::bytes(timeline.engine_bytes()))]);
        let memory = (!timeline.is_empty()).then_some(memory);
        imp.cpu.set_plot(timeline.cpu(), None);
        imp.dispatches.set_plot(timeline.dispatches(), None);
        imp.queue.set_plot(timeline.queue(), None);
        imp.engine.set_plot(timeline.engine(), memory.as_deref());
    }

    /// Writes the recorded seconds to a file that the user chooses.
    pub(crate) fn export(&self) {
        let Some(notices) = Notices::over(self) else { return };
        if self.imp().timeline.borrow().is_empty() {
            notices.say(&gettext("There are no statistics to save yet"));
            return;
        }
        let window = self.root().and_downcast::<gtk::Window>();
        let csv = self.imp().timeline.borrow().csv();
        let dialog = gtk::FileDialog::builder()
            .title(gettext("Save Statistics"))
            .initial_name("scherzo-statistics.csv")
            .modal(true)
            .build();
        glib::spawn_future_local(async move {
            // The dialog was dismissed.
            let Ok(file) = dialog.save_future(window.as_ref()).await else { return };
            let saved = file.replace_contents_future(csv, None, false, gio::FileCreateFlags::NONE).await;
            match saved {
                Ok(_) => notices.say(&gettext("Statistics saved")),
                Err((_, problem)) => {
                    notices.say(&fill(&gettext("Could not be saved: {problem}"), &[("problem", &problem.message())]));
                }
            }
        });
    }
}

/// On a clock that only goes forward.
fn now_s() -> f64 {
    thread_local!(static START: Instant = Instant::now());
    START.with(|start| start.elapsed().as_secs_f64())
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
