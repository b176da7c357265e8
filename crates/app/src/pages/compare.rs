//! Measures this computer alternately with the kernel's own scheduler and with Scherzo, while the user goes on working.
//!
//! However the comparison ends, Scherzo is afterwards on or off as it was before. A note in a key file ensures that even
//! if the app is killed meanwhile.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use adw::prelude::*;
use adw::subclass::prelude::*;
use gtk::{CompositeTemplate, TemplateChild, gio, glib};
use scherzo_api::Error;
use scherzo_api::client::ClientState;
use scherzo_api::histogram::Histogram;
use scherzo_i18n::{fill, gettext, ngettext};

use crate::model::buckets::{Chart, Range};
use crate::model::compare::{ComparisonOutcome, Plan, Side};
use crate::model::plot::Hue;
use crate::model::probe::Probe;
use crate::notices::{Notices, error_text};
use crate::service::Service;
use crate::widgets::HistogramChart;
use crate::window_state::WindowState;

/// A separate key file: the window keeps its own one in memory.
const NOTES: &str = "comparison.ini";
/// Set while a comparison may have turned Scherzo on or off. The other keys say which to restore, and which way it was turned last: who turns
/// it the other way after that has decided.
const NOTE_UNDER_WAY: &str = "under-way";
const NOTE_WAS_ON: &str = "was-on";
const NOTE_IS_ON: &str = "is-on";

mod imp {
    use super::{
        Cell, CompositeTemplate, HistogramChart, NavigationPageImpl, NavigationPageImplExt, ObjectImpl, ObjectImplExt,
        ObjectSubclass, ObjectSubclassExt, Probe, RefCell, Service, TemplateChild, WidgetImpl, glib,
    };
    use gtk::glib::Properties;
    use gtk::glib::subclass::object::DerivedObjectProperties;
    use gtk::prelude::*;
    use gtk::subclass::prelude::*;

    #[derive(Debug, Default, CompositeTemplate, Properties)]
    #[template(file = "compare.ui")]
    #[properties(wrapper_type = super::ComparePage)]
    pub struct ComparePage {
        #[template_child]
        pub(super) stack: TemplateChild<gtk::Stack>,
        #[template_child]
        pub(super) duration: TemplateChild<adw::ComboRow>,
        #[template_child]
        pub(super) start: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) progress: TemplateChild<gtk::ProgressBar>,
        #[template_child]
        pub(super) under_way: TemplateChild<adw::StatusPage>,
        #[template_child]
        pub(super) cancel: TemplateChild<gtk::Button>,
        #[template_child]
        pub(super) difference: TemplateChild<gtk::Label>,
        #[template_child]
        pub(super) reason: TemplateChild<gtk::Label>,
        #[template_child]
        pub(super) kernel: TemplateChild<HistogramChart>,
        #[template_child]
        pub(super) scherzo: TemplateChild<HistogramChart>,
        #[template_child]
        pub(super) again: TemplateChild<gtk::Button>,
        #[property(get, construct_only)]
        pub(super) service: RefCell<Option<Service>>,
        /// The round under way; dropping it ends the comparison.
        pub(super) probe: RefCell<Option<Probe>>,
        pub(super) is_under_way: Cell<bool>,
        pub(super) is_cancelled: Cell<bool>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ComparePage {
        const NAME: &'static str = "ScherzoComparePage";
        type Type = super::ComparePage;
        type ParentType = adw::NavigationPage;

        fn class_init(class: &mut Self::Class) {
            HistogramChart::ensure_type();
            class.bind_template();
        }

        fn instance_init(object: &glib::subclass::InitializingObject<Self>) {
            object.init_template();
        }
    }

    #[glib::derived_properties]
    impl ObjectImpl for ComparePage {
        fn constructed(&self) {
            self.parent_constructed();
            self.obj().set_up();
        }
    }

    impl WidgetImpl for ComparePage {}

    impl NavigationPageImpl for ComparePage {
        fn hidden(&self) {
            self.parent_hidden();
            self.obj().cancel();
        }
    }
}

glib::wrapper! {
    /// The comparison.
    pub struct ComparePage(ObjectSubclass<imp::ComparePage>)
        @extends adw::NavigationPage, gtk::Widget,
        @implements gtk::Accessible, gtk::Buildable, gtk::ConstraintTarget;
}

