//! A URL in canonical form, and its parts.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Refusal, URL_LIMIT_BYTES, host};

/// A URL in canonical form. It is made by [`CanonicalForm`](super::CanonicalForm)
/// alone, or read back from what another peer or an earlier run wrote. Then only
/// its shape is checked: whoever must not trust the writer parses it again.
#[derive(Clone)]
pub struct CanonicalUrl {
    text: String,
    // Positions fit because the length is limited.
    host_end: u16,
    path_start: u16,
    port: u16,
}

impl CanonicalUrl {
    /// Finds the parts of a text that is canonical, or refuses it.
    pub(super) fn from_canonical_text(text: String) -> Result<Self, Refusal> {
        if text.len() > URL_LIMIT_BYTES {
            return Err(Refusal::TooLong);
        }
        let (host_start, default_port) = scheme_of(&text).ok_or(Refusal::Scheme)?;
        let path_start = memchr::memchr(b'/', &text.as_bytes()[host_start..])
            .map(|at| host_start + at)
            .ok_or(Refusal::Host)?;
        let authority = &text[host_start..path_start];
        // The colons of an IPv6 address are inside its brackets.
        let after_address = authority.find(']').unwrap_or(0);
        let (host, port) = match authority[after_address..].find(':') {
            None => (authority, default_port),
            Some(at) => {
                let (host, port) = authority.split_at(after_address + at);
                (host, explicit_port(&port[1..], default_port)?)
            }
        };
        if !host::is_valid(host) {
            return Err(Refusal::Host);
        }
        let host_end = host_start + host.len();
        Ok(Self {
            host_end: host_end as u16,
            path_start: path_start as u16,
            port,
            text,
        })
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The whole URL, to keep.
    pub fn into_string(self) -> String {
        self.text
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.is_https() { "https" } else { "http" }
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.text.as_bytes()[4] == b's'
    }

    /// The host's name or address; an IPv6 address has its brackets.
    pub fn host(&self) -> &str {
        let start = if self.is_https() { 8 } else { 7 };
        &self.text[start..self.host_end.into()]
    }

    /// The port, also where it is the scheme's own.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Scheme, host and port, such as `http://example.com:81`: what robots rules
    /// and connections belong to.
    pub fn origin(&self) -> &str {
        &self.text[..self.path_start.into()]
    }

    /// What a request line asks for; it starts with `/`.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.path_start.into()..]
    }
}

/// Where the host starts, and the scheme's port.
fn scheme_of(text: &str) -> Option<(usize, u16)> {
    if text.starts_with("http://") {
        Some((7, 80))
    } else if text.starts_with("https://") {
        Some((8, 443))
    } else {
        None
    }
}

/// A port as a canonical URL spells it: digits without a leading zero, and not
/// the default.
fn explicit_port(digits: &str, default_port: u16) -> Result<u16, Refusal> {
    let invalid = Refusal::NotAUrl(url::ParseError::InvalidPort);
    let plain = digits == "0" || digits.starts_with(|first: char| matches!(first, '1'..='9'));
    match digits.parse() {
        Ok(port) if plain && port != default_port => Ok(port),
        _ => Err(invalid),
    }
}

impl fmt::Display for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CanonicalUrl({})", self.text)
    }
}

// The positions follow from the text.
impl PartialEq for CanonicalUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CanonicalUrl {}

impl Hash for CanonicalUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for CanonicalUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for CanonicalUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // A request is made of this text: no byte of it may end a line or a
        // word in HTTP, and none may start a fragment.
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
        {
            return Err(serde::de::Error::custom("a URL with forbidden characters"));
        }
        Self::from_canonical_text(text).map_err(serde::de::Error::custom)
    }
}
