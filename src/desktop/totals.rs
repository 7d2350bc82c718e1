//! What was done today, this month and ever, by the volunteer's own calendar.
//!
//! Pure: what the counters say and the time go in, sums come out. The counters begin
//! anew with every engine, which is told. What was granted and then given back makes them
//! go down for a moment; that counts for nothing.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use peercrawl_ui::model::{Total, Totals};
use serde::{Deserialize, Serialize};

/// What an engine has counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Pages fetched.
    pub pages: u64,
    /// Bytes received.
    pub download_bytes: u64,
    /// Bytes sent.
    pub upload_bytes: u64,
}

/// A sum as it is saved.
type Saved = (u64, u64, u64);

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// The day of `today`, as year, month and day.
    day: (i16, i8, i8),
    today: Saved,
    this_month: Saved,
    ever: Saved,
    /// The most that this engine's counters have said.
    #[serde(skip)]
    last: Count,
}

impl Sums {
    /// Takes in what the counters say at this time.
    pub fn count(&mut self, count: Count, now_ms: u64, utc_offset_minutes: i32) {
        let last = &mut self.last;
        let more = (
            raise(&mut last.pages, count.pages),
            raise(&mut last.download_bytes, count.download_bytes),
            raise(&mut last.upload_bytes, count.upload_bytes),
        );
        self.turn_to(date(now_ms, utc_offset_minutes));
        for sum in [&mut self.today, &mut self.this_month, &mut self.ever] {
            sum.0 += more.0;
            sum.1 += more.1;
            sum.2 += more.2;
        }
    }

    /// An engine begins: its counters are at zero.
    pub fn begin(&mut self) {
        self.last = Count::default();
    }

    /// Begins another day, and another month, if it is one.
    fn turn_to(&mut self, day: (i16, i8, i8)) {
        if (day.0, day.1) != (self.day.0, self.day.1) {
            self.this_month = Saved::default();
        }
        if day != self.day {
            self.today = Saved::default();
        }
        self.day = day;
    }

    /// The sums at this time, to be drawn. It may be days since anything was counted.
    pub fn totals(&self, now_ms: u64, utc_offset_minutes: i32) -> Totals {
        let mut now = *self;
        now.turn_to(date(now_ms, utc_offset_minutes));
        let total = |sum: Saved| Total {
            pages: sum.0,
            download_bytes: sum.1,
            upload_bytes: sum.2,
        };
        Totals {
            today: total(now.today),
            this_month: total(now.this_month),
            ever: total(now.ever),
        }
    }
}

/// Raises what a counter has said to what it says now, and tells by how much.
fn raise(last: &mut u64, now: u64) -> u64 {
    let more = now.saturating_sub(*last);
    *last += more;
    more
}

/// Year, month and day on a clock that is ahead of UTC by so much.
fn date(now_ms: u64, utc_offset_minutes: i32) -> (i16, i8, i8) {
    let local_ms = now_ms as i64 + i64::from(utc_offset_minutes) * 60_000;
    let time = Timestamp::from_millisecond(local_ms).unwrap_or_default();
    let date = time.to_zoned(TimeZone::UTC).date();
    (date.year(), date.month(), date.day())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 31 January 2026, 23:30 UTC.
    const LATE_MS: u64 = 1_769_902_200_000;

    fn pages(pages: u64) -> Count {
        Count {
            pages,
            ..Count::default()
        }
    }

    /// Pages of today, of this month and ever, at a time after [`LATE_MS`].
    fn sums(sums: &Sums, hours_later: u64, utc_offset_minutes: i32) -> (u64, u64, u64) {
        let now_ms = LATE_MS + hours_later * 3_600_000;
        let totals = sums.totals(now_ms, utc_offset_minutes);
        (
            totals.today.pages,
            totals.this_month.pages,
            totals.ever.pages,
        )
    }

    #[test]
    fn a_day_and_a_month_end_by_the_volunteers_own_clock() {
        let mut here = Sums::default();
        here.count(pages(5), LATE_MS, 0);
        assert_eq!(sums(&here, 0, 0), (5, 5, 5));
        here.count(pages(7), LATE_MS + 3_600_000, 0);
        assert_eq!(sums(&here, 1, 0), (2, 2, 7));
        // An hour further east the month has begun already.
        let mut east = Sums::default();
        east.count(pages(5), LATE_MS, 60);
        east.count(pages(7), LATE_MS + 3_600_000, 60);
        assert_eq!(sums(&east, 1, 60), (7, 7, 7));
        here.count(pages(9), LATE_MS + 48 * 3_600_000, 0);
        assert_eq!(sums(&here, 48, 0), (2, 4, 9));
    }

    /// While nothing ran, "Today" showed what was done yesterday.
    #[test]
    fn a_day_ends_also_if_nothing_is_counted_any_more() {
        let mut all = Sums::default();
        all.count(pages(5), LATE_MS - 24 * 3_600_000, 0);
        assert_eq!(sums(&all, 0, 0), (0, 5, 5));
        assert_eq!(sums(&all, 1, 0), (0, 0, 5));
    }

    #[test]
    fn a_new_engine_begins_at_zero_and_nothing_is_counted_twice() {
        let mut all = Sums::default();
        all.count(pages(5), LATE_MS, 0);
        all.begin();
        all.count(pages(3), LATE_MS, 0);
        assert_eq!(sums(&all, 0, 0).2, 8);
        let kept: Sums = postcard::from_bytes(&postcard::to_stdvec(&all).unwrap()).unwrap();
        assert_eq!(sums(&kept, 0, 0), sums(&all, 0, 0));
    }

    /// Bytes that were given back looked like a new engine: all of the old one's were
    /// counted a second time.
    #[test]
    fn a_counter_that_goes_down_for_a_moment_counts_nothing_twice() {
        let bytes = |download_bytes| Count {
            download_bytes,
            ..Count::default()
        };
        let mut all = Sums::default();
        for number in [5_000, 4_000, 4_500, 6_000] {
            all.count(bytes(number), LATE_MS, 0);
        }
        assert_eq!(all.totals(LATE_MS, 0).ever.download_bytes, 6_000);
    }
}
