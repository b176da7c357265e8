//! The modes that arguments of the D-Bus interface take, in its comments. People write the rest of the file.

use scherzo_model::Mode;

const ARGUMENT: &str = "      @mode: ";
const AUTOMATIC: &str = "auto";

/// The file with the modes as they are now.
pub(super) fn text(contract: &str) -> String {
    contract.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> String {
    match line.strip_prefix(ARGUMENT) {
        Some(modes) => format!("{ARGUMENT}{}.\n", names(modes.starts_with(AUTOMATIC))),
        None => line.to_owned(),
    }
}

fn names(with_automatic: bool) -> String {
    let [first @ .., last] = Mode::ALL.map(Mode::name);
    let automatic = with_automatic.then_some(AUTOMATIC).into_iter();
    format!("{} or {last}", automatic.chain(first).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_every_mode_and_nothing_else_changes() {
        let text = text("  a mode: x\n      @mode: auto or x.\n      @mode: x.\n      @cookie: y.\n");
        let [first, second] = [names(true), names(false)];
        assert_eq!(text, format!("  a mode: x\n      @mode: {first}.\n      @mode: {second}.\n      @cookie: y.\n"));
        assert!(first == format!("auto, {second}") && Mode::ALL.iter().all(|mode| second.contains(mode.name())));
    }
}
