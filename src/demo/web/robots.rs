//! The robots.txt of each host. Whatever its form, every one that exists says the same to us:
//! all is allowed but the private part, of which `/private/open/` is allowed again.

/// The forms that a host's robots.txt comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RobotsFile {
    /// 404: everything is allowed.
    Missing,
    /// One group for all.
    Simple,
    /// A group for us among groups for others, which are shut out.
    Groups,
    /// `*` and `$`.
    Wildcards,
    /// Byte order mark, comments, odd spacing and case, and our group in two parts.
    Untidy,
    /// A redirect to a file elsewhere on the host.
    Moved,
}

impl RobotsFile {
    /// One form or another.
    pub(super) fn drawn(draw: u64) -> Self {
        match draw % 16 {
            0..3 => RobotsFile::Missing,
            3..7 => RobotsFile::Simple,
            7..10 => RobotsFile::Groups,
            10..13 => RobotsFile::Wildcards,
            13..15 => RobotsFile::Untidy,
            _ => RobotsFile::Moved,
        }
    }

    /// What the file says.
    pub(super) fn text(self) -> &'static str {
        match self {
            RobotsFile::Missing => "",
            RobotsFile::Simple | RobotsFile::Moved => {
                "User-agent: *\nDisallow: /private/\nAllow: /private/open/\n"
            }
            RobotsFile::Groups => {
                "User-agent: otherbot\nUser-agent: thirdbot\nDisallow: /\n\n\
                 User-agent: peercrawl\nAllow: /private/open/\nDisallow: /private/\n\n\
                 User-agent: *\nDisallow: /\n"
            }
            RobotsFile::Wildcards => {
                "User-agent: *\nDisallow: /private*\nDisallow: /*/secret$\nAllow: /private/open/\n\
                 Sitemap: /nowhere.xml\n"
            }
            RobotsFile::Untidy => {
                "\u{feff}# who may do what\r\nUSER-AGENT : PeerCrawl # you\r\n  disallow:/private/\r\n\r\n\
                 user-agent: otherbot\r\nDisallow: /\r\n\r\n\
                 User-Agent: peercrawl\r\nNonsense: yes\r\nALLOW:   /private/open/   # but this\r\n\r\n\
                 user-agent: *\r\nDisallow: /\r\n"
            }
        }
    }

    /// The folder of pages that a host with this file allows, though it looks private.
    pub(super) fn open_folder(self) -> &'static str {
        match self {
            RobotsFile::Missing => "/private/",
            RobotsFile::Wildcards => "/x/secret/",
            _ => "/private/open/",
        }
    }

    /// The path of the forbidden URL number `which`.
    pub(super) fn forbidden_path(self, which: u8) -> &'static str {
        match which {
            0 => "/private/f0.html",
            1 => "/private/deep/f1?page=2",
            _ if self == RobotsFile::Wildcards => "/x/secret",
            _ => "/private/open",
        }
    }
}

/// How many forbidden URLs a host with rules has.
pub(super) const FORBIDDEN_URLS: u8 = 3;
