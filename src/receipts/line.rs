//! A receipt as a line of JSON, for scripts and for site owners.

use std::io;

use peercrawl_overlay::PeerId;
use serde::{Deserialize, Serialize};

use super::{Outcome, Receipt, RobotsVerdict};
use crate::archive::date::warc_date;
use crate::clock::Millis;

/// A receipt, as it stands in a file. Dates have one form, so they sort as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When the request was made: `2026-11-16T04:36:26.123Z`.
    pub at: String,
    /// What was asked for.
    pub url: String,
    /// The status of the answer, if there was one, whether it was taken or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was no answer, or why it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The body, as received.
    pub bytes: u64,
    /// `allowed`, `no_rules`, or `rules_file` for robots.txt itself.
    pub robots: String,
    /// `self`, or the id of the peer that sent the URL.
    pub asked_by: String,
}

impl Line {
    /// The fields between tabs, in the order of [`Line::TSV_HEADER`]. No field can hold
    /// a tab: URLs are escaped, and the others are words.
    pub fn tsv(&self) -> String {
        let status = || self.status.map(|status| status.to_string());
        let outcome = self.reason.clone().or_else(status).unwrap_or_default();
        format!(
            "{}\t{}\t{outcome}\t{}\t{}\t{}",
            self.at, self.url, self.bytes, self.robots, self.asked_by
        )
    }

    /// The names of the fields of [`Line::tsv`].
    pub const TSV_HEADER: &str = "at\turl\toutcome\tbytes\trobots\tasked_by";
}

impl From<&Receipt> for Line {
    fn from(receipt: &Receipt) -> Self {
        let reason = match receipt.outcome {
            Outcome::Answered => None,
            Outcome::Failed(kind) => Some(kind.name()),
            Outcome::AddressRefused => Some("blocked_address"),
            Outcome::CutOff => Some("stopped"),
        };
        let robots = match receipt.robots {
            RobotsVerdict::Allowed => "allowed",
            RobotsVerdict::NoRules => "no_rules",
            RobotsVerdict::RulesFile => "rules_file",
        };
        Self {
            at: date(receipt.at_ms),
            url: receipt.url.clone(),
            status: receipt.status,
            reason: reason.map(str::to_owned),
            bytes: receipt.bytes,
            robots: robots.into(),
            asked_by: receipt.asked_by.map_or("self".into(), in_full),
        }
    }
}

/// A point in time as receipts write it.
pub fn date(at_ms: Millis) -> String {
    warc_date(at_ms)
}

/// A peer's whole id: a record must name it beyond doubt.
fn in_full(peer: PeerId) -> String {
    peer.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends a receipt and a line end.
pub fn write(receipt: &Receipt, into: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *into, &Line::from(receipt))?;
    into.push(b'\n');
    Ok(())
}

/// Reads a line; nothing if it was torn by a crash.
pub fn read(line: &str) -> Option<Line> {
    serde_json::from_str(line).ok()
}
