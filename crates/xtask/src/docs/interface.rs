//! The D-Bus interface as a page, out of the XML that is the contract: the comment before each member is its description.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use super::statistics::renamed_table;

/// How far the text of comments is indented, at the top and at members.
const TOP_INDENT: usize = 2;
const MEMBER_INDENT: usize = 6;

/// A piece of the XML.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Comment(&'a str),
    /// The inside of the angle brackets.
    Tag(&'a str),
}

/// A method, signal or property.
struct Member<'a> {
    kind: &'a str,
    name: &'a str,
    /// Names and types, those that go in first.
    arguments: Vec<(&'a str, &'a str, &'a str)>,
    comment: &'a str,
    kind_of_change: &'a str,
    value_type: &'a str,
}

pub(super) fn page(xml: &str) -> Result<String> {
    let pieces = pieces(xml)?;
    let members = members(&pieces)?;
    let about = pieces.iter().find_map(|piece| match piece {
        Piece::Comment(text) => Some(text),
        Piece::Tag(_) => None,
    });
    let mut page = String::from("# The D-Bus interface\n\n");
    page += "<!-- `cargo xtask docs` writes this page from dbus/org.scherzo.Scheduler1.xml: change that. -->\n\n";
    page += &paragraphs(about.context("the interface is not described")?, "");
    for (kind, title) in [("method", "Methods"), ("signal", "Signals"), ("property", "Properties")] {
        write!(page, "\n## {title}\n")?;
        for member in members.iter().filter(|member| member.kind == kind) {
            write!(page, "\n### {}\n\n{}", member.name, member.signature())?;
            page += &paragraphs(member.description(), member.name);
        }
    }
    page += "\n## Renamed statistics\n\n";
    page += "`GetStats`, `StatsUpdated` and the metrics of `scherzoctl stats` give both names in this release; the next one gives the \
             new names only.\n\n";
    page += &renamed_table();
    Ok(page)
}

impl Member<'_> {
    /// `SetMode (s mode)`, with an arrow before what comes out.
    fn signature(&self) -> String {
        let list = |wanted: &str| {
            let arguments = self.arguments.iter().filter(|(_, _, direction)| *direction == wanted);
            arguments.map(|(name, signature, _)| format!("`{signature}` {name}")).collect::<Vec<_>>().join(", ")
        };
        if self.kind != "property" {
            let (inward, outward) = (list("in"), list("out"));
            let arrow = if outward.is_empty() { "" } else { " → " };
            return format!("({inward}){arrow}{outward}\n\n");
        }
        let change = match self.kind_of_change {
            "const" => ", never changes",
            "invalidates" => ", changes are told without the value",
            _ => "",
        };
        format!("`{}`, read only{change}\n\n", self.value_type)
    }

    /// The comment without the name that it begins with.
    fn description(&self) -> &str {
        let text = self.comment.trim();
        text.strip_prefix(self.name).and_then(|text| text.strip_prefix(':')).unwrap_or(text)
    }
}

fn pieces(xml: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once('<') {
        let (piece, end) = match after.strip_prefix("!--") {
            Some(comment) => (comment.split_once("-->").map(|(text, end)| (Piece::Comment(text), end)), "-->"),
            None => (after.split_once('>').map(|(tag, end)| (Piece::Tag(tag), end)), ">"),
        };
        let (piece, after) = piece.with_context(|| format!("no {end} is left"))?;
        pieces.push(piece);
        rest = after;
    }
    Ok(pieces)
}

fn members<'a>(pieces: &[Piece<'a>]) -> Result<Vec<Member<'a>>> {
    let mut members: Vec<Member<'_>> = Vec::new();
    let mut comment = "";
    for piece in pieces {
        let tag = match piece {
            Piece::Comment(text) => {
                comment = text;
                continue;
            }
            Piece::Tag(tag) => *tag,
        };
        let value = |name: &str| attribute(tag, name).unwrap_or_default();
        match tag.split_whitespace().next().unwrap_or_default().trim_end_matches('/') {
            kind @ ("method" | "signal" | "property") => {
                let name = attribute(tag, "name").context("a member without a name")?;
                ensure!(comment.trim().starts_with(&format!("{name}:")), "{name} is not described");
                let (kind_of_change, value_type) = ("true", value("type"));
                members.push(Member { kind, name, arguments: Vec::new(), comment, kind_of_change, value_type });
            }
            "arg" => {
                let direction = attribute(tag, "direction").unwrap_or("in");
                let member = members.last_mut().context("an argument outside of a member")?;
                member.arguments.push((value("name"), value("type"), direction));
            }
            "annotation" => {
                members.last_mut().context("an annotation outside of a member")?.kind_of_change = value("value");
            }
            _ => {}
        }
    }
    Ok(members)
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
}

/// A comment as Markdown: arguments as a list; blocks that are indented deeper stay as they are written.
fn paragraphs(comment: &str, name: &str) -> String {
    let lines: Vec<_> = comment.lines().skip_while(|line| line.trim().is_empty()).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let base = if name.is_empty() { TOP_INDENT } else { MEMBER_INDENT };
    let in_markdown = |line: &str| {
        let (is_deeper, line) = (indent(line) > base, line.trim());
        match line.strip_prefix('@').and_then(|line| line.split_once(": ")) {
            Some((argument, meaning)) => format!("- *{argument}*: {meaning}"),
            None if is_deeper => format!("    {line}"),
            None => line.to_owned(),
        }
    };
    let mut page: Vec<String> = Vec::new();
    for line in lines.into_iter().map(in_markdown) {
        // What is set off as code needs an empty line before it.
        let is_code = |line: &str| line.starts_with("    ");
        let needs_gap = |before: &String| !is_code(before) && !before.is_empty() && !before.starts_with('-');
        if is_code(&line) && page.last().is_some_and(needs_gap) {
            page.push(String::new());
        }
        page.push(line);
    }
    page.join("\n").trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<!--\n  The contract.\n\n  Bus  system\n-->\n<node>\n  <interface name=\"x\">\n    <!--\n      Set:\n      \
                       @mode: which one.\n\n      Does it.\n\n          busctl call x\n    -->\n    <method name=\"Set\">\n      \
                       <arg name=\"mode\" type=\"s\" direction=\"in\"/>\n      <arg name=\"cookie\" type=\"u\" \
                       direction=\"out\"/>\n    </method>\n    <!-- State: what runs. -->\n    <property name=\"State\" type=\"s\" \
                       access=\"read\">\n      <annotation name=\"y\" value=\"const\"/>\n    </property>\n  </interface>\n</node>\n";

    #[test]
    fn members_are_described_by_the_comment_before_them() {
        let page = page(XML).unwrap();
        assert!(page.contains("### Set\n\n(`s` mode) → `u` cookie\n\n"), "{page}");
        assert!(page.contains("- *mode*: which one.\n\nDoes it.\n\n    busctl call x\n"), "{page}");
        assert!(page.contains("### State\n\n`s`, read only, never changes\n\nwhat runs.\n"), "{page}");
    }

    #[test]
    fn a_member_without_a_description_is_an_error() {
        assert!(page(&XML.replace("State: what runs.", "nothing")).is_err());
    }
}
