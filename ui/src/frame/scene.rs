//! What a screen draws from, and where it puts what the user wants.

use std::net::IpAddr;

use super::{Dialog, Toasts};
use crate::command::{Command, Screen, ViewRequest};
use crate::format::Local;
use crate::graph::Clock;
use crate::model::{Model, Setting, Settings};

/// See the module.
pub struct Scene<'a> {
    /// What there is to draw.
    pub model: &'a Model,
    /// The settings as the user last set them.
    pub draft: &'a mut Draft,
    /// What the window needs.
    pub view: &'a mut ViewRequest,
    /// Where to go next; see [`Scene::go_to`].
    pub next_screen: Option<Screen>,
    /// What the user wants.
    pub commands: &'a mut Vec<Command>,
    /// What was done.
    pub toasts: &'a mut Toasts,
    /// Whether something that was typed is not taken in this frame.
    pub has_refused: bool,
    /// The question that is being asked.
    pub dialog: &'a mut Option<Dialog>,
    /// Whether the window is one of Wayland, which can neither be hidden nor take a file.
    pub is_wayland: bool,
    /// Seconds since the window was made.
    pub time_secs: f64,
}

impl Scene<'_> {
    /// Goes to another screen once this frame is drawn: a field of the one that is shown takes
    /// over what was typed only when it is drawn.
    pub fn go_to(&mut self, screen: Screen) {
        self.next_screen = Some(screen);
    }

    /// Sends a command.
    pub fn send(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// Changes a setting, and shows it changed at once.
    pub fn change(&mut self, setting: Setting) {
        self.draft.change(&setting, self.time_secs);
        self.send(Command::Change(setting));
    }

    /// Sends a command and says so, with the way back.
    pub fn send_with_undo(&mut self, command: Command, text: impl Into<String>, undo: Command) {
        self.send(command);
        self.toasts.say(text, Some(undo), self.time_secs);
    }

    /// Blocks a site, with the way back.
    pub fn block(&mut self, host: String) {
        let text = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(_) => format!("{host} is blocked: what waits for it is dropped."),
            Err(_) => format!(
                "{host} is blocked, with all hosts under it: what waits for them is dropped."
            ),
        };
        let undo = Command::UnblockSite(host.clone());
        self.send_with_undo(Command::BlockSite(host), text, undo);
    }

    /// Takes an entry off the blocked sites, with the way back. Others may mean the same hosts.
    pub fn unblock(&mut self, entry: String) {
        let mut others = self.model.crawl.blocked_sites.iter();
        let other = others.find(|other| **other != entry && is_under(&entry, other));
        let text = match other {
            Some(other) => {
                format!("{entry} is no blocked site any more, but {other} blocks it, too.")
            }
            None => format!("{entry} is no blocked site any more."),
        };
        let undo = Command::BlockSite(entry.clone());
        self.send_with_undo(Command::UnblockSite(entry), text, undo);
    }

    /// Says why what was typed is not taken.
    pub fn refuse(&mut self, text: impl Into<String>) {
        self.has_refused = true;
        self.toasts.say_failed(text, self.time_secs);
    }

    /// A time on the volunteer's clock.
    pub fn local(&self, at_ms: u64) -> Local {
        Local::new(at_ms, self.model.utc_offset_minutes)
    }

    /// A time as the clock, or with its date if that is another day.
    pub fn clock_or_date(&self, at_ms: u64) -> String {
        self.local(at_ms)
            .clock_or_date(self.local(self.model.now_ms))
    }

    /// A time of today as the clock, another one as its date alone.
    pub fn clock_or_day(&self, at_ms: u64) -> String {
        let (then, now) = (self.local(at_ms), self.local(self.model.now_ms));
        if then.date_with_year() == now.date_with_year() {
            then.clock()
        } else {
            then.date()
        }
    }

    /// The clock for graphs.
    pub fn clock(&self) -> Clock {
        Clock {
            now_ms: self.model.now_ms,
            utc_offset_minutes: self.model.utc_offset_minutes,
        }
    }
}

/// Whether a host is under the one of an entry of the blocked sites, and blocked with it.
fn is_under(host: &str, entry: &str) -> bool {
    let above = entry.strip_prefix("*.").unwrap_or(entry);
    let under = host.strip_suffix(above);
    under.is_some_and(|under| under.ends_with('.'))
}

/// The settings as the user last set them.
///
/// A new model takes a moment to come; until then a field must not jump back to the
/// old value under the user's hand. If the model still differs after
/// [`Draft::PATIENCE_SECS`], it is right and we are wrong (a value was refused).
#[derive(Debug, Default)]
pub struct Draft {
    settings: Settings,
    changed_secs: Option<f64>,
}

impl Draft {
    const PATIENCE_SECS: f64 = 2.0;

    /// The settings to draw.
    pub fn get(&self) -> &Settings {
        &self.settings
    }

    fn change(&mut self, setting: &Setting, time_secs: f64) {
        self.settings.apply(setting);
        self.changed_secs = Some(time_secs);
    }

    /// Takes over what the model says, unless the user changed something just now.
    pub fn follow(&mut self, model: &Settings, time_secs: f64) {
        let waits = self
            .changed_secs
            .is_some_and(|at| time_secs - at < Self::PATIENCE_SECS);
        if self.settings == *model {
            self.changed_secs = None;
        } else if !waits {
            self.settings = model.clone();
            self.changed_secs = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_stays_until_the_model_has_it_or_refuses_it() {
        let model = Settings::default();
        let mut draft = Draft::default();
        draft.change(&Setting::DownloadKibPerS(99), 10.0);
        draft.follow(&model, 10.5);
        assert_eq!(draft.get().download_kib_per_s, 99);
        draft.follow(&model, 12.5);
        assert_eq!(draft.get().download_kib_per_s, 256);
    }
}
