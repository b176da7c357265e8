//! Results as JUnit XML, which services that run tests can show.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::report::{Outcome, TestResult};

/// All results as one document: a suite for each part of the names before the first slash.
pub fn document(results: &[TestResult]) -> io::Result<String> {
    let mut suites: Vec<(&str, Vec<&TestResult>)> = Vec::new();
    for result in results {
        let suite = result.name.split_once('/').map_or("", |(suite, _)| suite);
        match suites.iter_mut().find(|(name, _)| *name == suite) {
            Some((_, members)) => members.push(result),
            None => suites.push((suite, vec![result])),
        }
    }
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer.create_element("testsuites").with_attribute(("name", "scherzo")).write_inner_content(|writer| {
        suites.iter().try_for_each(|(name, members)| write_suite(writer, name, members))
    })?;
    String::from_utf8(writer.into_inner()).map_err(io::Error::other)
}

fn write_suite(writer: &mut Writer<Vec<u8>>, name: &str, members: &[&TestResult]) -> io::Result<()> {
    let count = |wanted: fn(&Outcome) -> bool| members.iter().filter(|result| wanted(&result.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Failed(_))).to_string();
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_))).to_string();
    let tests = members.len().to_string();
    let attributes = [("name", name), ("tests", &tests), ("failures", &failures), ("skipped", &skipped)];
    writer
        .create_element("testsuite")
        .with_attributes(attributes)
        .write_inner_content(|writer| members.iter().try_for_each(|result| write_case(writer, name, result)))
        .map(drop)
}

fn write_case(writer: &mut Writer<Vec<u8>>, suite: &str, result: &TestResult) -> io::Result<()> {
    let name = result.name.split_once('/').map_or(&*result.name, |(_, name)| name);
    let time = format!("{:.3}", result.took.unwrap_or_default().as_secs_f64());
    let case =
        writer.create_element("testcase").with_attributes([("classname", suite), ("name", name), ("time", &time)]);
    match &result.outcome {
        Outcome::Passed => case.write_empty(),
        Outcome::Skipped(why) => case.write_inner_content(|writer| {
            writer.create_element("skipped").with_attribute(("message", &*printable(why))).write_empty().map(drop)
        }),
        Outcome::Failed(why) => case.write_inner_content(|writer| {
            writer.create_element("failure").write_text_content(BytesText::new(&printable(why))).map(drop)
        }),
    }
    .map(drop)
}

/// XML has no way to write most control characters, which consoles of guests are full of.
fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() && !matches!(char, '\n' | '\t') { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::Subject;

    fn result(name: &str, outcome: Outcome) -> TestResult {
        let took = Some(Duration::from_millis(1_500));
        TestResult { name: name.into(), subject: Subject::Product, took, outcome }
    }

    #[test]
    fn a_document_has_a_suite_for_each_group() {
        let results = [
            result("newest kernel/load", Outcome::Passed),
            result("unit/a", Outcome::Skipped("not <here>".into())),
            result("newest kernel/unload", Outcome::Failed("\u{1b}[31m & more".into())),
        ];
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"scherzo\">
 <testsuite name=\"newest kernel\" tests=\"2\" failures=\"1\" skipped=\"0\">
  <testcase classname=\"newest kernel\" name=\"load\" time=\"1.500\"/>
  <testcase classname=\"newest kernel\" name=\"unload\" time=\"1.500\">
   <failure>\u{fffd}[31m &amp; more</failure>
  </testcase>
 </testsuite>
 <testsuite name=\"unit\" tests=\"1\" failures=\"0\" skipped=\"1\">
  <testcase classname=\"unit\" name=\"a\" time=\"1.500\">
   <skipped message=\"not &lt;here&gt;\"/>
  </testcase>
 </testsuite>
</testsuites>";
        assert_eq!(document(&results).unwrap(), expected);
    }
}
