//! In which charset a page is written.
//!
//! The first of these that says something known decides: a byte order mark, the
//! `Content-Type` header, a `<meta>` in the first 1,024 bytes, an XML declaration.
//! A page that says nothing is UTF-8 if all of it is valid UTF-8, and windows-1252,
//! the standard's default for the West, if not.

use std::borrow::Cow;

use encoding_rs::{
    EncoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED,
};

use super::markup::{Markup, is_space};

/// How far into a page its own word on its charset is looked for, as in browsers.
const PRESCAN_BYTES: usize = 1024;

/// The charset of a page, and how many bytes of byte order mark it begins with.
pub(super) fn of_page(body: &[u8], content_type: Option<&str>) -> (&'static Encoding, usize) {
    if let Some(found) = Encoding::for_bom(body) {
        return found;
    }
    let head = &body[..body.len().min(PRESCAN_BYTES)];
    let charset = content_type
        .and_then(of_content_type)
        .or_else(|| of_meta(head))
        .or_else(|| of_xml_declaration(head))
        .unwrap_or_else(|| guess(body));
    (charset, 0)
}

fn of_content_type(header: &str) -> Option<&'static Encoding> {
    let parameters = header.split(';').skip(1);
    let (_, label) = parameters
        .filter_map(|parameter| parameter.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
}

/// The standard's prescan: it knows tags and comments, and no elements, so that even
/// a `<meta>` inside of a script counts.
fn of_meta(head: &[u8]) -> Option<&'static Encoding> {
    let mut markup = Markup::new(head);
    while let Some(tag) = markup.next_tag(false) {
        let is_meta = !tag.is_end && tag.name.eq_ignore_ascii_case(b"meta");
        let (mut charset, mut equiv, mut content) = (None, None, None);
        markup.attributes(|name, value| {
            for (known, slot) in [
                (&b"charset"[..], &mut charset),
                (b"http-equiv", &mut equiv),
                (b"content", &mut content),
            ] {
                if name.eq_ignore_ascii_case(known) {
                    slot.get_or_insert(value);
                }
            }
        })?;
        if !is_meta {
            continue;
        }
        let label = charset.or_else(|| {
            equiv.filter(|equiv| equiv.eq_ignore_ascii_case(b"content-type"))?;
            charset_in_content(content?)
        });
        if let Some(charset) = label.and_then(Encoding::for_label) {
            return Some(as_ascii_page(charset));
        }
    }
    None
}

/// The label in `text/html; charset=label`, by the looser rules for `<meta>`.
fn charset_in_content(content: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset";
    let mut rest = content;
    loop {
        let found = rest
            .windows(NAME.len())
            .position(|window| window.eq_ignore_ascii_case(NAME))?;
        rest = rest[found + NAME.len()..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b"=") else {
            continue;
        };
        let value = value.trim_ascii_start();
        return match value.first()? {
            quote @ (b'"' | b'\'') => {
                let length = memchr::memchr(*quote, &value[1..])?;
                Some(&value[1..=length])
            }
            _ => value.split(|byte| is_space(*byte) || *byte == b';').next(),
        };
    }
}

/// The encoding of `<?xml version="1.0" encoding="label"?>`, which also shows UTF-16
/// without a byte order mark.
fn of_xml_declaration(head: &[u8]) -> Option<&'static Encoding> {
    if head.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if head.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let declaration = head.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr::memchr(b'>', declaration)?];
    let at = memchr::memmem::find(declaration, b"encoding")?;
    let value = declaration[at + b"encoding".len()..].trim_ascii_start();
    let value = value.strip_prefix(b"=")?.trim_ascii_start();
    let quote = *value.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let length = memchr::memchr(quote, &value[1..])?;
    Encoding::for_label(&value[1..=length]).map(as_ascii_page)
}

/// A page whose charset could be read in ASCII is not in UTF-16, whatever it says.
fn as_ascii_page(charset: &'static Encoding) -> &'static Encoding {
    if charset == UTF_16LE || charset == UTF_16BE {
        UTF_8
    } else if charset == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        charset
    }
}

fn guess(body: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(body) {
        Ok(_) => UTF_8,
        // Cut off in the middle of a character, by a size limit most likely.
        Err(error) if error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    }
}

