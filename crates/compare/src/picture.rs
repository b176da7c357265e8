//! The figures that matter to a person as a picture, which is SVG: a panel for each, and in it a bar for each contender.

use std::io;

use anyhow::{Result, ensure};
use quick_xml::Writer;
use quick_xml::events::BytesText;

use super::contender::Contender;
use super::panel::Panel;
use super::report::Publication;
use super::summary::Spread;

const TITLE: &str = "Scherzo beside the kernel's default and other schedulers";

/// All lengths are in pixels of a picture that is shown at its own width.
const WIDTH: f64 = 800.0;
const MARGIN: f64 = 16.0;
const NR_COLUMNS: usize = 2;
const COLUMN_GAP: f64 = 28.0;
const PANEL_WIDTH: f64 = (WIDTH - 2.0 * MARGIN - (NR_COLUMNS - 1) as f64 * COLUMN_GAP) / NR_COLUMNS as f64;
const HEAD_HEIGHT: f64 = 62.0;
const FOOT_HEIGHT: f64 = 24.0;
/// Of a panel without its bars.
const PANEL_HEAD_HEIGHT: f64 = 40.0;
const PANEL_GAP: f64 = 20.0;
const ROW_HEIGHT: f64 = 20.0;
const BAR_HEIGHT: f64 = 13.0;
/// Of the names before the bars.
const NAME_WIDTH: f64 = 94.0;
const VALUE_GAP: f64 = 6.0;
/// The widest that a letter of a value is on average, bold and in any usual font.
const LETTER_WIDTH: f64 = 7.0;

/// What is behind the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// A light page.
    Light,
    /// A dark page.
    Dark,
}

#[derive(Clone, Copy)]
struct Palette {
    background: &'static str,
    text: &'static str,
    /// Of what is said besides.
    muted: &'static str,
    scherzo: &'static str,
    default: &'static str,
    peer: &'static str,
}

impl Theme {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Light, Self::Dark];

    /// The picture's file, beside the page.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Light => "benchmarks-light.svg",
            Self::Dark => "benchmarks-dark.svg",
        }
    }

    /// GitHub's own backgrounds and texts.
    const fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                background: "#ffffff",
                text: "#1f2328",
                muted: "#59636e",
                scherzo: "#0969da",
                default: "#59636e",
                peer: "#8c959f",
            },
            Self::Dark => Palette {
                background: "#0d1117",
                text: "#f0f6fc",
                muted: "#9198a1",
                scherzo: "#4493f8",
                default: "#9198a1",
                peer: "#656c76",
            },
        }
    }
}

impl Palette {
    const fn bar(&self, who: Contender) -> &'static str {
        match who {
            Contender::Scherzo => self.scherzo,
            Contender::Default => self.default,
            _ => self.peer,
        }
    }
}

/// The picture as a document; fails if none of its figures was measured.
pub fn svg(publication: &Publication, theme: Theme) -> Result<String> {
    let panels = Panel::all_of(publication);
    ensure!(!panels.is_empty(), "nothing was measured that the picture shows");
    let rows = rows(&panels);
    let height = rows.last().map_or(HEAD_HEIGHT, |row| row.y + row.height + PANEL_GAP) + FOOT_HEIGHT;
    let [width_px, height_px] = [WIDTH, height].map(pixels);
    let attributes = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("width", &width_px),
        ("height", &height_px),
        ("viewBox", &format!("0 0 {width_px} {height_px}")),
        ("role", "img"),
        ("aria-labelledby", "title description"),
        ("font-family", "system-ui, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"),
    ];
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
    let root = writer.create_element("svg").with_attributes(attributes);
    root.write_inner_content(|writer| Pen { writer, palette: theme.palette() }.picture(&panels, &rows, height))?;
    Ok(String::from_utf8(writer.into_inner())? + "\n")
}

