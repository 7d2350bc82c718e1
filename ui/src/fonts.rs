//! Fonts of the system for scripts that the built-in ones lack.
//!
//! They are large, so none is read before a text needs it, and then on a thread of
//! its own: the window goes on drawing, and draws the text anew when the font is
//! there. Each block of 128 characters, which is no more than a script, is looked for once.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use eframe::egui::epaint::text::{FontInsert, FontPriority, Fonts, InsertFontFamily, TextOptions};
use eframe::egui::{Context, FontData, FontDefinitions, FontFamily, FontId};

use crate::command::Screen;
use crate::model::Model;

/// How the names of files begin that are looked for, for which first and last character. The
/// first file that has the character is taken; after these come those of [`ANY`].
static CANDIDATES: [(u32, u32, &[&str]); 27] = [
    (0x0530, 0x058f, &["NotoSansArmenian"]),
    (0x0590, 0x05ff, &["NotoSansHebrew", "arial."]),
    (0x0600, 0x08ff, ARABIC),
    (
        0x0900,
        0x097f,
        &["NotoSansDevanagari", "Lohit-Devanagari", "Nirmala"],
    ),
    (
        0x0980,
        0x09ff,
        &["NotoSansBengali", "Lohit-Bengali", "Nirmala"],
    ),
    (
        0x0a00,
        0x0a7f,
        &["NotoSansGurmukhi", "Lohit-Gurmukhi", "Nirmala"],
    ),
    (
        0x0a80,
        0x0aff,
        &["NotoSansGujarati", "Lohit-Gujarati", "Nirmala"],
    ),
    (0x0b00, 0x0b7f, &["NotoSansOriya", "Lohit-Odia", "Nirmala"]),
    (0x0b80, 0x0bff, &["NotoSansTamil", "Lohit-Tamil", "Nirmala"]),
    (
        0x0c00,
        0x0c7f,
        &["NotoSansTelugu", "Lohit-Telugu", "Nirmala"],
    ),
    (
        0x0c80,
        0x0cff,
        &["NotoSansKannada", "Lohit-Kannada", "Nirmala"],
    ),
    (
        0x0d00,
        0x0d7f,
        &["NotoSansMalayalam", "Lohit-Malayalam", "Nirmala"],
    ),
    (0x0d80, 0x0dff, &["NotoSansSinhala", "lklug", "Nirmala"]),
    (0x0e00, 0x0e7f, &["NotoSansThai", "Loma.", "LeelawUI"]),
    (0x0e80, 0x0eff, &["NotoSansLao", "Phetsarath", "LeelawUI"]),
    (
        0x0f00,
        0x0fff,
        &["NotoSansTibetan", "NotoSerifTibetan", "himalaya."],
    ),
    (0x1000, 0x109f, &["NotoSansMyanmar", "Padauk", "mmrtext."]),
    (0x10a0, 0x10ff, &["NotoSansGeorgian"]),
    (0x1100, 0x11ff, HANGUL),
    (
        0x1200,
        0x139f,
        &["NotoSansEthiopic", "AbyssinicaSIL", "ebrima."],
    ),
    (0x1780, 0x17ff, &["NotoSansKhmer", "KhmerOS", "LeelawUI"]),
    (0x1800, 0x18af, &["NotoSansMongolian", "monbaiti."]),
    (0x2e80, 0xabff, CJK),
    (0xac00, 0xd7ff, HANGUL),
    (0xf900, 0xfaff, CJK),
    (0xfb50, 0xfeff, ARABIC),
    (0xff00, 0x3ffff, CJK),
];
const ARABIC: &[&str] = &["NotoSansArabic", "NotoNaskhArabic", "arial."];
const HANGUL: &[&str] = &[
    "NotoSansCJK-Regular",
    "NanumGothic",
    "malgun.",
    "AppleSDGothicNeo",
    "wqy-",
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
];
/// For every script.
const ANY: &[&str] = &[
    "DejaVuSans.",
    "NotoSans-Regular",
    "FreeSans.",
    "FreeSerif.",
    "segoeui.",
    "Arial Unicode",
];

/// Files that are read for a character at most.
const MAX_READ: usize = 8;
/// Files that are looked at at most, and folders within folders.
const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 6;

/// Where a font was found, and what is in the file.
type FontFile = (PathBuf, FontData);

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
            if !self.looked_for.insert(block(letter)) {
                continue;
            }
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
                let found = first_with(letter, find(&candidates(letter), &font_folders()));
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
                    data,
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

fn block(letter: char) -> u32 {
    letter as u32 >> 7
}

fn candidates(letter: char) -> Vec<&'static str> {
    let code = letter as u32;
    let mut rows = CANDIDATES.iter();
    let row = rows.find(|(first, last, _)| (*first..=*last).contains(&code));
    let of_script = row.map(|(_, _, names)| names.iter());
    of_script
        .into_iter()
        .flatten()
        .chain(ANY)
        .copied()
        .collect()
}

/// The first of these files that has the character, and what is in it.
fn first_with(letter: char, files: Vec<PathBuf>) -> Option<FontFile> {
    files.into_iter().take(MAX_READ).find_map(|path| {
        let data = FontData::from_owned(std::fs::read(&path).ok()?);
        Some((path, with_letter(letter, data)?))
    })
}

