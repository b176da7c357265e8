//! Programs of others that something is measured with, and where to get them.

use std::time::Duration;

use anyhow::Result;

use scherzo_rig::shell::Shell;

/// Time limit of a trial, for real hardware.
const LIMIT: Duration = Duration::from_mins(1);

/// A program that neither the project nor every system brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherProgram {
    /// Its name.
    pub name: &'static str,
    /// Debian's package.
    pub debian: &'static str,
    /// Fedora's package.
    pub fedora: &'static str,
    /// A command that uses it for a moment. It also reads from the disk what is needed later.
    pub trial: &'static str,
}

impl OtherProgram {
    /// Why it cannot be used here, with what to install; nothing if it can. One that is there may still not work, as perf
    /// without the part of it that belongs to the kernel.
    pub fn find_fault(self, shell: &mut dyn Shell) -> Result<Option<String>> {
        let Self { name, debian, fedora, trial } = self;
        if shell.run(&format!("command -v {name}"), LIMIT)?.status != 0 {
            let fedora = if fedora == debian { "too".to_owned() } else { format!("in {fedora}") };
            return Ok(Some(format!("{name} is not installed; in Debian it is in {debian}, in Fedora {fedora}")));
        }
        let output = shell.run(trial, LIMIT)?;
        let words = format!("{}{}", output.stderr, output.stdout);
        let words = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        Ok((output.status != 0).then(|| format!("`{trial}` fails: {}", words.trim())))
    }
}

#[cfg(test)]
mod tests {
    use scherzo_rig::shell::CommandOutput;

    use super::*;

    /// Runs commands as whoever runs the tests.
    struct Plain;

    impl Shell for Plain {
        fn run(&mut self, command: &str, _: Duration) -> Result<CommandOutput> {
            let output = std::process::Command::new("sh").args(["-c", command]).output()?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let status = output.status.code().unwrap_or(128);
            Ok(CommandOutput { status, stdout: text(&output.stdout), stderr: text(&output.stderr) })
        }

        fn patience(&self) -> u32 {
            1
        }
    }

    #[test]
    fn what_is_not_there_is_told_with_its_package_and_what_does_not_work_with_its_words() {
        let fault = |name, trial| {
            OtherProgram { name, debian: "some-package", fedora: "another", trial }.find_fault(&mut Plain)
        };
        assert_eq!(fault("ls", "ls / >/dev/null").unwrap(), None);
        let expected = "no-such is not installed; in Debian it is in some-package, in Fedora in another";
        assert_eq!(fault("no-such", "true").unwrap().as_deref(), Some(expected));
        let broken = "echo; echo 'not for this kernel' >&2; exit 2";
        assert_eq!(fault("ls", broken).unwrap(), Some(format!("`{broken}` fails: not for this kernel")));
        assert_eq!(fault("ls", "false").unwrap().as_deref(), Some("`false` fails: it says nothing"));
    }
}
