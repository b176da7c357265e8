//! How all charts are looked at more closely: the arrow keys and the pointer move a cursor from place to place, and what
//! it stands on is told to screen readers.

use std::cell::Cell;

use adw::prelude::*;
use gtk::{gdk, glib};

/// A chart with places that a cursor can stand on, from left to right.
pub(super) trait Browsable: IsA<gtk::Widget> + IsA<gtk::Accessible> {
    /// Where the cursor stands.
    fn cursor(&self) -> &Cell<Option<usize>>;

    /// How many places there are.
    fn nr_places(&self) -> usize;

    /// The place at this part of the width, 0 to 1.
    fn place_at(&self, x: f64) -> Option<usize>;

    /// What a screen reader says of a place.
    fn describe(&self, place: usize) -> Option<String>;
}

/// Makes a new chart focusable, as high as this, and browsable.
pub(super) fn set_up(chart: &impl Browsable, height_px: i32) {
    chart.set_focusable(true);
    chart.set_height_request(height_px);
    chart.set_hexpand(true);
    follow_keys(chart);
    follow_pointer(chart);
}

fn follow_keys<C: Browsable>(chart: &C) {
    let keys = gtk::EventControllerKey::new();
    let this = chart.downgrade();
    keys.connect_key_pressed(move |_, key, _, _| {
        let chart = this.upgrade();
        let moved = chart.and_then(|chart| Some((step(key, chart.cursor().get(), chart.nr_places())?, chart)));
        let Some((to, chart)) = moved else { return glib::Propagation::Proceed };
        move_cursor(&chart, Some(to));
        if let Some(text) = chart.describe(to) {
            chart.announce(&text, gtk::AccessibleAnnouncementPriority::Medium);
        }
        glib::Propagation::Stop
    });
    chart.add_controller(keys);
    let focus = gtk::EventControllerFocus::new();
    let this = chart.downgrade();
    focus.connect_leave(move |_| {
        if let Some(chart) = this.upgrade() {
            move_cursor(&chart, None);
        }
    });
    chart.add_controller(focus);
}

/// The place that an arrow key moves the cursor to; without a cursor, the first one in its direction.
fn step(key: gdk::Key, from: Option<usize>, nr_places: usize) -> Option<usize> {
    let last = nr_places.checked_sub(1)?;
    match key {
        gdk::Key::Left => Some(from.map_or(last, |from| from.min(last).saturating_sub(1))),
        gdk::Key::Right => Some(from.map_or(0, |from| (from + 1).min(last))),
        gdk::Key::Home => Some(0),
        gdk::Key::End => Some(last),
        _ => None,
    }
}

fn follow_pointer<C: Browsable>(chart: &C) {
    let pointer = gtk::EventControllerMotion::new();
    let this = chart.downgrade();
    pointer.connect_motion(move |_, x, _| {
        if let Some(chart) = this.upgrade() {
            move_cursor(&chart, chart.place_at(x / f64::from(chart.width().max(1))));
        }
    });
    let this = chart.downgrade();
    pointer.connect_leave(move |_| {
        if let Some(chart) = this.upgrade() {
            move_cursor(&chart, None);
        }
    });
    chart.add_controller(pointer);
}

fn move_cursor(chart: &impl Browsable, place: Option<usize>) {
    if chart.cursor().replace(place) != place {
        chart.queue_draw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_enter_at_their_end_and_stop_at_the_other() {
        let walk = |key, nr: usize| {
            (0..nr).fold((None, Vec::new()), |(at, mut seen), _| {
                let at = step(key, at, 3);
                seen.extend(at);
                (at, seen)
            })
        };
        assert_eq!(walk(gdk::Key::Left, 4).1, [2, 1, 0, 0]);
        assert_eq!(walk(gdk::Key::Right, 4).1, [0, 1, 2, 2]);
        assert_eq!([gdk::Key::Home, gdk::Key::End].map(|key| step(key, Some(1), 3)), [Some(0), Some(2)]);
    }

    #[test]
    fn other_keys_and_empty_charts_move_nothing() {
        assert_eq!(step(gdk::Key::Tab, Some(1), 3), None);
        assert_eq!(step(gdk::Key::Right, None, 0), None);
        assert_eq!(step(gdk::Key::Left, Some(7), 3), Some(1), "the chart had more places before");
    }
}
