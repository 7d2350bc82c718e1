//! One line of a block list: which hosts it means.

use url::{Host, Url};

/// Hosts that are meant by one entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// A host and every host under it: `example.org`, or an address.
    Domain(Box<str>),
    /// The hosts under it alone: `*.example.org`.
    Under(Box<str>),
    /// This host alone: `=example.org`.
    Only(Box<str>),
    /// A name with stars, each of which stands for anything: `ads*.example.*`.
    Glob(Box<str>),
}

/// Why a line is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host name, address or pattern of them")]
pub struct NoPattern(pub String);

impl Pattern {
    /// Reads an entry. People paste what they have: case does not matter, names may be
    /// written with any letters, and of a web address the host counts.
    pub fn parse(text: &str) -> Result<Self, NoPattern> {
        let refuse = || NoPattern(text.chars().take(100).collect());
        let text = text.trim().trim_end_matches('.');
        if let Some(name) = text.strip_prefix('=') {
            return Ok(Self::Only(host(name).ok_or_else(refuse)?));
        }
        if let Some(name) = text.strip_prefix("*.")
            && !name.contains('*')
        {
            return Ok(Self::Under(host(name).ok_or_else(refuse)?));
        }
        if text.contains('*') {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '.' | '-' | '_');
            // Stars alone would block the whole web, which is what pausing is for.
            let names_something = text.contains(|c: char| c.is_ascii_alphanumeric());
            return match text.len() <= 253 && names_something && text.chars().all(fits) {
                true => Ok(Self::Glob(text.to_ascii_lowercase().into())),
                false => Err(refuse()),
            };
        }
        let name = match Url::parse(text) {
            Ok(url) if text.contains("://") => url.host_str().and_then(host),
            _ => host(text),
        };
        name.map(Self::Domain).ok_or_else(refuse)
    }
}

/// A host as canonical URLs spell it.
fn host(name: &str) -> Option<Box<str>> {
    let host = Host::parse(name)
        .or_else(|error| match name.parse() {
            Ok(address) => Ok(Host::Ipv6(address)),
            Err(_) => Err(error),
        })
        .ok()?;
    let spelled = host.to_string();
    let spelled = spelled.trim_end_matches('.');
    (!spelled.is_empty()).then(|| spelled.into())
}

/// Whether a name is what a pattern with stars means. Each part between two stars is
/// looked for where the one before ended, so the cost is linear.
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
