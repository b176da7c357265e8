//! Processes that this program starts from itself, and talks with in lines.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Ends when its standard input does, so it cannot outlive this process, not even one that was killed.
pub(crate) struct Helper {
    what: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts this program with arguments; `what` names it in errors.
    pub(crate) fn start(what: &str, arguments: &[String]) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {what}"))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { what: what.to_owned(), child, input, output })
    }

    /// Its standard input.
    pub(crate) const fn input(&mut self) -> &mut ChildStdin {
        &mut self.input
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").with_context(|| format!("{} ended early", self.what))
    }

    /// Waits for a line.
    pub(crate) fn listen(&mut self) -> Result<String> {
        let mut line = String::new();
        if !matches!(self.output.read_line(&mut line), Ok(1..)) {
            bail!("{} ended early", self.what);
        }
        Ok(line)
    }

    /// Sends a line and waits for the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String> {
        self.tell(line)?;
        self.listen()
    }

    /// Ends it, and waits for that; the rest of what it says.
    pub(crate) fn stop(mut self) -> Result<String> {
        drop(self.input);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{}: {status}", self.what);
        Ok(rest)
    }
}

/// Ends the process, because what it would show is not what was asked for.
pub(crate) fn give_up(error: &dyn std::fmt::Display) -> ! {
    eprintln!("scherzo-bench: a load failed: {error}");
    std::process::exit(1);
}
