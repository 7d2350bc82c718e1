//! The index beside each file: CDXJ, one line for each response and revisit.
//!
//! A line is a sort key (the host's labels in reverse, then the path), a timestamp and
//! a JSON object. The key is the one that replay tools look a URL up by, which the Python
//! package `surt` makes for them (`.ci/warcio-check` compares). It is not exact: letter
//! case, a leading `www.`, a slash at the end and the order of a query are lost in it.
//! The object has the URL as it is.
//!
//! Earlier versions made keys that differ. Nothing of ours relies on keys, so those
//! indexes are as good as any here; one that is deleted is made again at the next start.

use serde::{Deserialize, Serialize};
use url::Url;

use super::digest::Digest;

/// A line that lacks only what the writer knows: its file and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub key: String,
    pub timestamp: String,
    pub url: Box<str>,
    pub media_type: Box<str>,
    pub status: Box<str>,
    pub digest: Digest,
    /// Where its member begins; counted from the first of the prepared records.
    pub offset: u64,
    /// The length of its member.
    pub bytes: u64,
}

/// One stored response or revisit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `20261116043626`.
    #[serde(skip)]
    pub timestamp: String,
    /// The URL as it was asked for.
    pub url: String,
    /// Its media type, or `warc/revisit`.
    #[serde(rename = "mime")]
    pub media_type: String,
    /// The status of the answer.
    pub status: String,
    /// The digest of its payload.
    pub digest: String,
    /// The length of its gzip member, in bytes.
    #[serde(with = "as_text")]
    pub length: u64,
    /// Where it begins in its file.
    #[serde(with = "as_text")]
    pub offset: u64,
    /// The file that it is in, as it is called once complete.
    pub filename: String,
}

/// Numbers are written as text: that is what the readers of CDXJ expect.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl Pending {
    /// What the line may take at most, wherever it stands.
    pub(super) fn most_bytes(&self) -> usize {
        // Escapes may double the URL; names, numbers and a digest are the rest.
        self.key.len() + 2 * self.url.len() + self.media_type.len() + 320
    }

    /// The whole line, with its line feed, for a member at `offset` of the file.
    pub(super) fn line(self, filename: &str, offset: u64) -> String {
        let entry = Entry {
            timestamp: self.timestamp,
            url: self.url.into(),
            media_type: self.media_type.into(),
            status: self.status.into(),
            digest: self.digest.to_string(),
            length: self.bytes,
            offset,
            filename: filename.to_owned(),
        };
        // Text and numbers always have a JSON form.
        let json = serde_json::to_string(&entry).unwrap_or_default();
        format!("{} {} {json}\n", self.key, entry.timestamp)
    }
}

impl Entry {
    /// The entry of a line, without its line feed.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once(' ')?;
        let (timestamp, json) = rest.split_once(' ')?;
        let mut entry: Self = serde_json::from_str(json).ok()?;
        entry.timestamp = timestamp.to_owned();
        Some(entry)
    }

    /// Whether it only refers to an earlier record.
    pub fn is_revisit(&self) -> bool {
        self.media_type == "warc/revisit"
    }
}

/// `com,example)/path?query` for `http://www.example.com/Path/?Query`. Tools leave session
/// ids out besides; a canonical URL has hardly any.
pub(super) fn sort_key(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else {
        // It still needs one word to be sorted by.
        return url
            .split_whitespace()
            .collect::<Vec<_>>()
            .join("%20")
            .to_ascii_lowercase();
    };
    // Addresses are reversed like names; the colons of IPv6 are no dots.
    let host = parsed.host_str().unwrap_or_default();
    let host = without_www(host.trim_matches(['[', ']', '.']));
    let mut key = host.rsplit('.').collect::<Vec<_>>().join(",");
    if let Some(port) = parsed.port() {
        key.push_str(&format!(":{port}"));
    }
    key.push_str(")/");
    key.push_str(&path_key(&unescaped(parsed.path())));
    if let Some(query) = parsed.query().filter(|query| !query.is_empty()) {
        let query = escaped(&unescaped(query));
        let mut parts: Vec<&str> = query.split('&').collect();
        // By the name first: `a=1` comes before `a-b=1`.
        parts.sort_by_key(|part| match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (*part, None),
        });
        key.push('?');
        key.push_str(&parts.join("&"));
    }
    key
}

