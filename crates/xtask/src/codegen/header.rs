//! The enums of the wire header that name modes, classes and counters.

use std::fmt::Write as _;

use scherzo_model::statistics::{self, NR_COUNTERS, StatisticScope};
use scherzo_model::{Class, Mode, WIRE_VERSION};

use super::wrapped;

const WIDTH: usize = 120;
const TAB: usize = 8;

const HEAD: &str = "\
/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scherzo_model.h: modes, classes and counters. `cargo xtask codegen` writes this file from crates/model: change that.
 */
#ifndef SCHERZO_MODEL_H
#define SCHERZO_MODEL_H
";

/// The whole file.
pub(super) fn text() -> String {
    let mut text = format!("{HEAD}\n#define SCHERZO_WIRE_VERSION {WIRE_VERSION}\n");
    let modes = Mode::ALL.map(|mode| (format!("MODE_{}", c_name(mode.name())), mode as usize, mode.text()));
    enumeration(&mut text, "mode", &modes, None);
    let classes = Class::ALL.map(|class| (format!("CLASS_{}", class.c_name()), class as usize, class.text()));
    enumeration(&mut text, "class", &classes, Some(("NR_CLASSES", Class::ALL.len())));
    let counters: Vec<_> = statistics::ALL
        .iter()
        .filter_map(|statistic| {
            let StatisticScope::PerCpu(counter) = statistic.scope else { return None };
            let name = statistic.key.trim_start_matches("nr_");
            Some((format!("CNT_{}", c_name(name)), counter as usize, statistic.text))
        })
        .collect();
    enumeration(&mut text, "counter", &counters, Some(("NR_COUNTERS", NR_COUNTERS)));
    text.push_str("\n#endif /* SCHERZO_MODEL_H */\n");
    text
}

fn c_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The optional last entry is a size rather than a member.
fn enumeration(text: &mut String, name: &str, members: &[(String, usize, &str)], size: Option<(&str, usize)>) {
    let _ = writeln!(text, "\nenum scherzo_{name} {{");
    for (member, number, meaning) in members {
        comment(text, meaning);
        let _ = writeln!(text, "\tSCHERZO_{member} = {number},");
    }
    if let Some((member, number)) = size {
        let _ = writeln!(text, "\tSCHERZO_{member} = {number},");
    }
    text.push_str("};\n");
}

/// A comment of the kernel's style: on one line if it fits.
fn comment(text: &mut String, meaning: &str) {
    let meaning = meaning.trim_end_matches('.');
    let one_line = format!("/* {meaning} */");
    if TAB + one_line.chars().count() <= WIDTH {
        let _ = writeln!(text, "\t{one_line}");
        return;
    }
    text.push_str("\t/*\n");
    for line in wrapped(meaning, WIDTH - TAB - " * ".len()) {
        let _ = writeln!(text, "\t * {line}");
    }
    text.push_str("\t */\n");
}
