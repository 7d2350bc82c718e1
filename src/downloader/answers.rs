//! What becomes of an answer: a page goes on to blocks 6 to 8, a redirect becomes a new URL
//! that passes every check again, and everything else is an error, counted and archived.

use url::Url;

use super::connection::Connection;
use super::decode::{DecodeError, decode};
use super::fetch::{Answer, FetchError};
use super::tape::Recording;
use super::worker::{Downloader, PageFetch};
use crate::activity::{How, title_of};
use crate::archive::Truncated;
use crate::clock::Millis;
use crate::counters::ErrorKind;
use crate::crawl_jobs::CrawlJob;
use crate::fingerprint::ContentFingerprint;
use crate::ledger::{Capture, PageTotals};
use crate::page::Page;
use crate::record::UrlRecord;
use crate::reputation;
use crate::robots::RobotsTag;

impl Downloader {
    /// What was heard of a fetch, if it is to be archived and there was an answer.
    pub(super) fn capture(
        &self,
        connection: &Connection,
        at_ms: Millis,
        error: Option<&FetchError>,
    ) -> Option<Capture> {
        if !self.ledger.archives() {
            return None;
        }
        let (Recording { request, response }, address) = connection.tape.stop();
        if response.is_empty() {
            return None;
        }
        let mut capture = self.captures.capture(request, response, at_ms);
        capture.address = address;
        capture.truncated = error.map(truncated);
        Some(capture)
    }

    /// Archives an answer that is no page.
    pub(super) fn archive(&self, job: &CrawlJob, capture: Option<Capture>) {
        if let Some(mut capture) = capture {
            let url = job.record.url.as_str();
            self.ledger.archive(capture.records(url, None));
        }
    }

    pub(super) fn take_answer(
        &self,
        fetch: PageFetch,
        answer: Answer,
        mut capture: Option<Capture>,
    ) {
        let agent = &self.settings.politeness.agent;
        let tag = RobotsTag::from_headers(&answer.robots_tags, agent);
        if tag.noarchive {
            self.leave_out(&mut capture);
        }
        match answer.status {
            200..=299 => self.take_page(fetch, answer, tag, capture),
            300..=399 => {
                self.archive(&fetch.job, capture);
                self.follow(fetch, answer);
            }
            status => {
                self.note_treatment(&fetch, status, &answer.body);
                self.archive(&fetch.job, capture);
                let kind = status_kind(status);
                self.counters.error(kind).add(1);
                let (detail, bytes) = (|| status.to_string(), answer.body.len() as u64);
                fetch.watched.end(How::Failed(kind), detail, bytes);
            }
        }
    }

    /// An answer that asks not to be archived is not.
    fn leave_out(&self, capture: &mut Option<Capture>) {
        if capture.take().is_some() {
            self.counters.unarchived.add(1);
        }
    }

    /// Tells the reputation guard how a site has treated us.
    pub(super) fn note_treatment(&self, fetch: &PageFetch, status: u16, body: &[u8]) {
        let is_refusal = reputation::is_refusal(status, body);
        let host = fetch.job.record.url.host();
        self.reputation.answered(fetch.key, host, is_refusal);
    }

    /// A redirect: where it leads is a new URL, which passes every check again.
    fn follow(&self, fetch: PageFetch, answer: Answer) {
        let record = &fetch.job.record;
        let target = answer.location.and_then(|location| {
            let base = Url::parse(record.url.as_str()).ok()?;
            self.form.of(base.join(&location).ok()?).ok()
        });
        let Some(url) = target else {
            self.counters.error(ErrorKind::Other).add(1);
            let detail = || format!("{}: leads nowhere", answer.status);
            fetch.watched.end(How::Failed(ErrorKind::Other), detail, 0);
            return;
        };
        self.counters.redirects.add(1);
        let detail = || format!("{}: leads to {url}", answer.status);
        fetch.watched.end(How::Fetched, detail, 0);
        let target = UrlRecord {
            url,
            crawl: record.crawl,
            depth: record.depth,
            redirects: record.redirects.saturating_add(1),
            from: record.from.clone(),
        };
        self.range.route(&fetch.crawl, [target]);
    }

