//! Numbers and times as people read them.
//!
//! Rates are in KiB/s and sizes in GB (of 10⁹ bytes) everywhere, because that is
//! what the limits are set in. Nothing here knows the clock: "now" is an argument.

/// Bytes in a KiB.
pub const KIB: f64 = 1_024.0;

/// `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `34`, `3.4`, `1,234`: one decimal below ten, none from there on.
pub fn decimal(number: f64) -> String {
    let number = number.max(0.0);
    if number < 0.05 {
        "0".to_owned()
    } else if number < 9.95 {
        format!("{number:.1}")
    } else {
        count(number.round() as u64)
    }
}

/// `212 KiB/s`.
pub fn byte_rate(bytes_per_s: f64) -> String {
    format!("{} KiB/s", decimal(bytes_per_s / KIB))
}

/// `34 pages/s`.
pub fn page_rate(pages_per_s: f64) -> String {
    format!("{} pages/s", decimal(pages_per_s))
}

/// `1.2 GB`, `340 MB`, `12 kB`, `700 bytes`.
pub fn bytes(number: u64) -> String {
    let number = number as f64;
    for (unit, size) in [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)] {
        // Half a unit below the round number, "1,000 MB" would come out.
        if number >= size * 0.9995 {
            return format!("{} {unit}", decimal(number / size));
        }
    }
    format!("{number} bytes")
}

/// The same where there is little room: `700 B`.
pub fn short_bytes(number: u64) -> String {
    bytes(number).replace(" bytes", " B")
}

/// `1 page`, `12 pages`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `8.3 %`.
pub fn percent(part: f64) -> String {
    format!("{} %", decimal(part * 100.0))
}

/// `40 ms`, `3 s`, `5 min`, `2 h`, `4 days`.
pub fn lasting(ms: u64) -> String {
    let secs = ms / 1_000;
    match secs {
        0 => format!("{ms} ms"),
        1..=9 if !ms.is_multiple_of(1_000) => format!("{:.1} s", ms as f64 / 1_000.0),
        1..=89 => format!("{secs} s"),
        90..=5_399 => format!("{} min", (secs + 30) / 60),
        5_400..=172_799 => format!("{} h", (secs + 1_800) / 3_600),
        _ => format!("{} days", (secs + 43_200) / 86_400),
    }
}

/// `just now`, `12 s ago`, `3 min ago`.
pub fn ago(then_ms: u64, now_ms: u64) -> String {
    let past = now_ms.saturating_sub(then_ms) / 1_000 * 1_000;
    match past {
        0..2_000 => "just now".to_owned(),
        _ => format!("{} ago", lasting(past)),
    }
}

/// `now`, `in 3 s`.
pub fn until(then_ms: u64, now_ms: u64) -> String {
    match then_ms.saturating_sub(now_ms) {
        0 => "now".to_owned(),
        // Whole seconds: a figure that counts down must not flicker.
        left => format!("in {}", lasting(left.div_ceil(1_000) * 1_000)),
    }
}

/// A time as the volunteer's clock and calendar show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// Days since 1970-01-01.
    days: i64,
    secs_of_day: i64,
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

impl Local {
    /// From milliseconds since 1970 (UTC) and what the clock is ahead of that.
    pub fn new(at_ms: u64, utc_offset_minutes: i32) -> Self {
        let secs = (at_ms / 1_000) as i64 + i64::from(utc_offset_minutes) * 60;
        Self {
            days: secs.div_euclid(86_400),
            secs_of_day: secs.rem_euclid(86_400),
        }
    }

    /// `15:40`.
    pub fn clock(self) -> String {
        let minutes = self.secs_of_day / 60;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    }

    /// `15:40:07`.
    pub fn clock_secs(self) -> String {
        format!("{}:{:02}", self.clock(), self.secs_of_day % 60)
    }

    /// `24 Nov`.
    pub fn date(self) -> String {
        let (_, month, day) = self.calendar();
        format!("{day} {}", MONTHS[month - 1])
    }

    /// `24 Nov 2026`.
    pub fn date_with_year(self) -> String {
        format!("{} {}", self.date(), self.calendar().0)
    }

    /// `15:40` on the same day, `24 Nov, 15:40` on another.
    pub fn clock_or_date(self, now: Self) -> String {
        if self.days == now.days {
            self.clock()
        } else {
            format!("{}, {}", self.date(), self.clock())
        }
    }

    /// Year, month from 1 and day from 1 of the Gregorian calendar.
    ///
    /// Counts in years that begin in March, so that the leap day is the last of its year.
    fn calendar(self) -> (i64, usize, i64) {
        const DAYS_IN_400_YEARS: i64 = 146_097;
        let days = self.days + 719_468;
        let era = days.div_euclid(DAYS_IN_400_YEARS);
        let of_era = days.rem_euclid(DAYS_IN_400_YEARS);
        let year_of_era =
            (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (DAYS_IN_400_YEARS - 1)) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        (year, month as usize, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn rates_and_sizes_have_as_many_digits_as_help() {
        assert_eq!(byte_rate(212.0 * KIB), "212 KiB/s");
        assert_eq!(byte_rate(3.44 * KIB), "3.4 KiB/s");
        assert_eq!(byte_rate(9.96 * KIB), "10 KiB/s");
        assert_eq!(byte_rate(12_345.0 * KIB), "12,345 KiB/s");
        assert_eq!(page_rate(34.2), "34 pages/s");
        assert_eq!(page_rate(0.001), "0 pages/s");
        assert_eq!(bytes(1_200_000_000), "1.2 GB");
        assert_eq!(bytes(999_999_999), "1.0 GB");
        assert_eq!(bytes(340_000_000), "340 MB");
        assert_eq!(bytes(12_000), "12 kB");
        assert_eq!(bytes(700), "700 bytes");
        assert_eq!(short_bytes(700), "700 B");
        assert_eq!(short_bytes(12_000), "12 kB");
        assert_eq!(percent(0.083), "8.3 %");
        assert_eq!(counted(1, "peer", "peers"), "1 peer");
    }

    #[test]
    fn times_are_near_or_far() {
        assert_eq!(ago(10_000, 11_000), "just now");
        assert_eq!(ago(0, 12_345), "12 s ago");
        assert_eq!(ago(0, 180_000), "3 min ago");
        assert_eq!(ago(0, 3 * 86_400_000), "3 days ago");
        // A clock that was set back must not give a huge number.
        assert_eq!(ago(20_000, 10_000), "just now");
        assert_eq!(until(10_000, 10_000), "now");
        assert_eq!(until(12_100, 10_000), "in 3 s");
        assert_eq!(lasting(40), "40 ms");
        assert_eq!(lasting(1_500), "1.5 s");
        assert_eq!(lasting(2 * 3_600_000), "2 h");
    }

    #[test]
    fn the_calendar_knows_leap_days_and_zones() {
        let at = |ms, offset| Local::new(ms, offset);
        assert_eq!(at(0, 0).date_with_year(), "1 Jan 1970");
        // 2024-02-29 23:30 UTC is already March an hour further east.
        let leap = 1_709_249_400_000;
        assert_eq!(at(leap, 0).date_with_year(), "29 Feb 2024");
        assert_eq!(at(leap, 60).date_with_year(), "1 Mar 2024");
        assert_eq!(at(leap, 60).clock(), "00:30");
        assert_eq!(at(leap, -90).clock_secs(), "22:00:00");
        assert_eq!(at(0, -60).date_with_year(), "31 Dec 1969");
        assert_eq!(at(leap, 60).clock_or_date(at(leap, 0)), "1 Mar, 00:30");
    }
}