/// Why a comparison has no result.
enum ComparisonFailure {
    Cancelled,
    /// A sentence.
    Told(String),
    /// Somebody has turned Scherzo on or off meanwhile, and that stays so.
    Overruled,
    /// The user has no right to turn Scherzo on or off, or did not authenticate; nothing was changed. A sentence.
    Refused(String),
}

impl ComparePage {
    pub(crate) fn new(service: &Service) -> Self {
        glib::Object::builder().property("service", service).build()
    }

    /// Restores the state of before if the app was killed during a comparison.
    pub(crate) fn restore_after_accident(service: &Service, window: &gtk::Widget) {
        let remembered = WindowState::load(NOTES);
        if !remembered.flag(NOTE_UNDER_WAY) {
            return;
        }
        let (client, was_on, is_on) = (service.client(), remembered.flag(NOTE_WAS_ON), remembered.flag(NOTE_IS_ON));
        let bound = service.downgrade();
        // As soon as the service answers.
        let is_done = Cell::new(false);
        service.follow(window, move |window, state| {
            if state.current().is_some()
                && !is_done.replace(true)
                && let (Some(notices), Some(service)) = (Notices::over(window), bound.upgrade())
            {
                if state.service.enabled != is_on {
                    forget_comparison();
                    return;
                }
                let client = client.clone();
                notices.act(&service, async move {
                    let restored = restore(&client, was_on).await;
                    if matches!(restored, Err(Error::AccessDenied(_))) {
                        // The user is asked only once.
                        forget_comparison();
                    }
                    restored
                });
            }
        });
    }

    fn set_up(&self) {
        let imp = self.imp();
        let minutes = Plan::CHOICES.map(|plan| {
            let minutes = plan.duration_s() / 60;
            fill(&ngettext("{number} minute", "{number} minutes", minutes), &[("number", &minutes)])
        });
        imp.duration.set_model(Some(&gtk::StringList::new(&minutes.each_ref().map(String::as_str))));
        imp.duration.set_selected(1);
        for button in [&imp.start, &imp.again] {
            let this = self.downgrade();
            button.connect_clicked(move |_| {
                if let Some(page) = this.upgrade() {
                    page.start();
                }
            });
        }
        let this = self.downgrade();
        imp.cancel.connect_clicked(move |_| {
            if let Some(page) = this.upgrade() {
                page.cancel();
            }
        });
        if let Some(service) = self.service() {
            service.follow(self, Self::update);
        }
    }

    fn update(&self, state: &ClientState) {
        use scherzo_api::types::State;
        let can_start = !matches!(state.state(), None | Some(State::Unsupported | State::Foreign | State::Starting));
        self.imp().start.set_sensitive(can_start);
        self.imp().again.set_sensitive(can_start);
    }

    fn start(&self) {
        let (imp, Some(service)) = (self.imp(), self.service()) else { return };
        if imp.is_under_way.replace(true) {
            return;
        }
        imp.is_cancelled.set(false);
        imp.stack.set_visible_child_name("under-way");
        let plan = Plan::CHOICES.get(imp.duration.selected() as usize).copied().unwrap_or(Plan::CHOICES[0]);
        let (page, notices) = (self.clone(), Notices::over(self));
        // Keeps the application alive without its window until the state of before is restored.
        let app = gio::Application::default();
        glib::spawn_future_local(async move {
            let hold = app.as_ref().map(gio::prelude::ApplicationExtManual::hold);
            let was_on = service.state().service.enabled;
            note(was_on);
            let outcome = page.measure(&service, plan).await;
            let restored = match &outcome {
                Err(ComparisonFailure::Refused(_) | ComparisonFailure::Overruled) => {
                    forget_comparison();
                    Ok(())
                }
                _ => restore(&service.client(), was_on).await,
            };
            page.imp().is_under_way.set(false);
            page.show(outcome);
            // Who has left the page is told as well.
            if let (Err(error), Some(notices)) = (restored, notices) {
                notices.say(&error_text(&error));
            }
            drop(hold);
        });
    }

    /// Cancels a comparison under way, which then restores the state of before.
    fn cancel(&self) {
        self.imp().is_cancelled.set(true);
        self.imp().probe.take();
    }

