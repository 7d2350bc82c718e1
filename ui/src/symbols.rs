//! Symbols, each with a word: nobody has to guess what a picture means.

use eframe::egui::Color32;

use crate::command::Screen;
use crate::model::{LogLevel, Outcome, Role};
use crate::theme::Palette;

/// A symbol and its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// The symbol; the built-in fonts have it.
    pub glyph: char,
    /// The word.
    pub word: &'static str,
}

impl Symbol {
    /// Both, as they are written side by side.
    pub fn text(self) -> String {
        format!("{} {}", self.glyph, self.word)
    }
}

const fn symbol(glyph: char, word: &'static str) -> Symbol {
    Symbol { glyph, word }
}

/// Of a column that is sorted, smallest first.
pub const ASCENDING: char = '⏶';
/// Of a column that is sorted, greatest first.
pub const DESCENDING: char = '⏷';
/// Beside the download rate.
pub const DOWNLOAD: char = '⏷';
/// Beside the upload rate.
pub const UPLOAD: char = '⏶';
/// Beside the state.
pub const STATE: char = '⏺';
/// Beside what is wrong.
pub const PROBLEM: char = '⚠';

/// Of an outcome.
pub fn outcome(outcome: Outcome) -> Symbol {
    match outcome {
        Outcome::Fetched => symbol('✔', "fetched"),
        Outcome::Duplicate => symbol('🗐', "duplicate"),
        Outcome::RobotsRefused => symbol('⛔', "robots said no"),
        Outcome::Timeout => symbol('⏱', "timeout"),
        Outcome::Error => symbol('⚠', "error"),
        Outcome::PrivateRefused => symbol('🛡', "private address refused"),
        Outcome::Trap => symbol('🌀', "trap"),
    }
}

/// The colour of an outcome: a page is what it works for, errors are no call for help.
pub fn outcome_color(outcome: Outcome, palette: &Palette) -> Color32 {
    match outcome {
        Outcome::Fetched => palette.accent,
        Outcome::Timeout | Outcome::Error | Outcome::PrivateRefused | Outcome::Trap => {
            palette.amber
        }
        Outcome::Duplicate | Outcome::RobotsRefused => palette.weak,
    }
}

/// Of a screen.
pub fn screen(screen: Screen) -> Symbol {
    let glyph = match screen {
        Screen::Overview => '📈',
        Screen::Activity => '⚡',
        Screen::Queues => '☰',
        Screen::Network => '🖧',
        Screen::Crawl => '🌐',
        Screen::Archive => '🗄',
        Screen::Limits => '⚙',
        Screen::Log => '📋',
    };
    symbol(glyph, screen.name())
}

/// Of a role.
pub fn role(role: Role) -> Symbol {
    match role {
        Role::Supernode => symbol('★', "supernode"),
        Role::Leaf => symbol('⏺', "leaf"),
        Role::Peer => symbol('⏺', "peer"),
    }
}

/// Of a level of the log.
pub fn level(level: LogLevel) -> Symbol {
    match level {
        LogLevel::Detail => symbol('…', "detail"),
        LogLevel::Info => symbol('ℹ', "info"),
        LogLevel::Warning => symbol('⚠', "warning"),
        LogLevel::Error => symbol('✖', "error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eframe::egui::{Context, FontId, RawInput};

    #[test]
    fn the_built_in_fonts_have_every_symbol() {
        let levels = [
            LogLevel::Detail,
            LogLevel::Info,
            LogLevel::Warning,
            LogLevel::Error,
        ];
        let mut glyphs = vec![ASCENDING, DESCENDING, DOWNLOAD, UPLOAD, STATE, PROBLEM];
        glyphs.extend(Outcome::ALL.map(|of| outcome(of).glyph));
        glyphs.extend(Screen::ALL.map(|of| screen(of).glyph));
        glyphs.extend([Role::Supernode, Role::Leaf, Role::Peer].map(|of| role(of).glyph));
        glyphs.extend(levels.map(|of| level(of).glyph));
        let ctx = Context::default();
        let _ = ctx.run_ui(RawInput::default(), |ui| {
            // Where in the font's picture a letter is; a missing one is a box.
            let place = |letter: char| {
                let font = FontId::proportional(14.0);
                let text = letter.to_string();
                let galley = ui.fonts_mut(|fonts| fonts.layout_no_wrap(text, font, Color32::BLACK));
                galley.rows[0].glyphs[0].uv_rect
            };
            let missing = place('\u{10fffd}');
            for &glyph in &glyphs {
                assert_ne!(place(glyph), missing, "{glyph:?}");
            }
        });
    }
}
