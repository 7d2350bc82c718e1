//! `Retry-After`, in both of its forms.

use std::time::{Duration, UNIX_EPOCH};

use crate::clock::Millis;

/// How long a server asks to wait: so many seconds, or until a date.
pub fn retry_after(value: &str, now_ms: Millis) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a number holds still mean "very long".
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let now = UNIX_EPOCH + Duration::from_millis(now_ms);
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_nonsense() {
        let second = |n| Some(Duration::from_secs(n));
        assert_eq!(retry_after("120", 0), second(120));
        assert_eq!(retry_after(" 0 ", 0), second(0));
        assert_eq!(retry_after("99999999999999999999999", 0), second(u64::MAX));
        assert_eq!(
            retry_after("Thu, 01 Jan 1970 00:01:30 GMT", 30_000),
            second(60)
        );
        assert_eq!(
            retry_after("Thu, 01 Jan 1970 00:00:00 GMT", 30_000),
            second(0),
            "past"
        );
        for nonsense in ["", "-1", "1.5", "soon", "12s"] {
            assert_eq!(retry_after(nonsense, 0), None, "{nonsense}");
        }
    }
}
