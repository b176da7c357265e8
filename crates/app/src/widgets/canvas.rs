//! What both charts draw with.

use adw::prelude::*;
use gtk::{gdk, graphene, gsk, pango};

use crate::model::plot::{Hue, Stroke};

/// Room for one line of small text, in pixels.
pub(super) const LINE_PX: f32 = 18.0;
const FONT_SCALE: f64 = 0.85;
const LINE_WIDTH_PX: f32 = 2.0;

/// Where within a text its position is.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A widget's snapshot, with the widget's own colours and font.
pub(super) struct Canvas<'a> {
    snapshot: &'a gtk::Snapshot,
    widget: &'a gtk::Widget,
    is_dark: bool,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(snapshot: &'a gtk::Snapshot, widget: &'a impl IsA<gtk::Widget>) -> Self {
        Self { snapshot, widget: widget.upcast_ref(), is_dark: adw::StyleManager::default().is_dark() }
    }

    /// From GNOME's palette, lighter on dark backgrounds.
    pub(super) fn hue(&self, hue: Hue) -> gdk::RGBA {
        let (on_light, on_dark) = match hue {
            Hue::Blue => ([0x1c, 0x71, 0xd8], [0x78, 0xae, 0xed]),
            Hue::Orange => ([0xc6, 0x46, 0x00], [0xff, 0xa3, 0x48]),
            Hue::Purple => ([0x81, 0x3d, 0x9c], [0xdc, 0x8a, 0xdd]),
            Hue::Green => ([0x26, 0xa2, 0x69], [0x57, 0xe3, 0x89]),
        };
        rgb(if self.is_dark { on_dark } else { on_light })
    }

    /// The widget's text colour, this opaque.
    pub(super) fn ink(&self, opacity: f32) -> gdk::RGBA {
        let color = self.widget.color();
        color.with_alpha(color.alpha() * opacity)
    }

    pub(super) fn line(&self, points: &[(f32, f32)], stroke: Stroke, color: &gdk::RGBA) {
        let line = gsk::Stroke::new(LINE_WIDTH_PX);
        line.set_line_join(gsk::LineJoin::Round);
        line.set_line_cap(gsk::LineCap::Round);
        match stroke {
            Stroke::Solid => {}
            Stroke::Dashed => line.set_dash(&[8.0, 5.0]),
            Stroke::Dotted => line.set_dash(&[0.5, 4.5]),
        }
        self.snapshot.append_stroke(&path(points), &line, color);
    }

    /// A hairline, for grids and marks.
    pub(super) fn rule(&self, from: (f32, f32), to: (f32, f32), dash: &[f32], color: &gdk::RGBA) {
        let line = gsk::Stroke::new(1.0);
        line.set_dash(dash);
        self.snapshot.append_stroke(&path(&[from, to]), &line, color);
    }

    /// What lies between a line and the bottom.
    pub(super) fn area(&self, points: &[(f32, f32)], bottom: f32, color: &gdk::RGBA) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        let outline: Vec<_> = points.iter().copied().chain([(last.0, bottom), (first.0, bottom)]).collect();
        self.snapshot.append_fill(&path(&outline), gsk::FillRule::Winding, color);
    }

    /// A bar with rounded top corners.
    pub(super) fn bar(&self, x: f32, y: f32, width: f32, height: f32, color: &gdk::RGBA) {
        let radius = (width / 2.0).min(height).min(4.0);
        let radius = graphene::Size::new(radius, radius);
        let none = graphene::Size::zero();
        let shape = gsk::RoundedRect::new(graphene::Rect::new(x, y, width, height), radius, radius, none, none);
        let builder = gsk::PathBuilder::new();
        builder.add_rounded_rect(&shape);
        self.snapshot.append_fill(&builder.to_path(), gsk::FillRule::Winding, color);
    }

    pub(super) fn dot(&self, (x, y): (f32, f32), color: &gdk::RGBA) {
        let builder = gsk::PathBuilder::new();
        builder.add_circle(&graphene::Point::new(x, y), 4.0);
        self.snapshot.append_fill(&builder.to_path(), gsk::FillRule::Winding, color);
    }

    /// Small text; returns how wide it is.
    pub(super) fn text(&self, text: &str, x: f32, y: f32, anchor: Anchor, color: &gdk::RGBA) -> f32 {
        let layout = self.widget.create_pango_layout(Some(text));
        let attributes = pango::AttrList::new();
        attributes.insert(pango::AttrFloat::new_scale(FONT_SCALE));
        attributes.insert(pango::AttrFontFeatures::new("tnum"));
        layout.set_attributes(Some(&attributes));
        let width = layout.pixel_size().0 as f32;
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        // Never outside the widget.
        let left = left.clamp(0.0, (self.widget.width() as f32 - width).max(0.0));
        self.snapshot.save();
        self.snapshot.translate(&graphene::Point::new(left, y));
        self.snapshot.append_layout(&layout, color);
        self.snapshot.restore();
        width
    }
}

fn path(points: &[(f32, f32)]) -> gsk::Path {
    let builder = gsk::PathBuilder::new();
    for (nth, (x, y)) in points.iter().enumerate() {
        if nth == 0 {
            builder.move_to(*x, *y);
        } else {
            builder.line_to(*x, *y);
        }
    }
    builder.to_path()
}

fn rgb(channels: [u8; 3]) -> gdk::RGBA {
    let [red, green, blue] = channels.map(|channel| f32::from(channel) / 255.0);
    gdk::RGBA::new(red, green, blue, 1.0)
}
