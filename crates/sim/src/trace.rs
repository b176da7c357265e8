//! What ran where, as a trace that Perfetto opens (the JSON format of Chrome's tracing).

use std::fmt::Write;

/// A trace, if somebody wants one.
#[derive(Debug, Default)]
pub struct Trace {
    text: Option<String>,
    running: Vec<Option<(u64, String)>>,
}

impl Trace {
    /// From now on.
    pub fn enable(&mut self) {
        self.text = Some(String::new());
    }

    /// Whether somebody wants it.
    pub(crate) fn is_enabled(&self) -> bool {
        self.text.is_some()
    }

    /// A task got a CPU.
    pub(crate) fn start(&mut self, cpu: usize, now: u64, name: String) {
        self.running.resize(self.running.len().max(cpu + 1), None);
        self.running[cpu] = Some((now, name));
    }

    /// It lost it.
    pub(crate) fn stop(&mut self, cpu: usize, now: u64) {
        let Some(text) = &mut self.text else { return };
        if let Some((since, name)) = self.running.get_mut(cpu).and_then(Option::take) {
            let (at, long) = (micros(since), micros(now - since));
            let name: String =
                name.chars().filter(|letter| !letter.is_control() && !"\"\\".contains(*letter)).collect();
            let before = if text.is_empty() { "[" } else { "," };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{before}");
            let _ = write!(text, r#"{{"name":"{name}","ph":"X","pid":0,"tid":{cpu},"ts":{at},"dur":{long}}}"#);
        }
    }

    /// The whole of it, with what runs until now.
    pub fn take(&mut self, now: u64) -> Option<String> {
        for cpu in 0..self.running.len() {
            self.stop(cpu, now);
        }
        let text = self.text.take()?;
        Some(if text.is_empty() { "[]\n".to_owned() } else { text + "\n]\n" })
    }
}

/// Microseconds with three decimals, which is the format's unit.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_format() {
        let mut trace = Trace::default();
        trace.enable();
        trace.start(1, 1_500, "a\"b\\\n".to_owned());
        trace.stop(1, 4_000);
        assert_eq!(
            trace.take(5_000).unwrap(),
            "[\n{\"name\":\"ab\",\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":1.500,\"dur\":2.500}\n]\n"
        );
    }

    #[test]
    fn what_runs_at_the_end_is_there() {
        let mut trace = Trace::default();
        trace.enable();
        trace.start(0, 1_000, "a".to_owned());
        let text = trace.take(5_000).unwrap();
        assert!(text.ends_with("\"ts\":1.000,\"dur\":4.000}\n]\n"), "{text}");
    }
}
