//! Whether a site can work off one more URL.
//!
//! The rate at which URLs come in is held to the rate at which the host lets itself
//! be asked: a queue that would take longer than the horizon to work off takes no
//! more, and neither does one that holds as many URLs as a site may.

use crate::config;

const MS_PER_HOUR: u64 = 60 * 60 * 1_000;

/// Whether a site with so many URLs queued, and so long a delay after each, may take
/// one more.
pub fn has_room(queued: usize, delay_ms: u64, settings: &config::Queues) -> bool {
    let horizon_ms = settings.horizon_hours * MS_PER_HOUR;
    // A host without delay works off as much as it may hold.
    let workable = horizon_ms.checked_div(delay_ms).unwrap_or(u64::MAX).max(1);
    (queued as u64) < workable.min(settings.site_urls as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_host_queues_less() {
        let settings = config::Queues {
            site_urls: 10_000,
            horizon_hours: 1,
            ..Default::default()
        };
        assert!(has_room(9_999, 0, &settings));
        assert!(!has_room(10_000, 0, &settings));
        assert!(has_room(3_599, 1_000, &settings));
        assert!(!has_room(3_600, 1_000, &settings));
        assert!(has_room(0, u64::MAX, &settings), "one is always workable");
    }
}
