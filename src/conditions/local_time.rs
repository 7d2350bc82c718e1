//! The volunteer's own clock: what it is ahead of UTC, and where it stands in the week.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::clock::Millis;

/// What the clock of this computer is ahead of UTC at a point in time, in minutes.
pub fn utc_offset_minutes(now_ms: Millis) -> i32 {
    let time = i64::try_from(now_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let Some(time) = time else {
        return 0;
    };
    TimeZone::system().to_offset(time).seconds() / 60
}

/// Minutes since Monday began, for a clock that is ahead of UTC by so much.
pub fn minute_of_week(now_ms: Millis, utc_offset_minutes: i32) -> u32 {
    const WEEK: i64 = 7 * 24 * 60;
    // The first of January 1970 was a Thursday.
    const FIRST: i64 = 3 * 24 * 60;
    let minutes = (now_ms / 60_000) as i64 + i64::from(utc_offset_minutes) + FIRST;
    minutes.rem_euclid(WEEK) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_week_begins_on_monday_at_midnight_of_the_place() {
        // Monday, 16 November 2026, 00:00 UTC.
        let monday_ms = 1_794_787_200_000;
        assert_eq!(minute_of_week(monday_ms, 0), 0);
        assert_eq!(minute_of_week(monday_ms - 1, 0), 7 * 24 * 60 - 1);
        assert_eq!(minute_of_week(monday_ms, 60), 60);
        assert_eq!(minute_of_week(monday_ms, -60), 7 * 24 * 60 - 60);
        assert_eq!(minute_of_week(0, 0), 3 * 24 * 60);
    }

    #[test]
    fn an_offset_is_one_that_exists() {
        let offset = utc_offset_minutes(1_794_787_200_000);
        assert!((-12 * 60..=14 * 60).contains(&offset), "{offset}");
        assert_eq!(utc_offset_minutes(u64::MAX), 0);
    }
}