    fn take_page(
        &self,
        mut fetch: PageFetch,
        answer: Answer,
        tag: RobotsTag,
        mut capture: Option<Capture>,
    ) {
        let most = self.settings.network.max_body_bytes;
        let received = answer.body.len() as u64;
        let body = match decode(answer.body, answer.content_encoding.as_deref(), most) {
            Ok(body) => body,
            Err(error) => {
                tracing::debug!("{}: {error}", fetch.job.record.url);
                let kind = match error {
                    DecodeError::TooLarge(_) => ErrorKind::TooLarge,
                    _ => ErrorKind::Other,
                };
                self.counters.error(kind).add(1);
                let detail = || error.to_string();
                fetch.watched.end(How::Failed(kind), detail, received);
                self.archive(&fetch.job, capture);
                return;
            }
        };
        self.note_treatment(&fetch, answer.status, &body);
        let totals = PageTotals {
            pages: 1,
            bytes: received,
            ..PageTotals::default()
        };
        fetch.unfinished.count(fetch.job.record.crawl, totals);
        let detail = || answer.status.to_string();
        let title = || title_of(&body, answer.content_type.as_deref());
        fetch.watched.page(How::Fetched, detail, received, title);
        fetch.reservation.complete();
        self.counters.pages.add(1);
        self.counters.bytes.add(received);
        let is_html = is_html(answer.content_type.as_deref(), &body);
        if is_html
            && capture.is_some()
            && let Ok(url) = Url::parse(fetch.job.record.url.as_str())
            && self
                .robots_meta
                .of(&body, answer.content_type.as_deref(), &url)
                .noarchive
        {
            self.leave_out(&mut capture);
        }
        let page = Page {
            has_links: is_html && !tag.nofollow,
            fingerprint: ContentFingerprint::of(&body),
            content_type: answer.content_type,
            // The date of its record, by which a revisit finds it.
            fetched_ms: capture
                .as_ref()
                .map_or_else(|| self.clock.now_ms(), Capture::at_ms),
            room: self
                .room
                .take(body.len() + capture.as_ref().map_or(0, Capture::len)),
            capture,
            record: fetch.job.record,
            unfinished: fetch.unfinished,
            body,
        };
        self.duplication.decide(page);
    }
}

/// Why what was heard is not all.
fn truncated(error: &FetchError) -> Truncated {
    match error {
        FetchError::Failed(ErrorKind::TooLarge, _) => Truncated::Length,
        FetchError::Failed(ErrorKind::Timeout, _) => Truncated::Time,
        // `ureq` keeps its protocol errors to itself: they are known by their first word.
        FetchError::Failed(ErrorKind::Other, why) if why.starts_with("protocol:") => {
            Truncated::Unspecified
        }
        FetchError::Failed(ErrorKind::Other | ErrorKind::Tls, _) => Truncated::Disconnect,
        _ => Truncated::Unspecified,
    }
}

/// The kind of error that a status is.
pub(super) fn status_kind(status: u16) -> ErrorKind {
    match status {
        400..=499 => ErrorKind::Http4xx,
        500..=599 => ErrorKind::Http5xx,
        _ => ErrorKind::Other,
    }
}

/// Whether a body is HTML: by its header or, without one, by its first character.
fn is_html(content_type: Option<&str>, body: &[u8]) -> bool {
    match content_type {
        Some(value) => {
            let kind = value.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("text/html")
                || kind.eq_ignore_ascii_case("application/xhtml+xml")
        }
        None => {
            let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
            text.trim_ascii_start().first() == Some(&b'<')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer that was no HTTP was once said to have broken off.
    #[test]
    fn only_a_connection_that_broke_is_said_to_have_broken() {
        let failed = |kind, why: &str| truncated(&FetchError::Failed(kind, why.to_owned()));
        let broken = "the server broke off the connection: reset";
        assert_eq!(failed(ErrorKind::Other, broken), Truncated::Disconnect);
        let eof = ureq::Error::Io(std::io::ErrorKind::UnexpectedEof.into()).to_string();
        assert_eq!(failed(ErrorKind::Other, &eof), Truncated::Disconnect);
        let chunk = "protocol: chunk length is not ascii";
        assert_eq!(failed(ErrorKind::Other, chunk), Truncated::Unspecified);
        assert_eq!(failed(ErrorKind::ContentType, ""), Truncated::Unspecified);
        assert_eq!(failed(ErrorKind::TooLarge, ""), Truncated::Length);
        assert_eq!(failed(ErrorKind::Timeout, ""), Truncated::Time);
        assert_eq!(truncated(&FetchError::CutOff), Truncated::Unspecified);
    }

    #[test]
    fn html_is_known_by_its_header_or_else_by_its_looks() {
        assert!(is_html(Some("text/html"), b""));
        assert!(is_html(Some(" Text/HTML ; charset=x"), b""));
        assert!(is_html(Some("application/xhtml+xml"), b""));
        assert!(!is_html(Some("text/plain"), b"<html>"));
        assert!(!is_html(Some(""), b"<html>"));
        assert!(is_html(None, b"\xef\xbb\xbf \n<!doctype html>"));
        assert!(!is_html(None, b"%PDF-1.4"));
    }
}
