//! `peercrawl receipts`: the record of every request, for its owner and for site owners.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use peercrawl::receipts::{FOLDER, Line, folder_files, line};

use super::data::DataArguments;

/// The arguments.
#[derive(Subcommand)]
pub enum Receipts {
    /// Print the requests that were made, oldest first, one a line
    Export {
        #[command(flatten)]
        data: DataArguments,
        /// From this time on: 2026-11-16, 2026-11-16T07:30, or 90m, 12h, 7d ago
        #[arg(long, value_name = "TIME", value_parser = point_in_time)]
        since: Option<String>,
        /// Until this time, not included
        #[arg(long, value_name = "TIME", value_parser = point_in_time)]
        until: Option<String>,
        /// Lines of JSON, or fields between tabs with a header
        #[arg(long, value_enum, default_value = "json")]
        format: Format,
    },
}

/// How receipts are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Fields between tabs.
    Tsv,
}

impl Receipts {
    /// Prints.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Self::Export {
            data,
            since,
            until,
            format,
        } = self;
        let is_wanted = |line: &Line| {
            since.as_ref().is_none_or(|since| line.at >= *since)
                && until.as_ref().is_none_or(|until| line.at < *until)
        };
        let result = export(&data.path()?.join(FOLDER), is_wanted, format);
        match result.map_err(|error| (error.kind(), error)) {
            // Whoever reads has seen enough.
            Err((io::ErrorKind::BrokenPipe, _)) => Ok(ExitCode::SUCCESS),
            Err((_, error)) => Err(error).context("cannot export the receipts"),
            Ok(torn) => {
                if torn > 0 {
                    eprintln!("peercrawl: {torn} damaged lines were passed over");
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Prints the receipts of a folder that are wanted; tells how many lines are none.
fn export(folder: &Path, is_wanted: impl Fn(&Line) -> bool, format: Format) -> io::Result<u64> {
    let mut out = BufWriter::new(io::stdout().lock());
    if format == Format::Tsv {
        writeln!(out, "{}", Line::TSV_HEADER)?;
    }
    let mut torn = 0;
    for (_, path) in folder_files(folder)? {
        for text in BufReader::new(File::open(path)?).split(b'\n') {
            let text = String::from_utf8_lossy(&text?).into_owned();
            let Some(receipt) = line::read(&text) else {
                torn += 1;
                continue;
            };
            if is_wanted(&receipt) {
                match format {
                    Format::Json => writeln!(out, "{text}")?,
                    Format::Tsv => writeln!(out, "{}", receipt.tsv())?,
                }
            }
        }
    }
    out.flush()?;
    Ok(torn)
}

/// A time as receipts write it, or its beginning: both compare as text.
fn point_in_time(text: &str) -> Result<String, String> {
    let ago = |unit: char, secs: u64| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        let ago = Duration::from_secs(number.checked_mul(secs)?);
        let then = SystemTime::now().checked_sub(ago)?;
        let since_epoch = then.duration_since(UNIX_EPOCH).ok()?;
        Some(line::date(since_epoch.as_millis() as u64))
    };
    let relative = [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400)];
    if let Some(then) = relative
        .into_iter()
        .find_map(|(unit, secs)| ago(unit, secs))
    {
        return Ok(then);
    }
    let form = b"0000-00-00T00:00:00.000Z";
    let fits = |(byte, &form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    let is_date = (10..=form.len()).contains(&text.len()) && text.bytes().zip(form).all(fits);
    match is_date {
        true => Ok(text.to_owned()),
        false => Err("expected 2026-11-16, 2026-11-16T07:30 or the like, or 90m, 12h, 7d".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_or_spans() {
        for date in ["2026-11-16", "2026-11-16T07:30", "2026-11-16T07:30:00.000Z"] {
            assert_eq!(point_in_time(date).as_deref(), Ok(date));
        }
        for span in ["0s", "90m", "12h", "7d"] {
            assert_eq!(point_in_time(span).map(|date| date.len()), Ok(24), "{span}");
        }
        for nonsense in [
            "",
            "soon",
            "-1h",
            "12",
            "2026",
            "2026-11-16 07:30",
            "16.11.2026",
            "9999999999999d",
        ] {
            assert!(point_in_time(nonsense).is_err(), "{nonsense}");
        }
    }
}
