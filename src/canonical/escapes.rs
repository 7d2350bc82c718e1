//! The one spelling of percent-escapes: upper-case digits, and none for the
//! characters that never need one (RFC 3986 §6.2.2).
//!
//! Escapes are decoded once: `%2541` is a percent sign and `41`, and stays. A
//! stray `%`, which the URL standard leaves alone, must not form an escape with
//! what is decoded behind it: `%%34%31` would become `%41`, and that would
//! become `A` the next time. There the escape stays an escape.

/// Whether [`normalise`] would change the text.
pub(super) fn need_change(text: &str) -> bool {
    let mut rest = text.as_bytes();
    let mut stray = Stray::default();
    while let Some(at) = memchr::memchr(b'%', rest) {
        stray.pass(&rest[..at]);
        rest = &rest[at..];
        match escaped_octet(rest) {
            Some(octet) => {
                let lower = rest[1].is_ascii_lowercase() || rest[2].is_ascii_lowercase();
                if lower || is_unreserved(octet) && !stray.would_join(octet) {
                    return true;
                }
                stray = Stray::default();
                rest = &rest[3..];
            }
            None => {
                stray = Stray::Percent;
                rest = &rest[1..];
            }
        }
    }
    false
}

/// The text with its escapes in normal form.
pub(super) fn normalise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut stray = Stray::default();
    while let Some((before, _)) = rest.split_once('%') {
        out.push_str(before);
        stray.pass(before.as_bytes());
        rest = &rest[before.len()..];
        match escaped_octet(rest.as_bytes()) {
            Some(octet) if is_unreserved(octet) && !stray.would_join(octet) => {
                out.push(char::from(octet));
                stray.pass(&[octet]);
                rest = &rest[3..];
            }
            Some(_) => {
                out.push_str(&rest[..3].to_ascii_uppercase());
                stray = Stray::default();
                rest = &rest[3..];
            }
            None => {
                out.push('%');
                stray = Stray::Percent;
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// How the text written so far ends, as far as a stray `%` is concerned.
#[derive(Default)]
enum Stray {
    #[default]
    No,
    Percent,
    PercentAndDigit,
}

impl Stray {
    /// Takes note of characters written as they are.
    fn pass(&mut self, written: &[u8]) {
        *self = match (&self, written) {
            (_, []) => return,
            (Self::Percent, [digit]) if digit.is_ascii_hexdigit() => Self::PercentAndDigit,
            _ => Self::No,
        };
    }

    /// Whether the octet, written raw, could become part of an escape.
    fn would_join(&self, octet: u8) -> bool {
        octet.is_ascii_hexdigit() && !matches!(self, Self::No)
    }
}

/// The octet of the escape that the text starts with.
pub(crate) fn escaped_octet(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let high = char::from(*high).to_digit(16)?;
    let low = char::from(*low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

/// Characters that mean the same whether they are escaped or not.
pub(crate) fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}
