//! What was done today, this month and ever, by the volunteer's own calendar.
//!
//! Pure: what the counters say and the time go in, sums come out. The counters begin
//! anew with every engine; a count that is smaller than the last one is a new beginning.

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
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// The day of `today`, as year, month and day.
    day: (i16, i8, i8),
    today: Saved,
    this_month: Saved,
    ever: Saved,
    #[serde(skip)]
    last: Count,
}

impl Sums {
    /// Takes in what the counters say at this time.
    pub fn count(&mut self, count: Count, now_ms: u64, utc_offset_minutes: i32) {
        let new = |now: u64, last: u64| if now < last { now } else { now - last };
        let more = (
            new(count.pages, self.last.pages),
            new(count.download_bytes, self.last.download_bytes),
            new(count.upload_bytes, self.last.upload_bytes),
        );
        self.last = count;
        let day = date(now_ms, utc_offset_minutes);
        if (day.0, day.1) != (self.day.0, self.day.1) {
            self.this_month = Saved::default();
        }
        if day != self.day {
            self.today = Saved::default();
        }
        self.day = day;
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

    /// The sums, to be drawn.
    pub fn totals(&self) -> Totals {
        let total = |sum: Saved| Total {
            pages: sum.0,
            download_bytes: sum.1,
            upload_bytes: sum.2,
        };
        Totals {
            today: total(self.today),
            this_month: total(self.this_month),
            ever: total(self.ever),
        }
    }
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

    fn sums(totals: Totals) -> (u64, u64, u64) {
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
        assert_eq!(sums(here.totals()), (5, 5, 5));
        here.count(pages(7), LATE_MS + 3_600_000, 0);
        assert_eq!(sums(here.totals()), (2, 2, 7));
        // An hour further east the month has begun already.
        let mut east = Sums::default();
        east.count(pages(5), LATE_MS, 60);
        east.count(pages(7), LATE_MS + 3_600_000, 60);
        assert_eq!(sums(east.totals()), (7, 7, 7));
        here.count(pages(9), LATE_MS + 48 * 3_600_000, 0);
        assert_eq!(sums(here.totals()), (2, 4, 9));
    }

    #[test]
    fn a_new_engine_begins_at_zero_and_nothing_is_counted_twice() {
        let mut all = Sums::default();
        all.count(pages(5), LATE_MS, 0);
        all.count(pages(2), LATE_MS, 0);
        assert_eq!(all.totals().ever.pages, 7);
        all.begin();
        all.count(pages(3), LATE_MS, 0);
        assert_eq!(all.totals().ever.pages, 10);
        let kept: Sums = postcard::from_bytes(&postcard::to_stdvec(&all).unwrap()).unwrap();
        assert_eq!(kept.totals(), all.totals());
    }
}
