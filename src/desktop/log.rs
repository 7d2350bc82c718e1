//! The latest events, kept for the Log screen.
//!
//! A layer of `tracing` puts them into a ring of bounded length; the window reads those
//! that it wants, newest last.

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

use crate::clock::Clock;

/// Events kept.
const EVENTS: usize = 5_000;
/// An event is cut after so many characters.
const MOST_CHARS: usize = 1_000;

/// See the module. Clones are the same log.
#[derive(Clone)]
pub struct EventLog(Arc<Ring>);

struct Ring {
    clock: Clock,
    rows: Mutex<VecDeque<LogRow>>,
    version: AtomicU64,
}

impl Default for EventLog {
    fn default() -> Self {
        Self(Arc::new(Ring {
            clock: Clock::start(),
            rows: Mutex::default(),
            version: AtomicU64::new(0),
        }))
    }
}

impl EventLog {
    /// Notes an event.
    pub fn note(&self, level: LogLevel, text: String) {
        let row = LogRow {
            at_ms: self.0.clock.now_ms(),
            level,
            text: text.chars().take(MOST_CHARS).collect(),
        };
        let mut rows = self.0.rows.lock();
        if rows.len() == EVENTS {
            rows.pop_front();
        }
        rows.push_back(row);
        self.0.version.fetch_add(1, Relaxed);
    }

    /// Grows with every event.
    pub fn version(&self) -> u64 {
        self.0.version.load(Relaxed)
    }

    /// How many events matter so much and hold this text (in small letters), and the
    /// newest `most` of them, newest last.
    pub fn rows(&self, level: LogLevel, search: &str, most: usize) -> (usize, Vec<LogRow>) {
        let rows = self.0.rows.lock();
        let is_wanted = |row: &&LogRow| {
            row.level >= level && (search.is_empty() || row.text.to_lowercase().contains(search))
        };
        let wanted: Vec<&LogRow> = rows.iter().filter(is_wanted).collect();
        let first = wanted.len().saturating_sub(most);
        let newest = wanted[first..].iter().map(|&row| row.clone()).collect();
        (wanted.len(), newest)
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
        self.note(level, words.0);
    }
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
        });
        let (total, rows) = log.rows(LogLevel::Info, "", 10);
        assert_eq!(total, 2);
        assert_eq!(rows[0].text, "Host a.example fails");
        assert_eq!(rows[1].text, "done pages=3");
        assert_eq!(log.rows(LogLevel::Warning, "", 10).0, 1);
        assert_eq!(log.rows(LogLevel::Detail, "host a", 10).0, 1);
        for number in 0..EVENTS {
            log.note(LogLevel::Info, number.to_string());
        }
        let (total, rows) = log.rows(LogLevel::Detail, "", 1);
        assert_eq!((total, rows.len()), (EVENTS, 1));
        assert_eq!(rows[0].text, (EVENTS - 1).to_string());
    }
}