/// The element that shows the picture in Markdown, in the variant that fits the page; `directory` is where its files are, with
/// a slash behind it. Without panels there is no picture.
pub(super) fn element(directory: &str, panels: &[Panel<'_>]) -> String {
    if panels.is_empty() {
        return String::new();
    }
    let [light, dark] = Theme::ALL.map(|theme| format!("{directory}{}", theme.file_name()));
    format!(
        "<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"{dark}\">\n  \
         <img src=\"{light}\" alt=\"{TITLE}: {}\">\n</picture>\n",
        titles(panels)
    )
}

fn titles(panels: &[Panel<'_>]) -> String {
    panels.iter().map(Panel::title).collect::<Vec<_>>().join("; ")
}

/// Everything that the picture shows, in words.
fn description(panels: &[Panel<'_>]) -> String {
    let tell = |panel: &Panel<'_>| {
        let told: Vec<_> = panel.bars().map(|(who, spread)| format!("{who} {}", panel.value(&spread))).collect();
        format!("{} ({}): {}.", panel.title(), panel.note(), told.join(", "))
    };
    panels.iter().map(tell).collect::<Vec<_>>().join(" ")
}

/// Where a row of panels begins, and how high it is.
struct PanelRow {
    y: f64,
    height: f64,
}

fn rows(panels: &[Panel<'_>]) -> Vec<PanelRow> {
    let mut y = HEAD_HEIGHT;
    let of = |row: &[Panel<'_>]| {
        let nr_bars = row.iter().map(|panel| panel.bars().count()).max().unwrap_or(0);
        let height = PANEL_HEAD_HEIGHT + nr_bars as f64 * ROW_HEIGHT;
        let row = PanelRow { y, height };
        y += height + PANEL_GAP;
        row
    };
    panels.chunks(NR_COLUMNS).map(of).collect()
}

/// The weight of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FontWeight {
    Normal,
    Bold,
}

/// A text with its place and looks.
struct Label<'a> {
    x: f64,
    y: f64,
    size: f64,
    weight: FontWeight,
    fill: &'a str,
    text: &'a str,
}

/// What draws into the document.
struct Pen<'a> {
    writer: &'a mut Writer<Vec<u8>>,
    palette: Palette,
}

impl Pen<'_> {
    /// The whole picture within its root element.
    fn picture(&mut self, panels: &[Panel<'_>], rows: &[PanelRow], height: f64) -> io::Result<()> {
        self.words("title", "title", TITLE)?;
        self.words("desc", "description", &description(panels))?;
        self.rectangle(0.0, 0.0, WIDTH, height, self.palette.background)?;
        self.head_and_foot(panels, height)?;
        for (row, panels) in rows.iter().zip(panels.chunks(NR_COLUMNS)) {
            for (column, panel) in panels.iter().enumerate() {
                self.panel(panel, MARGIN + column as f64 * (PANEL_WIDTH + COLUMN_GAP), row.y)?;
            }
        }
        Ok(())
    }

    fn head_and_foot(&mut self, panels: &[Panel<'_>], height: f64) -> io::Result<()> {
        let Palette { text, muted, .. } = self.palette;
        let kernel = panels.first().map_or("", Panel::kernel);
        let place = format!("Linux {kernel} in a virtual machine. A hog is a process that computes without a pause.");
        self.label(&Label { x: MARGIN, y: 24.0, size: 16.0, weight: FontWeight::Bold, fill: text, text: TITLE })?;
        self.label(&Label { x: MARGIN, y: 42.0, size: 12.0, weight: FontWeight::Normal, fill: muted, text: &place })?;
        let rounds = "The thin lines go from the least of the rounds to the most.";
        let y = height - 12.0;
        self.label(&Label { x: MARGIN, y, size: 12.0, weight: FontWeight::Normal, fill: muted, text: rounds })
    }

    fn panel(&mut self, panel: &Panel<'_>, x: f64, y: f64) -> io::Result<()> {
        let Palette { text, muted, .. } = self.palette;
        let bold = Label { x, y: y + 13.0, size: 13.0, weight: FontWeight::Bold, fill: text, text: panel.title() };
        self.label(&bold)?;
        self.label(&Label {
            y: y + 31.0,
            size: 12.0,
            weight: FontWeight::Normal,
            fill: muted,
            text: &panel.note(),
            ..bold
        })?;
        let scale = Scale::of(panel);
        let (start, top) = (x + NAME_WIDTH, y + PANEL_HEAD_HEIGHT);
        let mut nr_rows = 0.0;
        for (who, spread) in panel.bars() {
            self.bar(who, &spread, &panel.value(&spread), &scale, start, top + nr_rows * ROW_HEIGHT)?;
            nr_rows += 1.0;
        }
        // Without it a bar of no length would be nothing at all.
        self.line(start, top, start, top + nr_rows * ROW_HEIGHT - (ROW_HEIGHT - BAR_HEIGHT), muted)
    }

    /// A row: the name, which ends where the bar starts, the bar, and the value behind it.
    fn bar(&mut self, who: Contender, spread: &Spread, value: &str, scale: &Scale, x: f64, y: f64) -> io::Result<()> {
        let Palette { text, .. } = self.palette;
        let weight = if who == Contender::Scherzo { FontWeight::Bold } else { FontWeight::Normal };
        let baseline = y + BAR_HEIGHT - 2.5;
        let name = who.to_string();
        self.label(&Label { x: x - NAME_WIDTH, y: baseline, size: 12.0, weight, fill: text, text: &name })?;
        let [least, middle, most] = [spread.min, spread.middle, spread.max].map(|value| scale.length(value));
        self.rectangle(x, y, middle, BAR_HEIGHT, self.palette.bar(who))?;
        if most - least > 1.0 {
            self.line(x + least, y + BAR_HEIGHT / 2.0, x + most, y + BAR_HEIGHT / 2.0, text)?;
        }
        let x = x + middle.max(most) + VALUE_GAP;
        self.label(&Label { x, y: baseline, size: 12.0, weight, fill: text, text: value })
    }

    fn label(&mut self, label: &Label<'_>) -> io::Result<()> {
        let Label { x, y, size, weight, fill, text } = *label;
        let [x, y, size] = [x, y, size].map(pixels);
        let attributes = [("x", &*x), ("y", &y), ("font-size", &size), ("fill", fill)];
        let bold = (weight == FontWeight::Bold).then_some(("font-weight", "bold"));
        let element = self.writer.create_element("text").with_attributes(attributes.into_iter().chain(bold));
        element.write_text_content(BytesText::new(text)).map(drop)
    }

    fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) -> io::Result<()> {
        let [x, y, width, height] = [x, y, width, height].map(pixels);
        let attributes = [("x", &*x), ("y", &y), ("width", &width), ("height", &height), ("fill", fill)];
        self.writer.create_element("rect").with_attributes(attributes).write_empty().map(drop)
    }

    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, stroke: &str) -> io::Result<()> {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(pixels);
        let attributes = [("x1", &*x1), ("y1", &y1), ("x2", &x2), ("y2", &y2), ("stroke", stroke)];
        self.writer.create_element("line").with_attributes(attributes).write_empty().map(drop)
    }

    /// For who cannot see the picture.
    fn words(&mut self, element: &str, id: &str, text: &str) -> io::Result<()> {
        let element = self.writer.create_element(element).with_attribute(("id", id));
        element.write_text_content(BytesText::new(text)).map(drop)
    }
}

