//! `peercrawl archive`: what has been stored.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use peercrawl::archive::{Entry, Found, Reader};
use peercrawl::canonical::CanonicalForm;
use peercrawl::config::Settings;

use super::data::DataArguments;

/// The arguments.
#[derive(Args)]
pub struct Archive {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List every stored answer: when, status, media type and URL, a line each
    List {
        #[command(flatten)]
        data: DataArguments,
    },
    /// Print the newest stored answer of a URL as the server sent it, headers included
    Get {
        /// The URL
        url: String,
        #[command(flatten)]
        data: DataArguments,
    },
    /// Read every byte of the archive and check it
    Verify {
        #[command(flatten)]
        data: DataArguments,
    },
}

impl Archive {
    /// Does what was asked.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::List { data } => list(&reader(&data)?),
            Command::Get { url, data } => get(&reader(&data)?, &url),
            Command::Verify { data } => verify(&reader(&data)?),
        }
    }
}

fn reader(data: &DataArguments) -> anyhow::Result<Reader> {
    let folder = data.path()?.join("archive");
    if !folder.is_dir() {
        bail!("nothing is stored: there is no {}", folder.display());
    }
    Ok(Reader::new(folder))
}

fn list(reader: &Reader) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    reader.list(|entry| {
        let Entry {
            timestamp,
            status,
            media_type,
            url,
            ..
        } = entry;
        if written.is_ok() {
            written = writeln!(out, "{timestamp}\t{status}\t{media_type}\t{url}");
        }
    })?;
    unless_closed(written.and_then(|()| out.flush())).context("cannot write the list")?;
    Ok(ExitCode::SUCCESS)
}

/// A pipe that is closed is no error: whoever reads has seen enough.
fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn get(reader: &Reader, url: &str) -> anyhow::Result<ExitCode> {
    // What was asked for by a person is stored under its canonical form.
    let form = CanonicalForm::new(&Settings::default().crawl.session_ids);
    let canonical = form.parse(url).map(|url| url.to_string());
    let mut found = reader.get(url)?;
    if let (None, Ok(canonical)) = (&found, &canonical) {
        found = reader.get(canonical)?;
    }
    let Some(Found {
        record, original, ..
    }) = found
    else {
        eprintln!("peercrawl: {url} is not in the archive");
        return Ok(ExitCode::FAILURE);
    };
    let mut out = io::stdout().lock();
    // A revisit has its own headers, and the payload of the first visit.
    let payload = original.as_ref().map_or(&[][..], |first| first.payload());
    let written = out
        .write_all(&record.block)
        .and_then(|()| out.write_all(payload))
        .and_then(|()| out.flush());
    unless_closed(written).context("cannot write the answer")?;
    if original.is_none() && record.kind() == "revisit" {
        let first = record
            .field("WARC-Refers-To-Target-URI")
            .unwrap_or_default();
        eprintln!("peercrawl: its body is the same as that of {first}, which is not stored here");
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(reader: &Reader) -> anyhow::Result<ExitCode> {
    let verified = reader.verify()?;
    for problem in &verified.problems {
        println!("{problem}");
    }
    println!(
        "{} files, {} records, {} answers, {} problems",
        verified.files,
        verified.records,
        verified.pages,
        verified.problems.len()
    );
    Ok(match verified.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
