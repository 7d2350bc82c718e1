//! How much may be sent: a bucket that fills at a steady rate.

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct TrafficLimit {
    bytes_per_sec: Option<u64>,
    /// Bytes that may be sent now; below zero, the last message is still being paid for.
    left_bytes: i64,
    filled_ms: u64,
}

impl TrafficLimit {
    /// A full bucket; `None` never runs dry.
    pub fn new(bytes_per_sec: Option<u64>) -> Self {
        Self {
            bytes_per_sec,
            left_bytes: bytes_per_sec.unwrap_or(0) as i64,
            filled_ms: 0,
        }
    }

    /// Takes a message out of the bucket; tells whether it may be sent. Any message may
    /// go that finds something left, so that one larger than the bucket is not
    /// stuck forever.
    pub fn takes(&mut self, bytes: usize, now_ms: u64) -> bool {
        let Some(rate) = self.bytes_per_sec else {
            return true;
        };
        let passed_ms = now_ms.saturating_sub(self.filled_ms).min(1_000_000);
        let gained = (rate.saturating_mul(passed_ms) / 1_000) as i64;
        if gained > 0 {
            self.left_bytes = self.left_bytes.saturating_add(gained).min(rate as i64);
            self.filled_ms = now_ms;
        }
        let may_go = self.left_bytes > 0;
        if may_go {
            self.left_bytes -= bytes as i64;
        }
        may_go
    }

    /// What must be sent in any case is paid for all the same.
    pub fn pays(&mut self, bytes: usize) {
        if self.bytes_per_sec.is_some() {
            self.left_bytes = self.left_bytes.saturating_sub(bytes as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_time_no_more_is_sent_than_allowed() {
        let mut limit = TrafficLimit::new(Some(10_000));
        let sent = (0..60_000).filter(|&ms| limit.takes(700, ms)).count() * 700;
        assert!((600_000..=611_000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_large_message_goes_and_is_paid_for() {
        let mut limit = TrafficLimit::new(Some(1_000));
        assert!(limit.takes(5_000, 0));
        assert!(!limit.takes(1, 3_999));
        assert!(limit.takes(1, 4_001));
        assert!(TrafficLimit::new(None).takes(usize::MAX, 0));
    }
}
