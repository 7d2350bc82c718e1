//! Faults of our own, kept small.
//!
//! What strangers send finds the faults that our tests have not. Threads that work on it
//! do so shielded: a panic costs the page, the site or the message at hand, is logged with
//! its name, and the thread goes on with the next one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does the work; `None` if it panicked, over what `what` names then. Whoever calls it
/// makes good what was left undone.
pub fn shielded<T>(what: impl FnOnce() -> String, work: impl FnOnce() -> T) -> Option<T> {
    // What threads share is behind locks that are let go on the way out, and is changed in
    // steps after each of which it is whole.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(panic) => {
            let (what, why) = (what(), message(&*panic));
            tracing::error!("a fault in PeerCrawl itself, over {what}: {why}");
            None
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it does not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_gives_nothing_and_says_why() {
        let page = || "a page".to_owned();
        assert_eq!(shielded(page, || 1), Some(1));
        assert_eq!(shielded(page, || -> u8 { panic!("so") }), None);
        assert_eq!(message(&"plain"), "plain");
        assert_eq!(message(&"put together".to_owned()), "put together");
        assert_eq!(message(&1), "it does not say why");
    }
}
