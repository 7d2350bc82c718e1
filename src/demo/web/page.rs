//! What a page is, from the seed, its host and its number alone: what its body holds, how it
//! travels, and how its host behaves when asked for it.

use super::draw::{Purpose, draw};
use super::plan::{CALENDAR_PAGES, LONG_PAGES, Plan};

/// What is in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The only kind in a web without oddities.
    Plain,
    /// Valid HTML with links in every dress.
    Rich,
    /// The same, with a `<base href>`.
    Based,
    /// Markup that a browser reads without a doubt, and a validator does not.
    Broken,
    /// The header says iso-8859-1 and `<meta>` says utf-8.
    Latin1Header,
    /// Text in windows-1251.
    Windows1251,
    /// A byte order mark before UTF-8.
    Utf8Bom,
    /// Bytes that are no UTF-8, in a page that claims to be.
    InvalidUtf8,
    /// UTF-16, little endian, with its byte order mark.
    Utf16Le,
    /// HTML without a Content-Type.
    NoType,
    /// `<meta name=robots content=nofollow>`.
    NoFollowMeta,
    /// `X-Robots-Tag: nofollow`.
    NoFollowHeader,
    /// The bytes of the page with this number in the whole web (maybe its own).
    Mirror(u32),
    /// text/plain.
    Text,
    /// application/pdf, or nearly.
    Pdf,
    /// image/png, or nearly.
    Png,
    /// No byte at all.
    Empty,
    /// A page of the endless calendar, at this depth.
    Calendar(u32),
    /// A page of the growing path, at this depth.
    Long(u32),
}

impl Kind {
    /// Whether a crawler finds links in it that it may follow.
    pub(super) fn has_links(self) -> bool {
        !matches!(
            self,
            Kind::NoFollowMeta
                | Kind::NoFollowHeader
                | Kind::Text
                | Kind::Pdf
                | Kind::Png
                | Kind::Empty
        )
    }
}

/// How a body is compressed, if the client accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    /// By the end of the connection.
    Close,
    /// An HTTP/1.0 answer, by the end of the connection.
    Http10,
}

/// How a host behaves when asked for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Prompt,
    /// Answers in a dribble that takes this long.
    Slow {
        total_ms: u64,
    },
    /// Refuses the first request with this status and a `Retry-After`.
    RefusedFirst {
        status: u16,
        as_date: bool,
    },
    /// Resets the connection in the middle of the first answer.
    ResetFirst,
}

impl Plan {
    /// What is in the page.
    pub(super) fn kind(&self, host: u32, number: u32) -> Kind {
        match self.drawn_kind(host, number) {
            // The last one drawn may have found no partner.
            Kind::Mirror(id) => self.mirrored(id).map_or(Kind::Rich, Kind::Mirror),
            kind => kind,
        }
    }

    /// What is in the page, before the mirrors are paired.
    pub(super) fn drawn_kind(&self, host: u32, number: u32) -> Kind {
        if !self.spec.oddities {
            return Kind::Plain;
        }
        let roles = &self.hosts[host as usize].roles;
        if number == 0 {
            return Kind::Rich;
        }
        if number >= roles.from {
            let depth = |first: Option<u32>, pages: u32| {
                first
                    .and_then(|first| number.checked_sub(first))
                    .filter(|&depth| depth < pages)
            };
            if let Some(depth) = depth(roles.calendar, CALENDAR_PAGES) {
                return Kind::Calendar(depth);
            }
            if let Some(depth) = depth(roles.long, LONG_PAGES) {
                return Kind::Long(depth);
            }
            return if roles.empty == Some(number) {
                Kind::Empty
            } else {
                Kind::Rich
            };
        }
        let drawn = draw(self.spec.seed, Purpose::Kind, host, number) % 1_000;
        if drawn < 131 && self.is_leaf(host, number) {
            return match drawn {
                0..75 => Kind::Mirror(self.id(host, number)),
                75..85 => Kind::Text,
                85..93 => Kind::Pdf,
                93..101 => Kind::Png,
                101..111 => Kind::NoFollowMeta,
                111..121 => Kind::NoFollowHeader,
                _ => Kind::NoType,
            };
        }
        match drawn {
            200..208 => Kind::Latin1Header,
            208..216 => Kind::Windows1251,
            216..224 => Kind::Utf8Bom,
            224..232 => Kind::InvalidUtf8,
            232..240 => Kind::Utf16Le,
            240..270 => Kind::Broken,
            270..290 => Kind::Based,
            _ => Kind::Rich,
        }
    }

    /// How many redirects lead to the page; 0 means that it is linked itself.
    pub(super) fn hops(&self, host: u32, number: u32) -> u8 {
        let ordinary = number > 0 && number < self.hosts[host as usize].roles.from;
        if !self.spec.oddities || !ordinary {
            return 0;
        }
        match draw(self.spec.seed, Purpose::Redirect, host, number) % 100 {
            0..2 => 1,
            2..3 => 2,
            3..4 => 3,
            _ => 0,
        }
    }

    /// How the page's body travels.
    pub(super) fn wire(&self, host: u32, number: u32) -> (Encoding, Framing) {
        if !self.spec.oddities || number == 0 {
            return (Encoding::Identity, Framing::Length);
        }
        let drawn = draw(self.spec.seed, Purpose::Wire, host, number);
        let encoding = match drawn % 100 {
            0..3 => Encoding::Gzip,
            3..6 => Encoding::Deflate,
            6..9 => Encoding::Brotli,
            _ => Encoding::Identity,
        };
        let framing = match (drawn >> 32) % 100 {
            0..6 => Framing::Chunked,
            6..8 => Framing::Close,
            8..10 => Framing::Http10,
            _ => Framing::Length,
        };
        (encoding, framing)
    }

    /// How the host behaves when asked for the page.
    pub(super) fn manner(&self, host: u32, number: u32) -> Manner {
        let roles = &self.hosts[host as usize].roles;
        if number < roles.from {
            return Manner::Prompt;
        }
        let number = Some(number);
        if number == roles.slow {
            Manner::Slow {
                total_ms: 100 + draw(self.spec.seed, Purpose::Host, host, 1) % 200,
            }
        } else if number == roles.reset_first {
            Manner::ResetFirst
        } else if number == roles.refused_first {
            let nth = host / 5;
            let status = if nth.is_multiple_of(4) { 429 } else { 503 };
            // Two hosts at most say when in the form of a date.
            let as_date = matches!(nth, 1 | 5);
            Manner::RefusedFirst { status, as_date }
        } else {
            Manner::Prompt
        }
    }
}
