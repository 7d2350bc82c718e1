//! The canonical form of a URL: one spelling for each page, the same on every peer.
//!
//! A link comes in as text or as a parsed `Url`. [`CanonicalForm`] refuses what
//! can never be fetched, brings the rest to its one spelling and hands out a
//! [`CanonicalUrl`], the only form in which URLs are queued, stored, compared
//! and sent. A URL that is canonical already, as most are, is recognised in
//! one look over its bytes and keeps its own string.
//!
//! `host` checks host names, `escapes` spells percent-escapes,
//! `session_ids` knows which parameters name a visit and not a page, and
//! `canonical_url` is the result with its parts. The rules and a table of
//! examples, which the tests check row by row, are in `docs/canonical-form.md`.

mod canonical_url;
pub(crate) mod escapes;
mod host;
mod session_ids;
#[cfg(test)]
mod tests;

use url::Url;

pub use canonical_url::CanonicalUrl;
pub use session_ids::DEFAULT_SESSION_IDS;
use session_ids::SessionIds;

/// The longest canonical URL that is handled at all. What a crawl takes for a trap is
/// its own affair, and shorter (`crawl.max_url_bytes`).
pub const URL_LIMIT_BYTES: usize = 16_384;

/// The longest text that is looked at. It is longer than the limit above
/// because tracking parameters may go, and bounded because a page may hold
/// megabytes in one attribute.
pub const TEXT_LIMIT_BYTES: usize = 4 * URL_LIMIT_BYTES;

/// The version of these rules. Raise it with every change that gives any URL
/// another canonical form: peers compare it when they meet.
const RULES_VERSION: u64 = 1;

/// Why a text is not the URL of anything that could be crawled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not an absolute URL.
    #[error("this is not an absolute URL: {0}")]
    NotAUrl(url::ParseError),
    /// Neither `http` nor `https`.
    #[error("only http and https URLs can be crawled")]
    Scheme,
    /// The host is missing, or no host can have that name.
    #[error("the URL's host is missing or is not a valid host name")]
    Host,
    /// Longer than [`URL_LIMIT_BYTES`].
    #[error("the URL is longer than {URL_LIMIT_BYTES} bytes")]
    TooLong,
}

impl From<url::ParseError> for Refusal {
    fn from(error: url::ParseError) -> Self {
        use url::ParseError::*;
        match error {
            EmptyHost
            | IdnaError
            | InvalidIpv4Address
            | InvalidIpv6Address
            | InvalidDomainCharacter => Self::Host,
            Overflow => Self::TooLong,
            other => Self::NotAUrl(other),
        }
    }
}

/// The rules of the canonical form, with the configured list of session ids.
#[derive(Clone, Debug)]
pub struct CanonicalForm {
    session_ids: SessionIds,
}

impl CanonicalForm {
    /// Rules that remove the parameters with these names. A name may end in
    /// `*`, and its case does not matter.
    pub fn new(session_ids: &[String]) -> Self {
        Self {
            session_ids: SessionIds::new(session_ids),
        }
    }

    /// The canonical form of an absolute URL that comes from outside.
    pub fn parse(&self, text: &str) -> Result<CanonicalUrl, Refusal> {
        if text.len() > TEXT_LIMIT_BYTES {
            return Err(Refusal::TooLong);
        }
        self.of(Url::parse(text)?)
    }

    /// The canonical form of a parsed URL.
    pub fn of(&self, url: Url) -> Result<CanonicalUrl, Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme);
        }
        let host = url.host_str().ok_or(Refusal::Host)?;
        let host_name = host::without_final_dot(host);
        if !host::is_valid(host_name) {
            return Err(Refusal::Host);
        }
        let as_is = host_name.len() == host.len()
            && url.username().is_empty()
            && url.password().is_none()
            && !escapes::need_change(url.path())
            && !self.session_ids.occur_in_path(url.path())
            && url.query().is_none_or(|query| {
                !escapes::need_change(query) && !self.session_ids.occur_in_query(query)
            });
        let text = if as_is {
            let end = match (url.query(), url.fragment()) {
                (Some(""), _) => url[..url::Position::AfterPath].len(),
                (_, Some(_)) => url[..url::Position::AfterQuery].len(),
                _ => url.as_str().len(),
            };
            let mut text = String::from(url);
            text.truncate(end);
            text
        } else {
            self.respell(&url, host_name)?
        };
        CanonicalUrl::from_canonical_text(text)
    }

    fn respell(&self, url: &Url, host_name: &str) -> Result<String, Refusal> {
        let mut text = String::with_capacity(url.as_str().len());
        text.push_str(url.scheme());
        text.push_str("://");
        text.push_str(host_name);
        if let Some(port) = url.port() {
            text.push(':');
            text.push_str(&port.to_string());
        }
        // Escapes first: the name of a session id may be hidden behind them.
        let path = escapes::normalise(url.path());
        let had_ids = self.session_ids.occur_in_path(&path);
        if had_ids {
            self.session_ids.remove_from_path(&path, &mut text);
        } else {
            text.push_str(&path);
        }
        if let Some(query) = url.query() {
            let query = escapes::normalise(query);
            let before = text.len();
            text.push('?');
            self.session_ids.remove_from_query(&query, &mut text);
            if text.len() == before + 1 {
                text.truncate(before);
            }
        }
        if had_ids {
            // `/a/..;jsessionid=1/b` has become `/a/../b`.
            text = Url::parse(&text)?.into();
        }
        Ok(text)
    }

    /// A number that differs between peers whose canonical forms may differ.
    pub fn rules_fingerprint(&self) -> u64 {
        self.session_ids.hash(RULES_VERSION)
    }
}

impl Default for CanonicalForm {
    /// The rules with [`DEFAULT_SESSION_IDS`].
    fn default() -> Self {
        Self {
            session_ids: SessionIds::new(DEFAULT_SESSION_IDS),
        }
    }
}
