//! What is offered after Tab, by the completions that `scherzoctl generate` writes.

use std::path::Path;

use crate::support::Bus;

async fn generated(bus: &Bus) -> &Path {
    let directory = bus.0.directory();
    bus.ctl(&["generate", directory.to_str().unwrap()]).await.plainly();
    directory
}

/// What bash offers for the last of these words.
fn offered(directory: &Path, words: &[&str]) -> Vec<String> {
    let script = format!(
        "source {}; COMP_WORDS=({}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         function=$(complete -p scherzoctl | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n\
         $function scherzoctl \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
        directory.join("scherzoctl.bash").display(),
        words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ")
    );
    let output = std::process::Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn bash_offers_keys_and_the_values_of_each() {
    let bus = Bus::start();
    let directory = generated(&bus).await;
    let offered = |words: &[&str]| offered(directory, words);
    for command in ["get", "set", "unset"] {
        assert_eq!(offered(&["scherzoctl", "config", command, "battery"]), ["battery_mode"], "{command}");
    }
    let modes = ["interactive", "fifo", "low-power"];
    assert_eq!(offered(&["scherzoctl", "config", "set", "battery_mode", ""]), modes);
    assert_eq!(offered(&["scherzoctl", "--json", "config", "set", "battery_mode", "f"]), ["fifo"]);
    assert_eq!(offered(&["scherzoctl", "config", "set", "standby", ""]), ["true", "false"]);
    assert_eq!(offered(&["scherzoctl", "config", "set", "policy", "s"]), ["scherzo"]);
    assert_eq!(offered(&["scherzoctl", "mode", "low"]), ["low-power"], "the rest is as it was");
    assert_eq!(offered(&["scherzoctl", "is-"]), ["is-running"]);
}

/// Where these shells are installed they have to read them at least.
#[tokio::test]
async fn other_shells_have_the_values_too() {
    let bus = Bus::start();
    let directory = generated(&bus).await;
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let zsh = read("_scherzoctl");
    assert!(zsh.contains("Its new value:_scherzoctl_values'") && zsh.contains("battery_mode) compadd -- interactive"));
    assert!(
        zsh.find("_scherzoctl_values() {").unwrap() < zsh.find("$funcstack[1]").unwrap(),
        "known when it is needed"
    );
    let fish = read("scherzoctl.fish");
    assert!(fish.contains("__fish_seen_subcommand_from battery_mode' -f -a 'interactive fifo low-power'"), "{fish}");
    for (shell, name) in [("zsh", "_scherzoctl"), ("fish", "scherzoctl.fish")] {
        let checked = std::process::Command::new(shell).arg("-n").arg(directory.join(name)).status();
        assert!(checked.map_or(true, |status| status.success()), "{shell}");
    }
}