/// A font, if it has the character. The built-in ones do not: they were asked before.
fn with_letter(letter: char, data: FontData) -> Option<FontData> {
    const NAME: &str = "candidate";
    let data = Arc::new(data);
    let mut definitions = FontDefinitions::default();
    definitions
        .font_data
        .insert(NAME.to_owned(), Arc::clone(&data));
    let family = definitions.families.entry(FontFamily::Proportional);
    family.or_default().push(NAME.to_owned());
    // What is no font is met with a panic, and would be in the window too.
    let has_letter = catch_unwind(AssertUnwindSafe(|| {
        let mut fonts = Fonts::new(TextOptions::default(), definitions);
        fonts.has_glyph(&FontId::proportional(14.0), letter)
    }));
    let has_letter = has_letter.unwrap_or(false);
    has_letter.then(|| Arc::unwrap_or_clone(data))
}

/// What a screen shows that was written elsewhere, in whatever script.
pub fn foreign_texts(model: &Model, screen: Screen) -> Vec<&str> {
    let crawl = &model.crawl;
    let mut texts: Vec<&String> = Vec::new();
    match (&crawl.offer, &model.first_run, screen) {
        (Some(offer), _, _) => {
            texts.extend([&offer.network_name, &offer.file, &offer.leaves]);
            texts.extend(offer.seeds.iter().chain(&offer.peers));
        }
        (_, Some(first_run), _) => texts.push(&first_run.archive_folder),
        (_, _, Screen::Activity) => {
            texts.extend(model.results.rows.iter().map(|row| &row.title));
        }
        (_, _, Screen::Queues) => texts.extend(model.hosts.rows.iter().map(|row| &row.host)),
        (_, _, Screen::Crawl) => {
            texts.extend([&crawl.check.text, &crawl.join_file_path]);
            texts.extend(crawl.seeds.iter().chain(&crawl.blocked_sites));
        }
        (_, _, Screen::Archive) => {
            texts.push(&model.archive.folder);
            texts.extend(model.archive.look_up.iter().map(|asked| &asked.url));
        }
        (_, _, Screen::Log) => texts.extend(model.log.rows.iter().map(|row| &row.text)),
        (_, _, Screen::Overview | Screen::Network | Screen::Limits) => {}
    }
    texts.extend(model.notices.iter().map(|notice| &notice.text));
    texts.into_iter().map(String::as_str).collect()
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

/// The files whose names begin like one of these, in their order.
fn find(names: &[&str], folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut left: Vec<(PathBuf, usize)> = folders.iter().map(|at| (at.clone(), 0)).collect();
    let mut found = BTreeSet::new();
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
                left.clear();
                break;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let rank = names.iter().position(|begin| name.starts_with(begin));
            if let Some(rank) = rank.filter(|_| is_font(&path)) {
                // Of many weights the usual one.
                let is_other = name.contains('-') && !name.contains("Regular");
                found.insert((rank, is_other, path));
            }
        }
    }
    found.into_iter().map(|(_, _, path)| path).collect()
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
        assert_eq!(candidates('漢')[..CJK.len()], *CJK);
        assert!(candidates('한').contains(&"NanumGothic"));
        assert!(candidates('ش').contains(&"NotoSansArabic"));
        assert_eq!(candidates('ᚠ'), ANY);
        assert!(may_lack('漢') && !may_lack('é') && !may_lack('Ж') && !may_lack('🌀'));
        assert!(is_font(Path::new("a/NotoSans.TTF")) && !is_font(Path::new("a/fonts.dir")));
    }

    /// Bengali was looked for among the fonts of Devanagari, and not at all after it.
    #[test]
    fn one_script_does_not_stand_in_the_way_of_another() {
        let letters = "अঅਅઅଅஅఅಅഅඅกກཀကአក";
        let blocks: BTreeSet<u32> = letters.chars().map(block).collect();
        let names: BTreeSet<&str> = letters
            .chars()
            .map(|letter| candidates(letter)[0])
            .collect();
        assert_eq!(blocks.len(), letters.chars().count());
        assert_eq!(names.len(), letters.chars().count());
    }

    #[test]
    fn what_is_no_font_or_lacks_the_character_is_passed_over() {
        let hack = FontDefinitions::default().font_data["Hack"].font.to_vec();
        assert!(with_letter('अ', FontData::from_owned(hack)).is_none());
        assert!(with_letter('अ', FontData::from_owned(b"no font".to_vec())).is_none());
    }

    #[test]
    fn every_text_from_elsewhere_is_looked_at() {
        let text = || "漢字".to_owned();
        let mut model = Model::default();
        let crawl = Arc::make_mut(&mut model.crawl);
        crawl.seeds.push(text());
        Arc::make_mut(&mut model.archive).folder = text();
        Arc::make_mut(&mut model.log)
            .rows
            .push(crate::model::LogRow {
                at_ms: 0,
                level: crate::model::LogLevel::Info,
                text: text(),
            });
        for screen in [Screen::Crawl, Screen::Archive, Screen::Log] {
            assert!(
                foreign_texts(&model, screen).contains(&"漢字"),
                "{screen:?}"
            );
        }
        Arc::make_mut(&mut model.crawl).offer = Some(crate::model::JoinOffer {
            network_name: text(),
            ..crate::model::JoinOffer::default()
        });
        assert!(foreign_texts(&model, Screen::Limits).contains(&"漢字"));
    }
}
