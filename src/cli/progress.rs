//! The line that shows how it goes: moving on a terminal, absent elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use peercrawl::report::Report;

/// How often the line moves.
pub const PERIOD: Duration = Duration::from_millis(250);

/// See the module.
pub struct Progress {
    bar: ProgressBar,
    last_pages: u64,
    /// What else is said at the end of the line.
    also: String,
}

impl Progress {
    /// A line on standard error; a bar if it is known how many pages there are.
    pub fn new(pages: Option<u64>) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(pages, target);
        let template = match pages {
            Some(_) => "{bar:30.cyan/dim} {human_pos}/{human_len} pages · {msg}",
            None => "{spinner:.cyan} {human_pos} pages · {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            last_pages: 0,
            also: String::new(),
        }
    }

    /// Says something else at the end of the line, from the next move on.
    pub fn also(&mut self, text: String) {
        self.also = text;
    }

    /// Moves the line. To be called once in a [`PERIOD`].
    pub fn show(&mut self, report: &Report, waiting: usize) {
        let new = report.pages.saturating_sub(self.last_pages);
        self.last_pages = report.pages;
        let rate = new as f64 / PERIOD.as_secs_f64();
        self.bar.set_position(report.pages);
        self.bar.set_message(format!(
            "{rate:.0} pages/s · {waiting} waiting · {} duplicate · {} errors{}",
            report.content.duplicate,
            report.errors_in_all(),
            self.also,
        ));
    }

    /// Takes the line away.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// What has been done, in words for a person.
pub fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} pages ({} new, {} duplicate, {} unknown) in {:.1} s: {:.0} pages/s, {:.1} MB\n",
        report.pages,
        report.content.new,
        report.content.duplicate,
        report.content.unknown,
        report.elapsed_secs,
        report.pages_per_sec,
        report.bytes as f64 / 1e6,
    );
    let urls = &report.urls;
    let counts = [
        ("links met", urls.discovered),
        ("seen before", urls.duplicate),
        ("out of scope", urls.out_of_scope),
        ("handed on to other peers", urls.out_of_range),
        ("forbidden by robots.txt", urls.blocked_robots),
        ("at private addresses", urls.blocked_address),
        ("at unusual ports", urls.blocked_port),
        ("on the block list", urls.blocked_list),
        ("turned away, queues full", urls.refused_overflow),
        ("given up", urls.given_up),
        ("not archived, as asked", report.content.unarchived),
        ("redirects", report.redirects),
        ("retries", report.retries),
    ];
    let traps = urls.trap.iter().map(|(name, count)| (*name, *count));
    let errors = report.errors.iter().map(|(name, count)| (*name, *count));
    let lines = counts
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .chain(traps.map(|(name, count)| (format!("trap: {name}"), count)))
        .chain(errors.map(|(name, count)| (format!("error: {name}"), count)));
    for (name, count) in lines.filter(|&(_, count)| count > 0) {
        text.push_str(&format!("{count:>10}  {name}\n"));
    }
    if let Some(losses) = losses(report) {
        text.push_str(&format!(
            "{losses:>10}  new, but taken for seen (expected)\n"
        ));
    }
    text
}

/// How many URLs very large sites have lost, if there are such sites: they keep what they
/// have seen in a form that is wrong once in ten thousand at most.
fn losses(report: &Report) -> Option<String> {
    let losses = report.expected_losses;
    (losses > 0.0).then(|| format!("{losses:.2}"))
}

/// Tells the same where only an object is printed, which has no place for it.
pub fn tell_losses(report: &Report) {
    if let Some(losses) = losses(report) {
        eprintln!("peercrawl: about {losses} new URLs of very large sites were taken for seen");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_where_there_are_any() {
        let mut report = Report::default();
        assert!(!summary(&report).contains("taken for seen"));
        report.expected_losses = 1.234;
        let told = "\n      1.23  new, but taken for seen (expected)\n";
        assert!(summary(&report).ends_with(told), "{}", summary(&report));
    }
}