/// How long the bars of a panel are, so that every value has its place behind them.
struct Scale {
    most: f64,
    length: f64,
}

impl Scale {
    fn of(panel: &Panel<'_>) -> Self {
        let most = panel.bars().map(|(_, spread)| spread.max.max(spread.middle)).fold(0.0, f64::max);
        let nr_letters = panel.bars().map(|(_, spread)| panel.value(&spread).chars().count()).max().unwrap_or(0);
        let length = PANEL_WIDTH - NAME_WIDTH - VALUE_GAP - nr_letters as f64 * LETTER_WIDTH;
        Self { most, length }
    }

    fn length(&self, value: f64) -> f64 {
        if self.most > 0.0 { self.length * value / self.most } else { 0.0 }
    }
}

/// Tenths are as fine as anybody sees.
fn pixels(length: f64) -> String {
    format!("{}", (length * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::escape::resolve_xml_entity;
    use quick_xml::events::Event;

    use super::super::panel::tests::publication;
    use super::*;

    /// Every element with its text; fails if the document is not well formed.
    fn elements(document: &str) -> Vec<(String, String)> {
        let mut reader = Reader::from_str(document);
        let (mut found, mut open) = (Vec::<(String, String)>::new(), Vec::new());
        loop {
            let mut say = |text: &str| open.last().into_iter().for_each(|&place: &usize| found[place].1.push_str(text));
            match reader.read_event().expect("the document is well formed") {
                Event::Text(text) => say(text.trim_matches('\n')),
                Event::GeneralRef(entity) => say(resolve_xml_entity(&entity).expect("an entity that XML knows")),
                Event::End(_) => drop(open.pop()),
                Event::Empty(start) => found.push((start.name().as_ref().to_owned(), String::new())),
                Event::Start(start) => {
                    open.push(found.len());
                    found.push((start.name().as_ref().to_owned(), String::new()));
                }
                Event::Eof => break,
                other => panic!("{other:?} is not expected"),
            }
        }
        assert!(open.is_empty(), "{open:?} are not closed");
        found
    }

    fn text_of<'a>(elements: &'a [(String, String)], name: &str) -> Vec<&'a str> {
        elements.iter().filter(|(element, _)| element == name).map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn both_variants_have_every_figure_of_every_contender() {
        for theme in Theme::ALL {
            let publication = publication();
            let elements = elements(&svg(&publication, theme).unwrap());
            let texts = text_of(&elements, "text");
            for who in Contender::ALL[..6].iter().map(ToString::to_string) {
                assert_eq!(texts.iter().filter(|text| **text == who).count(), 6, "{who}");
            }
            for value in ["0.14 %", "61.3 %", "1238 µs", "6019 µs", "249 ms", "2.91 s", "4012 units of work/s"] {
                assert_eq!(texts.iter().filter(|text| **text == value).count(), 1, "{value}");
            }
            for panel in Panel::all_of(&publication) {
                assert!(texts.contains(&panel.title()) && texts.contains(&panel.note().as_str()), "{panel:?}");
            }
            assert!(texts.iter().any(|text| text.starts_with("Linux 7.2.13 in a virtual machine")), "{texts:?}");
            // The background, and a bar for each.
            assert_eq!(text_of(&elements, "rect").len(), 1 + 6 * 6);
        }
    }

    #[test]
    fn who_cannot_see_it_is_told() {
        let document = svg(&publication(), Theme::Dark).unwrap();
        let elements = elements(&document);
        assert!(document.contains(" role=\"img\" aria-labelledby=\"title description\""), "{document}");
        assert_eq!(text_of(&elements, "title"), [TITLE]);
        let description = text_of(&elements, "desc").concat();
        let told = "Passing messages: hackbench (time for all of them; less is better): Scherzo 1.01 s, kernel default 1.02 s,";
        assert!(description.contains(told), "{description}");
    }

    #[test]
    fn texts_are_escaped() {
        let mut publication = publication();
        for kernel in ["9.9<&>\"'", "9.9]]>"] {
            publication.tools[1].kernel = kernel.to_owned();
            let document = svg(&publication, Theme::Light).unwrap();
            let texts = elements(&document);
            let expected = format!("Linux {kernel} in a virtual machine");
            assert!(text_of(&texts, "text").iter().any(|text| text.starts_with(&expected)), "{document}");
        }
    }

    #[test]
    fn a_set_that_was_not_measured_has_no_panel_and_nothing_no_picture() {
        let only_probe = Publication { tools: Vec::new(), ..publication() };
        let elements = elements(&svg(&only_probe, Theme::Light).unwrap());
        assert_eq!(text_of(&elements, "rect").len(), 1 + 2 * 6);
        assert!(!text_of(&elements, "text").iter().any(|text| text.contains("hackbench")), "{elements:?}");
        let nothing = Publication { core: Vec::new(), peers: Vec::new(), ..only_probe };
        assert!(svg(&nothing, Theme::Light).is_err());
        assert_eq!(element("", &Panel::all_of(&nothing)), "");
    }

    #[test]
    fn bars_are_in_proportion_and_leave_values_their_place() {
        let publication = publication();
        let panels = Panel::all_of(&publication);
        for panel in &panels {
            let scale = Scale::of(panel);
            for (_, spread) in panel.bars() {
                let value_width = panel.value(&spread).chars().count() as f64 * LETTER_WIDTH;
                let end = NAME_WIDTH + scale.length(spread.max) + VALUE_GAP + value_width;
                assert!(end <= PANEL_WIDTH + 0.01 && scale.length > 100.0, "{panel:?}");
            }
        }
        let scale = Scale::of(&panels[0]);
        assert!((scale.length(30.0) / scale.length(60.0) - 0.5).abs() < 1e-9);
        assert!(Scale { most: 0.0, length: 200.0 }.length(0.0).abs() < 1e-9, "all of them are zero");
    }

    /// The relative luminance of a colour, as the guidelines for accessible pages define it.
    fn luminance(colour: &str) -> f64 {
        let part = |place: usize| {
            let value = f64::from(u8::from_str_radix(&colour[place..place + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn everything_stands_out_from_its_background() {
        for theme in Theme::ALL {
            let Palette { background, text, muted, scherzo, default, peer } = theme.palette();
            let contrast = |colour: &str| {
                let [one, other] = [colour, background].map(|colour| luminance(colour) + 0.05);
                one.max(other) / one.min(other)
            };
            assert!([text, muted].into_iter().all(|colour| contrast(colour) >= 4.5), "{theme:?}: texts");
            assert!([scherzo, default, peer].into_iter().all(|colour| contrast(colour) >= 3.0), "{theme:?}: bars");
        }
    }

    #[test]
    fn pages_choose_the_variant() {
        let element = element("docs/", &Panel::all_of(&publication()));
        let source = "<source media=\"(prefers-color-scheme: dark)\" srcset=\"docs/benchmarks-dark.svg\">";
        assert!(
            element.contains(source) && element.contains("<img src=\"docs/benchmarks-light.svg\" alt=\""),
            "{element}"
        );
        // An empty line would end the element for Markdown.
        assert!(!element.trim_end().contains("\n\n"), "{element}");
    }
}
