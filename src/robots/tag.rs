//! What a page asks of crawlers: the `X-Robots-Tag` header and the robots `<meta>`.
//!
//! A value is a list of directives between commas. `agent:` before a directive
//! makes it and those after it, up to the next agent, binding for that crawler
//! alone. Some directives have a colon of their own
//! (`unavailable_after: 25 Jun 2030 15:00:00 GMT`), and must not be taken for
//! an agent's name.

use super::parse::{match_length, product_token};

/// The directives that a crawler which keeps pages and follows links obeys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RobotsTag {
    /// The page must not be kept. `noindex` asks for that as well as `noarchive`: an
    /// archive has an index, and shows what it holds.
    pub noarchive: bool,
    /// The links on the page must not be followed.
    pub nofollow: bool,
}

impl RobotsTag {
    /// Reads all `X-Robots-Tag` values of an answer. What any of them forbids is
    /// forbidden; contradicting permissions (`all`, `index`) do not count.
    pub fn from_headers<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>, agent: &str) -> Self {
        let agent = product_token(agent.as_bytes());
        let mut tag = Self::default();
        for value in values {
            tag.add_value(value.as_ref(), agent);
        }
        tag
    }

    /// Adds what the `content` of one `<meta name=robots>` forbids, which names no agents.
    /// There, directives stand between blanks as well.
    pub fn add_meta(&mut self, content: &str) {
        for directive in content.split(|c: char| c == ',' || c.is_ascii_whitespace()) {
            self.add_directive(directive.as_bytes());
        }
    }

    fn add_value(&mut self, value: &[u8], agent: &[u8]) {
        let mut binds_us = true;
        for part in value.split(|&byte| byte == b',') {
            let mut directive = part.trim_ascii();
            if let Some((name, rest)) = split_agent(directive) {
                binds_us = match_length(name, agent).is_some();
                directive = rest;
            }
            if binds_us {
                self.add_directive(directive);
            }
        }
    }

    fn add_directive(&mut self, directive: &[u8]) {
        let is = |name: &str| directive.eq_ignore_ascii_case(name.as_bytes());
        self.noarchive |= is("noarchive") || is("noindex") || is("none");
        self.nofollow |= is("nofollow") || is("none");
    }
}

/// Splits `agent: directive`. Neither a directive with a value nor a piece of a
/// date (`03 Jul 2030 13:09`) is an agent's name.
fn split_agent(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', part)?;
    let name = part[..colon].trim_ascii();
    let has_value = [
        "unavailable_after",
        "max-snippet",
        "max-image-preview",
        "max-video-preview",
    ]
    .iter()
    .any(|directive| name.eq_ignore_ascii_case(directive.as_bytes()));
    let is_name = name == b"*" || !name.is_empty() && product_token(name) == name;
    (is_name && !has_value).then(|| (name, part[colon + 1..].trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::RobotsTag;

    #[test]
    fn header_values() {
        let cases: &[(&[&str], bool, bool)] = &[
            (&[], false, false),
            (&[""], false, false),
            (&["noindex"], true, false),
            (&["nofollow"], false, true),
            (&["noindex, nofollow"], true, true),
            (&["NoIndex,NOFOLLOW"], true, true),
            (&["none"], true, true),
            (&["all", "index, follow"], false, false),
            (&["noindex", "nofollow"], true, true),
            (&["noindex", "index"], true, false),
            (&["noarchive, nosnippet"], true, false),
            (&["noindexing"], false, false),
            (&["peercrawl: noindex"], true, false),
            (&["PeerCrawl : noindex , nofollow"], true, true),
            (&["*: nofollow"], false, true),
            (&["otherbot: noindex, nofollow"], false, false),
            (&["otherbot: noindex", "nofollow"], false, true),
            (&["otherbot: noindex, peercrawl: nofollow"], false, true),
            (&["peercrawl: nofollow, otherbot: noindex"], false, true),
            (&["noindex, otherbot: nofollow"], true, false),
            (
                &["unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow"],
                false,
                true,
            ),
            (
                &["unavailable_after: Wed, 03 Jul 2030 13:09:53 GMT, noindex"],
                true,
                false,
            ),
            (
                &["max-snippet:-1, max-image-preview: large, nofollow"],
                false,
                true,
            ),
            (&[":", "::noindex", ",,", "peercrawl:"], false, false),
        ];
        for (values, noarchive, nofollow) in cases {
            let tag = RobotsTag::from_headers(*values, "PeerCrawl");
            assert_eq!(
                (tag.noarchive, tag.nofollow),
                (*noarchive, *nofollow),
                "{values:?}"
            );
        }
    }

    #[test]
    fn headers_that_are_not_text_are_read_as_far_as_they_can_be() {
        let tag = RobotsTag::from_headers([&b"\xFF\xFE, nofollow"[..]], "peercrawl");
        assert!(tag.nofollow && !tag.noarchive);
    }

    #[test]
    fn meta_restricts_whatever_its_case_and_separator() {
        for (content, nofollow, noarchive) in [
            ("nofollow", true, false),
            ("NoIndex", false, true),
            ("noarchive", false, true),
            ("none", true, true),
            ("noindex,nofollow", true, true),
            ("index, NOFOLLOW ,max-snippet:-1", true, false),
            ("noindex nofollow", true, true),
            ("all", false, false),
            ("index,follow", false, false),
            ("nofollowing", false, false),
            ("", false, false),
        ] {
            let mut tag = RobotsTag::default();
            tag.add_meta(content);
            let expected = RobotsTag {
                noarchive,
                nofollow,
            };
            assert_eq!(tag, expected, "{content}");
        }
    }

    #[test]
    fn meta_and_header_add_up() {
        let mut tag = RobotsTag::from_headers(["nofollow"], "peercrawl");
        tag.add_meta(" NOINDEX , max-snippet:-1");
        assert!(tag.noarchive && tag.nofollow);
    }
}
