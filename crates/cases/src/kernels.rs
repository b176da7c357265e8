//! What runs on every kernel of the archive.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use scherzo_rig::guest::Guest;
use scherzo_rig::harness::{Case, Group};
use scherzo_rig::kernels::{GuestKernel, Role};
use scherzo_rig::service::MOMENT;
use scherzo_rig::shell::Shell;

use crate::{basics, case, faults, group, steady, survival, unsupported, verified};

const VERIFIED: &str = "verified instructions";

/// Where a scheduler can be loaded. Longer than the guest needs to start: loads under which other schedulers were ejected.
const SOUND: &[Case] = &[
    case("boot", basics::boot),
    case("load", basics::load),
    case("every mode under load", basics::every_mode_under_load),
    case(VERIFIED, verified::recorded),
    case("race-sched storm", survival::race_sched),
    case("affinity storm", survival::affinity),
    case("fork and exec storm", survival::fork_and_exec),
    case("futex storm", survival::futex),
    case("pipe storm", survival::pipe),
    case("memory at 110 %", survival::memory),
    case("a CPU goes offline and returns every 0.6 s", survival::hotplug),
    case("engine stopped", survival::stopped_engine),
    case("engine killed", faults::engine_killed),
    case("real-time hogs", survival::real_time),
    case("unload", basics::unload),
    case("the doctor knows the other kernels", doctor_knows_the_others),
    case("nothing was ejected", basics::no_ejections),
];

const MALFORMED_BTF: &[Case] = &[
    case("boot", unsupported::boot),
    case("a clear refusal", unsupported::refusal),
    case("the doctor", unsupported::doctor_with_malformed_btf),
];

const WITHOUT_SCHED_EXT: &[Case] = &[
    case("boot", unsupported::boot),
    case("a clear refusal", unsupported::refusal),
    case("the doctor", unsupported::doctor_without_sched_ext),
];

/// The group of a kernel, which its release names. A run that writes the record does not hold what is counted to the old one.
#[must_use]
pub fn kernel_group(kernel: &GuestKernel, is_recording: bool) -> Group {
    let cases = match kernel.role {
        Role::Lts | Role::Newest | Role::Further => SOUND,
        Role::MalformedBtf => MALFORMED_BTF,
        Role::WithoutSchedExt => WITHOUT_SCHED_EXT,
    };
    let mut group = group(kernel_group_name(&kernel.release), kernel.role, &steady(2), cases);
    if is_recording && let Some(found) = group.cases.iter_mut().find(|case| case.name == VERIFIED) {
        found.run = verified::counted;
    }
    group
}

/// What the group of a kernel is called.
#[must_use]
pub fn kernel_group_name(release: &str) -> String {
    format!("kernel {release}")
}

/// All other kernels lie in the guest as well: which of them cannot run Scherzo is said before they are booted.
fn doctor_knows_the_others(guest: &mut Guest) -> Result<()> {
    let doctor = guest.run("scherzoctl --json doctor", MOMENT * 3)?;
    let document: Value = serde_json::from_str(&doctor.stdout).context("what the doctor prints")?;
    let findings = document["findings"].as_array().context("the doctor says nothing")?;
    for (part, wanted) in [("6.12.", "CONFIG_SCHED_CLASS_EXT"), ("7.2.12", "malformed")] {
        let said = findings.iter().filter_map(|finding| finding["text"].as_str());
        let about: Vec<_> = said.filter(|text| text.contains("installed kernel") && text.contains(part)).collect();
        ensure!(
            about.iter().all(|text| text.contains(wanted)),
            "about the installed kernel {part} the doctor does not say \"{wanted}\" but: {about:?}"
        );
    }
    let is_said = |finding: &&Value| finding["text"].as_str().is_some_and(|text| text.contains("installed kernel"));
    let nr_others = guest.check("ls /usr/lib/modules | wc -l", MOMENT)?.parse::<usize>()? - 1;
    let nr_said = findings.iter().filter(is_said).count();
    ensure!(nr_said == nr_others, "of {nr_others} other kernels the doctor speaks of {nr_said}: {}", doctor.stdout);
    Ok(())
}
