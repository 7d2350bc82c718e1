//! Fonts of the system for scripts that the built-in ones lack.
//!
//! They are large, so none is read before a text needs it, and then on a thread of
//! its own: the window goes on drawing, and draws the text anew when the font is
//! there. Each block of 256 characters is looked for once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use eframe::egui::epaint::text::{FontInsert, FontPriority, InsertFontFamily};
use eframe::egui::{Context, FontData, FontFamily, FontId};

/// Which parts of file names to look for, for which first and last character. The
/// first that is found is taken.
const CANDIDATES: [(u32, u32, &[&str]); 7] = [
    (0x2e80, 0xd7ff, CJK),
    (0xf900, 0xffef, CJK),
    (0x20000, 0x3ffff, CJK),
    (
        0x0590,
        0x05ff,
        &[
            "NotoSansHebrew",
            "DejaVuSans.",
            "Arial Unicode",
            "segoeui.",
            "arial.",
        ],
    ),
    (
        0x0600,
        0x08ff,
        &[
            "NotoSansArabic",
            "NotoNaskhArabic-Regular",
            "DejaVuSans.",
            "Arial Unicode",
            "segoeui.",
            "arial.",
        ],
    ),
    (
        0x0900,
        0x0dff,
        &[
            "NotoSansDevanagari",
            "Lohit-Devanagari",
            "FreeSans.",
            "Nirmala",
            "Arial Unicode",
        ],
    ),
    (
        0x0e00,
        0x0e7f,
        &[
            "NotoSansThai",
            "Loma.",
            "FreeSerif.",
            "LeelawUI",
            "Arial Unicode",
        ],
    ),
];
const CJK: &[&str] = &[
    "NotoSansCJK-Regular",
    "SourceHanSans-Regular",
    "wqy-microhei",
    "wqy-zenhei",
    "DroidSansFallback",
    "msyh.",
    "YuGothM",
    "malgun.",
    "PingFang",
    "Hiragino Sans GB",
    "Arial Unicode",
];
/// For every other script.
const ANY: &[&str] = &[
    "DejaVuSans.",
    "NotoSans-Regular",
    "FreeSans.",
    "segoeui.",
    "Arial Unicode",
];

/// Files that are looked at at most, and folders within folders.
const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 6;

/// Where a font was found, and what is in the file.
type FontFile = (PathBuf, Vec<u8>);

/// Which blocks have been looked for, and what is under way.
#[derive(Default)]
pub struct SystemFonts {
    looked_for: BTreeSet<u32>,
    inserted: BTreeSet<PathBuf>,
    coming: Option<Receiver<Option<FontFile>>>,
}

impl SystemFonts {
    /// Looks for a font if the text has a character that cannot be drawn.
    pub fn cover(&mut self, ctx: &Context, text: &str) {
        for letter in text.chars().filter(|&letter| may_lack(letter)) {
            if self.coming.is_some() {
                return;
            }
            let block = letter as u32 >> 8;
            if self.looked_for.contains(&block) {
                continue;
            }
            self.looked_for.insert(block);
            let known = ctx.fonts_mut(|fonts| fonts.has_glyph(&FontId::proportional(14.0), letter));
            if !known {
                self.look_for(ctx, letter);
            }
        }
    }

    fn look_for(&mut self, ctx: &Context, letter: char) {
        let (sender, receiver) = sync_channel(1);
        let ctx = ctx.clone();
        let started = std::thread::Builder::new()
            .name("fonts".to_owned())
            .spawn(move || {
                let found = find(candidates(letter), &font_folders())
                    .and_then(|path| Some((path.clone(), std::fs::read(path).ok()?)));
                if sender.send(found).is_ok() {
                    ctx.request_repaint();
                }
            });
        // Without the thread the text stays as it is: boxes instead of letters.
        self.coming = started.is_ok().then_some(receiver);
    }

    /// Whether a font is being looked for. Until it is there, no other one is.
    pub fn is_looking(&self) -> bool {
        self.coming.is_some()
    }

    /// Takes a font that has been read meanwhile.
    pub fn take(&mut self, ctx: &Context) {
        let Some(coming) = &self.coming else { return };
        match coming.try_recv() {
            Err(TryRecvError::Empty) => return,
            Ok(Some((path, data))) if self.inserted.insert(path.clone()) => {
                let behind = |family| InsertFontFamily {
                    family,
                    priority: FontPriority::Lowest,
                };
                ctx.add_font(FontInsert::new(
                    &path.to_string_lossy(),
                    FontData::from_owned(data),
                    vec![
                        behind(FontFamily::Proportional),
                        behind(FontFamily::Monospace),
                    ],
                ));
            }
            Ok(_) | Err(TryRecvError::Disconnected) => {}
        }
        self.coming = None;
    }
}

/// Latin, its accents, Greek and Cyrillic are built in, symbols and emoji mostly so.
fn may_lack(letter: char) -> bool {
    let code = letter as u32;
    code >= 0x0530 && !(0x2000..0x2e80).contains(&code) && !(0x1f000..0x20000).contains(&code)
}

fn candidates(letter: char) -> &'static [&'static str] {
    let code = letter as u32;
    CANDIDATES
        .iter()
        .find(|(first, last, _)| (*first..=*last).contains(&code))
        .map_or(ANY, |(_, _, names)| names)
}

/// Where systems keep their fonts.
fn font_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if cfg!(target_os = "windows") {
        folders.extend(std::env::var_os("WINDIR").map(|root| Path::new(&root).join("Fonts")));
    } else if cfg!(target_os = "macos") {
        folders.extend(["/System/Library/Fonts", "/Library/Fonts"].map(PathBuf::from));
    } else {
        folders.extend(["/usr/share/fonts", "/usr/local/share/fonts"].map(PathBuf::from));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    folders.extend(home.map(|home| home.join(".local/share/fonts")));
    folders
}

/// The file whose name begins like the earliest of the names.
fn find(names: &[&str], folders: &[PathBuf]) -> Option<PathBuf> {
    let mut left: Vec<(PathBuf, usize)> = folders.iter().map(|at| (at.clone(), 0)).collect();
    let mut best: Option<(usize, PathBuf)> = None;
    let mut files = 0;
    while let Some((folder, depth)) = left.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                if depth < MAX_DEPTH {
                    left.push((path, depth + 1));
                }
                continue;
            }
            files += 1;
            if files > MAX_FILES {
                return best.map(|(_, path)| path);
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_font(&path) {
                continue;
            }
            let rank = names.iter().position(|begin| name.starts_with(begin));
            if let Some(rank) = rank
                && best.as_ref().is_none_or(|(least, _)| rank < *least)
            {
                best = Some((rank, path));
            }
        }
    }
    best.map(|(_, path)| path)
}

fn is_font(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| ["ttf", "otf", "ttc"].iter().any(|known| ending == *known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_fonts_of_its_own() {
        assert_eq!(candidates('漢'), CJK);
        assert_eq!(candidates('한'), CJK);
        assert!(candidates('ش').contains(&"NotoSansArabic"));
        assert_eq!(candidates('Ա'), ANY);
        assert!(may_lack('漢') && !may_lack('é') && !may_lack('Ж') && !may_lack('🌀'));
        assert!(is_font(Path::new("a/NotoSans.TTF")) && !is_font(Path::new("a/fonts.dir")));
    }
}
