//! `peercrawl archive`: what has been stored.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use peercrawl::archive::{Entry, Found, Reader};
use peercrawl::canonical::CanonicalForm;
use peercrawl::config::Settings;

use super::data::DataArguments;
use super::output;

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
    let mut read = Ok(());
    output::write(|out| {
        let mut written = Ok(());
        read = reader.list(|entry| {
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
        });
        written
    })?;
    read?;
    Ok(ExitCode::SUCCESS)
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
    output::write(|out| {
        out.write_all(&record.block)?;
        // A revisit has its own headers, and the payload of the first visit.
        match &original {
            Some(original) => out.write_all(original.payload()),
            None => Ok(()),
        }
    })?;
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
    output::write(|out| {
        for problem in &verified.problems {
            writeln!(out, "{problem}")?;
        }
        writeln!(
            out,
            "{} files, {} records, {} answers, {} problems",
            verified.files,
            verified.records,
            verified.pages,
            verified.problems.len()
        )
    })?;
    Ok(match verified.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
