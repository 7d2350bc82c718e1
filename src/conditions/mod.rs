//! Whether this is a moment to crawl: the weekly schedule, and what the computer is up to.
//!
//! A [`Watcher`] reads what the computer tells ([`Reading`]) every few seconds, and a
//! [`Judge`], which is told the time and touches nothing, makes a [`Verdict`] of it. What
//! the platform cannot tell never pauses anything, and is not offered as an option
//! ([`Abilities`]).
//!
//! - [`schedule`]: the hours of the week
//! - [`battery`], [`processor`], [`desktop`]: what the computer tells, [`ask`]ing
//!   programs of the desktop where it must
//! - [`local_time`]: the volunteer's own clock
//! - [`judge`]: the verdict, with patience against flapping
//! - [`watcher`]: the thread

pub mod ask;
pub mod battery;
pub mod desktop;
pub mod judge;
pub mod local_time;
pub mod processor;
pub mod schedule;
pub mod watcher;

use std::fmt;
use std::time::Duration;

pub use judge::Judge;
pub use schedule::DayHours;
pub use watcher::{Lookout, Sources, Watcher};

use crate::clock::Millis;

/// What the computer tells; `None` is what cannot be told.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// Whether it runs on its battery.
    pub is_on_battery: Option<bool>,
    /// Whether the connection is paid by volume.
    pub is_metered: Option<bool>,
    /// How busy other programs keep the processor, in percent of the whole of it.
    pub others_percent: Option<f64>,
    /// For how long nobody has used it.
    pub unused_for: Option<Duration>,
}

/// Which of the conditions this computer can tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether it runs on its battery.
    pub battery: bool,
    /// Whether the connection is paid by volume.
    pub metered: bool,
    /// How busy other programs keep the processor.
    pub processor: bool,
    /// Whether somebody uses it.
    pub idle_time: bool,
}

impl Reading {
    /// What could be told.
    pub fn abilities(&self) -> Abilities {
        Abilities {
            battery: self.is_on_battery.is_some(),
            metered: self.is_metered.is_some(),
            processor: self.others_percent.is_some(),
            idle_time: self.unused_for.is_some(),
        }
    }
}

/// Why this is no moment to crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The connection is paid by volume: nothing at all is sent.
    Metered,
    /// The weekly schedule says so.
    Schedule {
        /// When it goes on, if it ever does.
        until_ms: Option<Millis>,
    },
    /// The computer runs on its battery.
    OnBattery,
    /// Somebody uses the computer.
    InUse,
    /// Other programs keep the processor busy.
    Busy,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Metered => "on a connection that is paid by volume",
            Self::Schedule { until_ms: Some(_) } => "outside the hours of the schedule",
            Self::Schedule { until_ms: None } => "the schedule has no hours",
            Self::OnBattery => "on battery",
            Self::InUse => "somebody uses the computer",
            Self::Busy => "other programs keep the processor busy",
        })
    }
}

/// Whether this is a moment to crawl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    #[default]
    Run,
    /// It is not.
    Pause(Reason),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("Running"),
            Self::Pause(reason) => write!(f, "Paused: {reason}"),
        }
    }
}
