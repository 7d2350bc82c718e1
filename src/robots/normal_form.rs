//! One spelling for each path, so that rules and paths compare octet by octet
//! (RFC 9309 §2.2.2).
//!
//! Escapes have upper-case digits and stand only where they must. The RFC makes
//! no difference between a reserved character and its escape, unless it divides
//! the parts of a URL: `/`, `?`, `&` and `=` are not `%2F`, `%3F`, `%26` and `%3D`,
//! all others are decoded. `*` and `$` are always escaped when they are meant as
//! such, so that in a normal pattern a raw `*` is the wildcard and a raw `$` at
//! its end is the anchor (§2.2.3).
//!
//! After the `?`, neither `/` nor another `?` divides anything: the RFC's table
//! treats `?u=https://a` and `?u=https%3A%2F%2Fa` as one. In patterns they are
//! decoded there. For a path there are two spellings, since a pattern such as
//! `/*%2F` does not tell on which side of the `?` it is to match.

use std::borrow::Cow;

use crate::canonical::escapes::{escaped_octet, is_unreserved};

/// What to do with `%2F` and `%3F` after the first `?`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueryDelimiters {
    AsWritten,
    Decoded,
}

/// The spellings of a path under which a rule may match it.
pub(super) struct Spellings<'a> {
    pub(super) as_written: Cow<'a, str>,
    /// Present where it differs from the other.
    pub(super) query_decoded: Option<String>,
}

impl<'a> Spellings<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        let path = path.split_once('#').map_or(path, |(before, _)| before);
        let path = if path.starts_with('/') {
            Cow::Borrowed(path)
        } else {
            Cow::Owned(format!("/{path}"))
        };
        if is_plain(path.as_bytes()) {
            return Self {
                as_written: path,
                query_decoded: None,
            };
        }
        let as_written = spell(path.as_bytes(), QueryDelimiters::AsWritten);
        let query_decoded = spell(path.as_bytes(), QueryDelimiters::Decoded);
        Self {
            query_decoded: (query_decoded != as_written).then_some(query_decoded),
            as_written: Cow::Owned(as_written),
        }
    }
}

/// The normal form of a rule's pattern, appended to `out`.
pub(super) fn spell_pattern(pattern: &[u8], out: &mut String) {
    let (pattern, anchor) = match pattern.strip_suffix(b"$") {
        Some(rest) => (rest, "$"),
        None => (pattern, ""),
    };
    // At once: a pattern may be the whole file, and every octet of it become three.
    let spelled = |&octet: &u8| if is_raw(octet) { 1 } else { 3 };
    out.reserve(pattern.iter().map(spelled).sum::<usize>() + anchor.len());
    let mut rest = pattern;
    let mut in_query = false;
    while let Some(&byte) = rest.first() {
        if byte == b'*' {
            out.push('*');
            rest = &rest[1..];
        } else {
            rest = spell_one(rest, QueryDelimiters::Decoded, &mut in_query, out);
        }
    }
    out.push_str(anchor);
}

fn spell(path: &[u8], delimiters: QueryDelimiters) -> String {
    let mut out = String::with_capacity(path.len() + 16);
    let mut rest = path;
    let mut in_query = false;
    while !rest.is_empty() {
        rest = spell_one(rest, delimiters, &mut in_query, &mut out);
    }
    out
}

/// Spells the first octet or escape of `text`, which is not empty, and returns
/// what follows it.
fn spell_one<'a>(
    text: &'a [u8],
    delimiters: QueryDelimiters,
    in_query: &mut bool,
    out: &mut String,
) -> &'a [u8] {
    if let Some(octet) = escaped_octet(text) {
        let decode = is_data(octet)
            || *in_query && delimiters == QueryDelimiters::Decoded && matches!(octet, b'/' | b'?');
        if decode {
            out.push(char::from(octet));
        } else {
            escape(octet, out);
        }
        return &text[3..];
    }
    let octet = text[0];
    *in_query |= octet == b'?';
    if is_raw(octet) {
        out.push(char::from(octet));
    } else {
        escape(octet, out);
    }
    &text[1..]
}

fn escape(octet: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(octet >> 4)]));
    out.push(char::from(DIGITS[usize::from(octet & 15)]));
}

/// Whether every spelling of the path is the path itself: the common case,
/// which costs no allocation.
fn is_plain(path: &[u8]) -> bool {
    path.iter().all(|&octet| is_raw(octet))
}

/// Octets that mean the same whether they are escaped or not: all of RFC 3986
/// but the dividers, the special characters of patterns, and `#`, which never
/// is part of a request.
fn is_data(octet: u8) -> bool {
    is_unreserved(octet)
        || matches!(
            octet,
            b':' | b'@' | b'[' | b']' | b'!' | b'\'' | b'(' | b')' | b'+' | b',' | b';'
        )
}

/// Octets that are not escaped where they stand unescaped.
fn is_raw(octet: u8) -> bool {
    is_data(octet) || matches!(octet, b'/' | b'?' | b'&' | b'=')
}
