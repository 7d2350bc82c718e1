//! Parameters that name a visit and not a page: session ids and the marks of
//! advertisers. With them, one page has as many URLs as it has visitors.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Names that are practically always session or tracking ids. Short names that
/// often mean something else (`sid`, `id`, `session`, `ref`) are not here.
pub const DEFAULT_SESSION_IDS: &[&str] = &[
    "jsessionid",
    "phpsessid",
    "aspsessionid*",
    "asp.net_sessionid",
    "cfid",
    "cftoken",
    "oscsid",
    "zenid",
    "sessionid",
    "session_id",
    "utm_*",
    "gclid",
    "gbraid",
    "wbraid",
    "dclid",
    "fbclid",
    "msclkid",
    "yclid",
    "ttclid",
    "twclid",
    "igshid",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "_hsenc",
    "_hsmi",
];

/// The seed of the hash of the list: `PCids` and a version, in ASCII.
const HASH_SEED: u64 = u64::from_be_bytes(*b"PCids\0\0\x01");

/// The list, ready to be asked for every parameter of every URL.
#[derive(Clone, Debug)]
pub(super) struct SessionIds {
    /// Lower-case, sorted, without repetitions.
    names: Vec<Name>,
    /// For each byte, whether a name starts with it: most parameters are
    /// settled by this alone.
    starts: Box<[bool; 256]>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    text: Box<str>,
    is_prefix: bool,
}

impl Name {
    fn matches(&self, name: &[u8]) -> bool {
        let text = self.text.as_bytes();
        name.get(..text.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(text))
            && (self.is_prefix || name.len() == text.len())
    }
}

impl SessionIds {
    pub(super) fn new<S: AsRef<str>>(names: &[S]) -> Self {
        let mut names: Vec<Name> = names
            .iter()
            .map(|name| {
                let name = name.as_ref().trim().to_ascii_lowercase();
                let (text, is_prefix) = match name.strip_suffix('*') {
                    Some(prefix) => (prefix, true),
                    None => (name.as_str(), false),
                };
                Name {
                    text: text.into(),
                    is_prefix,
                }
            })
            // A bare `*` would remove every parameter: surely not what was meant.
            .filter(|name| !name.text.is_empty())
            .collect();
        names.sort();
        names.dedup();
        let mut starts = Box::new([false; 256]);
        for name in &names {
            let first = name.text.as_bytes()[0];
            starts[usize::from(first)] = true;
            starts[usize::from(first.to_ascii_uppercase())] = true;
        }
        Self { names, starts }
    }

    /// Whether a parameter, `name` or `name=value`, is a session id.
    fn contain(&self, parameter: &str) -> bool {
        let bytes = parameter.as_bytes();
        let Some(&first) = bytes.first() else {
            return false;
        };
        if !self.starts[usize::from(first)] {
            return false;
        }
        let end = memchr::memchr(b'=', bytes).unwrap_or(bytes.len());
        self.names.iter().any(|name| name.matches(&bytes[..end]))
    }

    /// Whether a query holds a session id.
    pub(super) fn occur_in_query(&self, query: &str) -> bool {
        query.split('&').any(|parameter| self.contain(parameter))
    }

    /// Whether a path holds a session id among its `;name=value` parameters.
    pub(super) fn occur_in_path(&self, path: &str) -> bool {
        memchr::memchr(b';', path.as_bytes()).is_some()
            && path.split('/').any(|segment| {
                let mut parameters = segment.split(';').skip(1);
                parameters.any(|parameter| self.contain(parameter))
            })
    }

    /// Appends the query without session ids to `out`.
    pub(super) fn remove_from_query(&self, query: &str, out: &mut String) {
        let kept = query
            .split('&')
            .filter(|parameter| !self.contain(parameter));
        for (n, parameter) in kept.enumerate() {
            if n > 0 {
                out.push('&');
            }
            out.push_str(parameter);
        }
    }

    /// Appends the path without session ids to `out`.
    pub(super) fn remove_from_path(&self, path: &str, out: &mut String) {
        for (n, segment) in path.split('/').enumerate() {
            if n > 0 {
                out.push('/');
            }
            for (m, part) in segment.split(';').enumerate() {
                if m == 0 {
                    out.push_str(part);
                } else if !self.contain(part) {
                    out.push(';');
                    out.push_str(part);
                }
            }
        }
    }

    /// A hash of the list and of the version of the rules around it. Neither
    /// the order nor the case of the names matters.
    pub(super) fn hash(&self, rules_version: u64) -> u64 {
        let mut text = rules_version.to_string();
        for name in &self.names {
            text.push('\n');
            text.push_str(&name.text);
            if name.is_prefix {
                text.push('*');
            }
        }
        xxh3_64_with_seed(text.as_bytes(), HASH_SEED)
    }
}