/// A part of a URL's query as the form of a page in this charset would send it, for
/// that is what its server expects. A character that the charset lacks becomes an
/// escaped numeric reference, as the URL standard says.
pub(super) fn query_bytes<'q>(part: &'q str, charset: &'static Encoding) -> Cow<'q, [u8]> {
    if part.is_ascii() {
        return Cow::Borrowed(part.as_bytes());
    }
    let mut encoder = charset.new_encoder();
    let mut bytes = Vec::with_capacity(part.len() * 2);
    let mut rest = part;
    loop {
        // Without room the encoder would stop early; this is room for all of it.
        let room = encoder.max_buffer_length_from_utf8_without_replacement(rest.len());
        bytes.reserve(room.unwrap_or(0));
        let (result, read) =
            encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
        rest = &rest[read..];
        match result {
            EncoderResult::Unmappable(character) => {
                bytes.extend(format!("%26%23{}%3B", u32::from(character)).bytes());
            }
            EncoderResult::InputEmpty | EncoderResult::OutputFull => return Cow::Owned(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_JP, GBK, ISO_2022_JP, KOI8_R, SHIFT_JIS, WINDOWS_1251};

    use super::*;

    fn charset(body: &[u8], content_type: Option<&str>) -> &'static Encoding {
        of_page(body, content_type).0
    }

    #[test]
    fn the_first_that_speaks_decides() {
        let meta = b"<meta charset=koi8-r>";
        let marked = b"\xef\xbb\xbf<meta charset=koi8-r>";
        let header = Some("text/html; charset=shift_jis");
        assert_eq!(of_page(marked, header), (UTF_8, 3));
        assert_eq!(of_page(b"\xff\xfe<\0", header), (UTF_16LE, 2));
        assert_eq!(of_page(b"\xfe\xff\0<", None), (UTF_16BE, 2));
        assert_eq!(of_page(meta, header), (SHIFT_JIS, 0));
        assert_eq!(of_page(meta, Some("text/html")), (KOI8_R, 0));
        assert_eq!(
            of_page(meta, Some("text/html; charset=nonsense")),
            (KOI8_R, 0)
        );
        assert_eq!(of_page(b"<p>\xc3\xa9", None), (UTF_8, 0));
        assert_eq!(of_page(b"<p>\xc3\xa9\xc3", None), (UTF_8, 0));
        assert_eq!(of_page(b"<p>\xe9<p>", None), (WINDOWS_1252, 0));
        assert_eq!(of_page(b"", None), (UTF_8, 0));
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        for header in [
            "text/html;charset=gbk",
            "text/html; Charset = \"GBK\"",
            "text/html; boundary=x; charset='gbk' ; charset=utf-8",
            "TEXT/HTML; CHARSET=gb2312",
        ] {
            assert_eq!(charset(b"", Some(header)), GBK, "{header}");
        }
        assert_eq!(charset(b"", Some("charset=gbk")), UTF_8);
    }

    #[test]
    fn the_prescan_follows_the_standard() {
        for (head, expected) in [
            ("<META CharSet='KOI8-R'>", KOI8_R),
            (
                "<meta http-equiv=content-type content='text/html; charset=koi8-r'>",
                KOI8_R,
            ),
            (
                "<meta content=\"x;CHARSET = 'koi8-r'\" http-equiv=Content-Type>",
                KOI8_R,
            ),
            (
                "<meta http-equiv=content-type content='charsets; charset=koi8-r;x'>",
                KOI8_R,
            ),
            ("<meta content='text/html; charset=koi8-r'>", UTF_8),
            ("<meta charset=nonsense><meta charset=euc-jp>", EUC_JP),
            (
                "<!-- <meta charset=koi8-r> --><meta charset=euc-jp>",
                EUC_JP,
            ),
            (
                "<p title='<meta charset=koi8-r>'><meta charset=euc-jp>",
                EUC_JP,
            ),
            ("</meta charset=koi8-r><meta charset=euc-jp>", EUC_JP),
            ("<meta charset=utf-16>\u{e9}", UTF_8),
            ("<meta charset=x-user-defined>", WINDOWS_1252),
            (
                "<?xml version='1.0' encoding='windows-1251'?>",
                WINDOWS_1251,
            ),
            ("<?xml encoding=\"koi8-r\"?><meta charset=euc-jp>", EUC_JP),
            ("<meta charset=koi8-r", UTF_8),
        ] {
            assert_eq!(charset(head.as_bytes(), None), expected, "{head}");
        }
        let late = format!("{}<meta charset=koi8-r>", " ".repeat(PRESCAN_BYTES));
        assert_eq!(charset(late.as_bytes(), None), UTF_8);
        assert_eq!(charset(b"<\0?\0x\0m\0l\0", None), UTF_16LE);
        assert_eq!(charset(b"\0<\0?\0x\0m\0l", None), UTF_16BE);
    }

    #[test]
    fn queries_are_encoded_for_the_pages_server() {
        assert_eq!(*query_bytes("q=é", WINDOWS_1252), *b"q=\xe9");
        assert_eq!(*query_bytes("q=表", SHIFT_JIS), *b"q=\x95\x5c");
        assert_eq!(*query_bytes("q=表!", WINDOWS_1252), *b"q=%26%2334920%3B!");
        assert_eq!(*query_bytes("中é中", GBK), *b"\xd6\xd0\xa8\xa6\xd6\xd0");
        assert_eq!(*query_bytes("a&b=1", ISO_2022_JP), *b"a&b=1");
    }
}
