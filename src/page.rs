//! A page on its way from the downloader to the extractor.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::clock::Millis;
use crate::crawl_jobs::Unfinished;
use crate::fingerprint::ContentFingerprint;
use crate::ledger::Capture;
use crate::record::UrlRecord;

/// A page that was fetched, decoded and fingerprinted.
pub struct Page {
    /// Where it comes from.
    pub record: UrlRecord,
    /// Its body, transfer and content encodings undone.
    pub body: Vec<u8>,
    /// The `Content-Type` header, as sent.
    pub content_type: Option<String>,
    /// Whether links may be read out of it: it is HTML, and nobody forbade it.
    pub has_links: bool,
    /// The fingerprint of its body.
    pub fingerprint: ContentFingerprint,
    /// When it was fetched.
    pub fetched_ms: Millis,
    /// The exchange that brought it, if it is to be archived.
    pub capture: Option<Capture>,
    /// Keeps the crawl from ending before this page is done with.
    pub unfinished: Unfinished,
    /// Its share of the memory that waiting pages may hold.
    pub room: Room,
}

/// The memory that waiting pages, or records of them, may hold together.
pub struct PageRoom {
    most_bytes: usize,
    used_bytes: Mutex<usize>,
    freed: Condvar,
}

/// A share of it, given back when dropped.
pub struct Room {
    all: Arc<PageRoom>,
    bytes: usize,
}

impl PageRoom {
    /// Room for so many bytes.
    pub fn new(most_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            most_bytes,
            used_bytes: Mutex::new(0),
            freed: Condvar::new(),
        })
    }

    /// Waits until there is room for so many bytes. What is larger than all of it gets
    /// all of it, once it is free: a page that was allowed in must not wait for ever.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Room {
        let bytes = bytes.min(self.most_bytes);
        let mut used = self.used_bytes.lock();
        while *used + bytes > self.most_bytes {
            self.freed.wait(&mut used);
        }
        *used += bytes;
        Room {
            all: self.clone(),
            bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.all.used_bytes.lock() -= self.bytes;
        self.all.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_and_waited_for() {
        let room = PageRoom::new(100);
        let first = room.take(60);
        let waiter = {
            let room = room.clone();
            std::thread::spawn(move || drop(room.take(1_000)))
        };
        drop(room.take(40));
        drop(first);
        waiter.join().unwrap();
        assert_eq!(*room.used_bytes.lock(), 0);
    }
}
