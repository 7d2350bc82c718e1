//! Walks over HTML and stops at tags.
//!
//! This is the part of the standard's tokenizer that decides where a tag begins and
//! ends. Text and comments are passed over by `memchr`, and no token is ever built:
//! names and values are slices of the page. Every byte is looked at a bounded number
//! of times, so that no page costs more than its length.

use memchr::{memchr, memmem};

/// A tag whose name has been read, and whose attributes have not.
pub(super) struct Tag<'a> {
    /// As written; names are compared without regard to ASCII case.
    pub name: &'a [u8],
    /// Whether it is an end tag, as in `</a>`.
    pub is_end: bool,
}

/// A place in a page, always between two tokens or right after a tag's name.
pub(super) struct Markup<'a> {
    page: &'a [u8],
    at: usize,
}

impl<'a> Markup<'a> {
    pub fn new(page: &'a [u8]) -> Self {
        Self { page, at: 0 }
    }

    /// Goes on to the next tag. `cdata` says whether `<![CDATA[` opens a section
    /// here (in SVG and MathML) or a bogus comment (in HTML).
    pub fn next_tag(&mut self, cdata: bool) -> Option<Tag<'a>> {
        loop {
            self.at += memchr(b'<', self.rest())? + 1;
            match self.rest() {
                [letter, ..] if letter.is_ascii_alphabetic() => return Some(self.tag(false)),
                [b'/', letter, ..] if letter.is_ascii_alphabetic() => {
                    self.at += 1;
                    return Some(self.tag(true));
                }
                // An end of file right after `</` is text; there is no tag after it anyway.
                [b'/' | b'?', ..] => self.skip_past(b">")?,
                [b'!', rest @ ..] => {
                    if rest.starts_with(b"--") {
                        self.at += 3;
                        self.skip_comment()?;
                    } else if cdata && rest.starts_with(b"[CDATA[") {
                        self.at += 8;
                        self.skip_past(b"]]>")?;
                    } else {
                        // A `>` ends a doctype even inside of its quotes.
                        self.skip_past(b">")?;
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads the attributes of the tag that `next_tag` gave, each name and value as
    /// written. True if the tag closes itself (`<br/>`); none if the page ends inside
    /// of it, in which case the standard drops the whole tag.
    #[inline]
    pub fn attributes(&mut self, mut each: impl FnMut(&'a [u8], &'a [u8])) -> Option<bool> {
        let page = self.page;
        loop {
            let mut slash = false;
            while let is_gap @ (b'/' | b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') =
                *page.get(self.at)?
            {
                slash = is_gap == b'/';
                self.at += 1;
            }
            if page[self.at] == b'>' {
                self.at += 1;
                return Some(slash);
            }
            let start = self.at;
            // An equals sign in first place belongs to the name.
            self.at += 1;
            self.skip_while(|byte| !matches!(byte, b'=' | b'>' | b'/') && !is_space(byte));
            let name = &page[start..self.at];
            self.skip_while(is_space);
            let value = if *page.get(self.at)? == b'=' {
                self.at += 1;
                self.value()?
            } else {
                &[]
            };
            each(name, value);
        }
    }

    /// Passes over the text of an element that holds no markup, up to its end tag.
    pub fn skip_raw_text(&mut self, name: &[u8]) {
        while let Some(found) = memchr(b'<', self.rest()) {
            self.at += found;
            if self.is_end_tag_of(name) {
                return;
            }
            self.at += 1;
        }
        self.skip_all();
    }

    /// Passes over a script. Inside of `<!--`, a script may hold `<script>` and
    /// `</script>` pairs, which do not end it.
    pub fn skip_script(&mut self) {
        let (mut escaped, mut nested) = (false, false);
        while let Some(found) = memchr::memchr2(b'<', b'-', self.rest()) {
            self.at += found;
            let rest = self.rest();
            if escaped && rest.starts_with(b"-->") {
                (escaped, nested) = (false, false);
            } else if !escaped && rest.starts_with(b"<!--") {
                escaped = true;
                // The same two dashes may close it: `<!-->`.
                self.at += 2;
                continue;
            } else if self.is_end_tag_of(b"script") {
                if !nested {
                    return;
                }
                nested = false;
            } else if escaped && rest[0] == b'<' && starts_with_name(&rest[1..], b"script") {
                nested = true;
            }
            self.at += 1;
        }
        self.skip_all();
    }

    /// Gives the rest of the page up: it is all text.
    pub fn skip_all(&mut self) {
        self.at = self.page.len();
    }

    fn rest(&self) -> &'a [u8] {
        &self.page[self.at..]
    }

    fn tag(&mut self, is_end: bool) -> Tag<'a> {
        let start = self.at;
        self.skip_while(|byte| !matches!(byte, b'>' | b'/') && !is_space(byte));
        Tag {
            name: &self.page[start..self.at],
            is_end,
        }
    }

    #[inline]
    fn value(&mut self) -> Option<&'a [u8]> {
        self.skip_while(is_space);
        let start = self.at;
        match *self.page.get(start)? {
            quote @ (b'"' | b'\'') => {
                let length = memchr(quote, &self.page[start + 1..])?;
                self.at = start + length + 2;
                Some(&self.page[start + 1..=start + length])
            }
            _ => {
                self.skip_while(|byte| byte != b'>' && !is_space(byte));
                Some(&self.page[start..self.at])
            }
        }
    }

    fn skip_comment(&mut self) -> Option<()> {
        if self.rest().starts_with(b">") || self.rest().starts_with(b"->") {
            return self.skip_past(b">");
        }
        loop {
            self.at += memmem::find(self.rest(), b"--")? + 1;
            let after = &self.rest()[1..];
            if after.starts_with(b">") || after.starts_with(b"!>") {
                return self.skip_past(b">");
            }
        }
    }

    fn skip_past(&mut self, end: &[u8]) -> Option<()> {
        self.at += memmem::find(self.rest(), end)? + end.len();
        Some(())
    }

    #[inline]
    fn skip_while(&mut self, passes: impl Fn(u8) -> bool) {
        let rest = self.rest();
        let length = rest.iter().position(|byte| !passes(*byte));
        self.at += length.unwrap_or(rest.len());
    }

    fn is_end_tag_of(&self, name: &[u8]) -> bool {
        match self.rest() {
            [b'<', b'/', rest @ ..] => starts_with_name(rest, name),
            _ => false,
        }
    }
}

/// Whether a tag of this name may begin here: the name, and then its end.
fn starts_with_name(rest: &[u8], name: &[u8]) -> bool {
    rest.len() > name.len()
        && rest[..name.len()].eq_ignore_ascii_case(name)
        && (matches!(rest[name.len()], b'>' | b'/') || is_space(rest[name.len()]))
}

/// White space as HTML has it; a carriage return counts, for the standard reads it
/// as a line feed.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tag of a page as `name` or `/name`, its attributes as `name=value`, and a
    /// slash at the end where it closes itself.
    fn tags(page: &str) -> Vec<String> {
        let mut markup = Markup::new(page.as_bytes());
        let mut tags = Vec::new();
        while let Some(tag) = markup.next_tag(false) {
            let text = |bytes| std::str::from_utf8(bytes).unwrap();
            let mut line = format!("{}{}", if tag.is_end { "/" } else { "" }, text(tag.name));
            let Some(closes_itself) = markup.attributes(|name, value| {
                line += &format!(" {}={}", text(name), text(value));
            }) else {
                break;
            };
            if closes_itself {
                line += " /";
            }
            if !tag.is_end && tag.name == b"script" {
                markup.skip_script();
            } else if !tag.is_end && tag.name == b"title" {
                markup.skip_raw_text(b"title");
            }
            tags.push(line);
        }
        tags
    }

    #[test]
    fn a_tag_ends_where_the_standard_ends_it() {
        let table: &[(&str, &[&str])] = &[
            ("<a href=\"1>2\">", &["a href=1>2"]),
            ("<a href='1\"2'>", &["a href=1\"2"]),
            ("<a href=/x/>", &["a href=/x/"]),
            ("<a href=x />", &["a href=x /"]),
            ("<a/href=x/y>", &["a href=x/y"]),
            ("<a\nhref\t=\r\n 'x'rel=y>", &["a href=x rel=y"]),
            ("<a title\"b>c\">", &["a title\"b="]),
            ("<a =x=y>", &["a =x=y"]),
            ("<a href=>x", &["a href="]),
            ("<a href= >x", &["a href="]),
            ("<a b c=d>", &["a b= c=d"]),
            ("<a href='x", &[]),
            ("<a href", &[]),
            ("<a", &[]),
            ("a < b <3 <a>", &["a"]),
            ("</ a><//><?a <b>?><a>", &["a"]),
            ("</><a></a href=x>", &["a", "/a href=x"]),
            ("<br/ /><br / x>", &["br /", "br x="]),
        ];
        for (page, expected) in table {
            assert_eq!(tags(page), *expected, "{page}");
        }
    }

    #[test]
    fn a_comment_hides_what_is_in_it_and_no_more() {
        for page in [
            "<!-- <b> --><a>",
            "<!--><a><!--b-->",
            "<!---><a>",
            "<!----><a>",
            "<!-- --!><a>",
            "<!-- --!--><a>",
            "<!-- -- > <b> ---><a>",
            "<!-- <!-- --><a>",
            "<!doctype html PUBLIC \"><a>",
            "<!x <b><a>",
            "<!><a>",
            "<![CDATA[ <b><a>",
            "<a><!-- <b> -- >",
        ] {
            assert_eq!(tags(page), ["a"], "{page}");
        }
    }

    #[test]
    fn a_script_ends_where_the_standard_ends_it() {
        for page in [
            "<script>'<b>'</script><a>",
            "<script>'</scripts>'</script ><a>",
            "<script><!-- <script> </script> --> <b> </script><a>",
            "<script><!-- <script> </script> <b> </script><a>",
            "<script><!-- <b> </script><a>",
            "<script><!--><script></script><a>",
            "<script><!-- --> <script> </script><a>",
            "<script><!-- <scripty> </script><a>",
        ] {
            let found = tags(page);
            assert_eq!(found.first().map(String::as_str), Some("script"), "{page}");
            assert_eq!(found.last().map(String::as_str), Some("a"), "{page}");
            assert!(!found.contains(&"b".to_owned()), "{page}");
        }
        assert_eq!(tags("<script><!-- <script> </script> <a>"), ["script"]);
        assert_eq!(tags("<title><b></title/><a>"), ["title", "/title /", "a"]);
        assert_eq!(tags("<title><a>"), ["title"]);
    }
}
