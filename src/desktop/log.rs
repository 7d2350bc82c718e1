//! The latest events, kept for the Log screen.
//!
//! A layer of `tracing` puts them into rings of bounded length; the window reads those
//! that it wants, newest last. Details have a ring of their own: there are so many that
//! they would push out what matters.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use peercrawl_ui::model::{LogLevel, LogRow};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock::wall_ms;

/// Events kept.
const EVENTS: usize = 5_000;
/// Details kept besides.
const DETAILS: usize = 2_000;
/// An event is cut after so many characters.
const MOST_CHARS: usize = 1_000;

/// See the module. Clones are the same log.
#[derive(Clone, Default)]
pub struct EventLog(Arc<Log>);

#[derive(Default)]
struct Log {
    rings: Mutex<Rings>,
    version: AtomicU64,
}

/// Each row has a number: clocks are set, and two rows may have the same time.
#[derive(Default)]
struct Rings {
    events: VecDeque<(u64, LogRow)>,
    details: VecDeque<(u64, LogRow)>,
}

impl EventLog {
    /// Notes an event.
    pub fn note(&self, level: LogLevel, text: String) {
        let row = LogRow {
            at_ms: wall_ms(),
            level,
            text: text.chars().take(MOST_CHARS).collect(),
        };
        let mut rings = self.0.rings.lock();
        let (ring, most) = match level {
            LogLevel::Detail => (&mut rings.details, DETAILS),
            _ => (&mut rings.events, EVENTS),
        };
        if ring.len() == most {
            ring.pop_front();
        }
        let number = self.0.version.fetch_add(1, Relaxed);
        ring.push_back((number, row));
    }

    /// Grows with every event.
    pub fn version(&self) -> u64 {
        self.0.version.load(Relaxed)
    }

    /// How many events matter so much and hold this text (in small letters), and the
    /// newest `most` of them, newest last.
    pub fn rows(&self, level: LogLevel, search: &str, most: usize) -> (usize, Vec<LogRow>) {
        let rings = self.0.rings.lock();
        let is_wanted = |(_, row): &&(u64, LogRow)| {
            row.level >= level && (search.is_empty() || row.text.to_lowercase().contains(search))
        };
        let rows = rings.events.iter().chain(&rings.details);
        let mut wanted: Vec<&(u64, LogRow)> = rows.filter(is_wanted).collect();
        wanted.sort_unstable_by_key(|(number, _)| *number);
        let first = wanted.len().saturating_sub(most);
        let newest = wanted[first..].iter().map(|(_, row)| row.clone());
        (wanted.len(), newest.collect())
    }
}

impl<S: Subscriber> Layer<S> for EventLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => LogLevel::Error,
            Level::WARN => LogLevel::Warning,
            Level::INFO => LogLevel::Info,
            _ => LogLevel::Detail,
        };
        let mut words = Words(String::new());
        event.record(&mut words);
        self.note(level, begun_large(words.0));
    }
}

/// The same with a capital at its beginning, if it begins with a word.
fn begun_large(text: String) -> String {
    let word = text.split(' ').next().unwrap_or_default();
    if word.is_empty() || !word.chars().all(char::is_alphabetic) {
        return text;
    }
    let mut rest = text.chars();
    let first = rest.next();
    first
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(rest)
        .collect()
}

/// The message of an event, and its other fields behind it.
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string does not fail.
        let _written = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn events_are_kept_with_their_level_and_can_be_searched() {
        let log = EventLog::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!("Host {} fails", "a.example");
            tracing::info!(pages = 3, "done");
            tracing::info!("a.example gave up");
        });
        let (total, rows) = log.rows(LogLevel::Info, "", 10);
        assert_eq!(total, 3);
        assert_eq!(rows[0].text, "Host a.example fails");
        assert_eq!(rows[1].text, "Done pages=3");
        assert_eq!(rows[2].text, "a.example gave up", "a name stays as it is");
        assert_eq!(log.rows(LogLevel::Warning, "", 10).0, 1);
        assert_eq!(log.rows(LogLevel::Detail, "host a", 10).0, 1);
        for number in 0..EVENTS {
            log.note(LogLevel::Info, number.to_string());
        }
        let (total, rows) = log.rows(LogLevel::Detail, "", 1);
        assert_eq!((total, rows.len()), (EVENTS, 1));
        assert_eq!(rows[0].text, (EVENTS - 1).to_string());
    }

    #[test]
    fn details_come_between_events_and_never_push_them_out() {
        let log = EventLog::default();
        log.note(LogLevel::Info, "begun".to_owned());
        for number in 0..=DETAILS {
            log.note(LogLevel::Detail, number.to_string());
        }
        log.note(LogLevel::Error, "ended".to_owned());
        let texts = |level, search| {
            let (_, rows) = log.rows(level, search, usize::MAX);
            rows.into_iter().map(|row| row.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(LogLevel::Info, ""), ["begun", "ended"]);
        let all = texts(LogLevel::Detail, "");
        assert_eq!(all.len(), DETAILS + 2);
        assert_eq!(
            [&all[0], &all[1], &all[DETAILS + 1]],
            ["begun", "1", "ended"]
        );
        assert_eq!(texts(LogLevel::Detail, "1999"), ["1999"]);
    }
}
