//! The index beside each file: CDXJ, one line for each response and revisit.
//!
//! A line is a sort key (the host's labels in reverse, then the path), a timestamp and
//! a JSON object. The key is made the way that replay tools make theirs, so it is not
//! exact: letter case, a leading `www.` and the order of a query are lost in it. The
//! object has the URL as it is.

use serde::{Deserialize, Serialize};
use url::{Host, Url};

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

/// `com,example)/path?query` for `http://www.example.com/Path?Query`.
pub(super) fn sort_key(url: &str) -> String {
    let Ok(parsed) = Url::parse(url) else {
        // It still needs one word to be sorted by.
        return url
            .split_whitespace()
            .collect::<Vec<_>>()
            .join("%20")
            .to_ascii_lowercase();
    };
    let mut key = match parsed.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_prefix("www.").unwrap_or(name);
            name.rsplit('.').collect::<Vec<_>>().join(",")
        }
        Some(address) => address.to_string(),
        None => String::new(),
    };
    if let Some(port) = parsed.port() {
        key.push_str(&format!(":{port}"));
    }
    key.push(')');
    key.push_str(parsed.path());
    if let Some(query) = parsed.query() {
        let mut parts: Vec<&str> = query.split('&').collect();
        parts.sort_unstable();
        key.push('?');
        key.push_str(&parts.join("&"));
    }
    key.make_ascii_lowercase();
    key
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
        for (url, key) in [
            (
                "http://www.Example.com/A/b?z=1&a=2",
                "com,example)/a/b?a=2&z=1",
            ),
            ("https://a.b.example.co.uk/", "uk,co,example,b,a)/"),
            ("http://127.0.0.1:8080/x", "127.0.0.1:8080)/x"),
            ("http://[::1]/", "[::1])/"),
            ("http://example.com:80/", "com,example)/"),
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