/// A host without a first label such as `www` or `www2`.
fn without_www(host: &str) -> &str {
    let rest = host
        .strip_prefix("www")
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.and_then(|rest| rest.strip_prefix('.')).unwrap_or(host)
}

/// The segments of a path, without empty ones. Dots and slashes may have been hidden by
/// escapes, so that they count only now.
fn path_key(path: &[u8]) -> String {
    let mut segments = Vec::new();
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match segment {
            b"." => {}
            b".." if segments.pop().is_some() => {}
            _ => segments.push(segment),
        }
    }
    segments.retain(|segment| !segment.is_empty());
    escaped(&segments.join(&b'/'))
}

/// The bytes that escapes stand for, also where what was escaped is an escape.
fn unescaped(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        bytes.push(byte);
        while let [.., b'%', high, low] = bytes[..]
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            bytes.truncate(bytes.len() - 3);
            bytes.push((high << 4 | low) as u8);
        }
    }
    bytes
}

/// Those bytes as text in small letters: escaped where they are no visible ASCII, or
/// would end the path or look like an escape.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'#' | b'%' | ..=b' ' | 0x7f.. => text.push_str(&format!("%{byte:02x}")),
            _ => text.push(char::from(byte.to_ascii_lowercase())),
        }
    }
    text
}

/// The lines in order; a last one that is cut off is dropped.
pub(super) fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text
        .split_inclusive('\n')
        .filter(|l| l.ends_with('\n'))
        .collect();
    lines.sort_unstable();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_replay_tools() {
        // Every row but the last is what `surt` 0.3.1 says.
        for (url, key) in [
            (
                "http://www.Example.com/A/b?z=1&a=2",
                "com,example)/a/b?a=2&z=1",
            ),
            ("https://a.b.example.co.uk/", "uk,co,example,b,a)/"),
            ("http://127.0.0.1:8080/x", "1,0,0,127:8080)/x"),
            ("http://[::1]/", "::1)/"),
            ("http://[::1]:8080/a/", "::1:8080)/a"),
            ("http://example.com:80/", "com,example)/"),
            ("http://a.com:443/", "com,a:443)/"),
            ("http://www2.example.com/a/", "com,example)/a"),
            ("http://www-1.a.com", "com,a,www-1)/"),
            ("http://www1.www2.a.com/", "com,a,www2)/"),
            ("http://a.com./x", "com,a)/x"),
            ("http://a.com//x//y///", "com,a)/x/y"),
            ("http://a.com/a/%2e", "com,a)/a"),
            ("http://a.com/..%2f..%2fx", "com,a)/x"),
            ("http://a.com/?", "com,a)/"),
            ("http://a.com/a?", "com,a)/a"),
            ("http://a.com/?&", "com,a)/?&"),
            ("http://a.com/?a-b=2&a=1&a&=5", "com,a)/?=5&a&a=1&a-b=2"),
            ("http://a.com/?q=%26z%3D1", "com,a)/?q=&z=1"),
            ("http://a.com/?A=%C3%89", "com,a)/?a=%c3%89"),
            ("http://a.com/%C3%A9?x", "com,a)/%c3%a9?x"),
            ("http://a.com/%2541/b", "com,a)/a/b"),
            ("http://a.com/a%2Fb%20c/", "com,a)/a/b%20c"),
            ("http://a.com/x%23y?z%23", "com,a)/x%23y?z%23"),
            ("http://a.com/%zz%2", "com,a)/%25zz%252"),
            ("http://a.com/%00%7F%5c", "com,a)/%00%7f\\"),
            ("not a url", "not%20a%20url"),
        ] {
            assert_eq!(sort_key(url), key);
        }
    }

    #[test]
    fn lines_read_back_and_sort() {
        let pending = Pending {
            key: sort_key("http://example.com/\"q\""),
            timestamp: "20260101000000".into(),
            url: "http://example.com/\"q\"".into(),
            media_type: "text/html".into(),
            status: "200".into(),
            digest: Digest::of(b""),
            offset: 0,
            bytes: 77,
        };
        let line = pending.line("a.warc.gz", 5);
        let entry = Entry::parse(line.trim_end()).unwrap();
        assert_eq!((entry.offset, entry.length), (5, 77));
        assert_eq!(entry.url, "http://example.com/\"q\"");
        assert_eq!(entry.timestamp, "20260101000000");
        assert_eq!(sorted("b\na\nc"), "a\nb\n");
        assert_eq!(Entry::parse("a b {}"), None);
    }
}