    async fn measure(&self, service: &Service, plan: Plan) -> Result<ComparisonOutcome, ComparisonFailure> {
        let mut outcome = ComparisonOutcome::default();
        let sides = plan.sides();
        for (nth, side) in sides.iter().enumerate() {
            self.show_progress(nth, sides.len(), *side);
            let exits = service.state().nr_exits;
            WindowState::load(NOTES).set_flag(NOTE_IS_ON, *side == Side::Scherzo);
            let switched = service.client().set_enabled(*side == Side::Scherzo).await;
            switched.map_err(|error| match error {
                Error::AccessDenied(_) if nth == 0 => ComparisonFailure::Refused(error_text(&error)),
                error => ComparisonFailure::Told(error_text(&error)),
            })?;
            let round = self.measure_round(Duration::from_secs(plan.round_s.into())).await?;
            if service.state().service.enabled != (*side == Side::Scherzo) {
                return Err(ComparisonFailure::Overruled);
            }
            if service.state().nr_exits != exits || service.state().is_loaded() != (*side == Side::Scherzo) {
                return Err(ComparisonFailure::Told(gettext("Something else changed the scheduler meanwhile")));
            }
            outcome.add(*side, round);
        }
        Ok(outcome)
    }

    async fn measure_round(&self, duration: Duration) -> Result<Histogram, ComparisonFailure> {
        let (done, found) = async_channel::bounded(1);
        let tell = move |round| {
            // The receiver is gone if the comparison was cancelled.
            let _ = done.try_send(round);
        };
        let probe = Probe::start(duration, tell).map_err(|problem| ComparisonFailure::Told(problem.to_string()))?;
        if self.imp().is_cancelled.get() {
            return Err(ComparisonFailure::Cancelled);
        }
        self.imp().probe.replace(Some(probe));
        found.recv().await.map_err(|_| ComparisonFailure::Cancelled)
    }

    fn show_progress(&self, nth: usize, nr_rounds: usize, side: Side) {
        let imp = self.imp();
        imp.progress.set_fraction(nth as f64 / nr_rounds as f64);
        let round: [(&str, &dyn std::fmt::Display); 2] = [("nth", &(nth + 1)), ("number", &nr_rounds)];
        imp.progress.set_text(Some(&fill(&gettext("Round {nth} of {number}"), &round)));
        imp.under_way.set_title(&match side {
            Side::Kernel => gettext("Measuring Without Scherzo"),
            Side::Scherzo => gettext("Measuring With Scherzo"),
        });
    }

    fn show(&self, outcome: Result<ComparisonOutcome, ComparisonFailure>) {
        let imp = self.imp();
        match outcome {
            Ok(outcome) => self.show_outcome(&outcome),
            Err(failure) => {
                imp.stack.set_visible_child_name("setup");
                let text = match failure {
                    ComparisonFailure::Cancelled => return,
                    ComparisonFailure::Told(text) | ComparisonFailure::Refused(text) => text,
                    ComparisonFailure::Overruled => gettext("Something else changed the scheduler meanwhile"),
                };
                if let Some(notices) = Notices::over(self) {
                    notices.say(&text);
                }
            }
        }
    }

    fn show_outcome(&self, outcome: &ComparisonOutcome) {
        let imp = self.imp();
        let (title, text) = outcome.in_words();
        imp.difference.set_label(&title);
        imp.reason.set_label(&text);
        let (kernel, scherzo) = (outcome.total(Side::Kernel), outcome.total(Side::Scherzo));
        let range = Range::of([&kernel, &scherzo]);
        imp.kernel.set_chart(Hue::Orange, Chart::new(gettext("Without Scherzo"), &kernel, range));
        imp.scherzo.set_chart(Hue::Blue, Chart::new(gettext("With Scherzo"), &scherzo, range));
        imp.stack.set_visible_child_name("result");
        self.announce(&format!("{title}. {text}"), gtk::AccessibleAnnouncementPriority::Medium);
    }
}

async fn restore(client: &scherzo_api::client::Client, was_on: bool) -> Result<(), Error> {
    client.set_enabled(was_on).await?;
    forget_comparison();
    Ok(())
}

/// Writes down what to restore.
fn note(was_on: bool) {
    let remembered = WindowState::load(NOTES);
    remembered.set_flag(NOTE_WAS_ON, was_on);
    remembered.set_flag(NOTE_IS_ON, was_on);
    remembered.set_flag(NOTE_UNDER_WAY, true);
}

/// Writes down that there is nothing to restore: it was restored, or somebody has decided otherwise.
pub(crate) fn forget_comparison() {
    let remembered = WindowState::load(NOTES);
    if remembered.flag(NOTE_UNDER_WAY) {
        remembered.set_flag(NOTE_UNDER_WAY, false);
    }
}
