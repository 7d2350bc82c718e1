//! Standard output: the one way in which commands print their results.
//!
//! Whoever reads may have seen enough (`| head`): that is no error, and what is left is
//! not printed. A disk that is full is one.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use anyhow::Context;

/// Prints a line.
pub fn line(text: impl Display) -> anyhow::Result<()> {
    write(|out| writeln!(out, "{text}"))
}

/// Prints what this writes.
pub fn write(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
