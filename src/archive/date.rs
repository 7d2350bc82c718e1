//! Dates as WARC and CDXJ write them.

use crate::clock::Millis;

/// The year, month, day, hour, minute, second and millisecond of a point in time.
fn civil(at_ms: Millis) -> [u64; 7] {
    let (days, ms) = (at_ms / 86_400_000, at_ms % 86_400_000);
    // Years are counted from March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let [hour, minute] = [ms / 3_600_000, ms / 60_000 % 60];
    [year, month, day, hour, minute, ms / 1_000 % 60, ms % 1_000]
}

/// `2026-11-16T04:36:26.000Z`: always with milliseconds, so that a revisit's reference
/// to a date is letter for letter the date of the record that it refers to.
pub(crate) fn warc_date(at_ms: Millis) -> String {
    let [year, month, day, hour, minute, second, ms] = civil(at_ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// `20261116043626`, to the second, as indexes have it.
pub(super) fn timestamp(at_ms: Millis) -> String {
    let [year, month, day, hour, minute, second, _] = civil(at_ms);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// The timestamp of a date in the form of [`warc_date`].
pub(super) fn timestamp_of(warc_date: &str) -> String {
    let mut digits: String = warc_date.chars().filter(char::is_ascii_digit).collect();
    digits.truncate(14);
    digits
}

/// The point in time of a [`timestamp`], if the text is one.
pub(super) fn at_ms(timestamp: &str) -> Option<Millis> {
    let part = |from: usize, to: usize| timestamp.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let seconds = (part(8, 10)? * 60 + part(10, 12)?) * 60 + part(12, 14)?;
    // From March again.
    let year = year.checked_sub(u64::from(month <= 2))?;
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    Some((days.checked_sub(719_468)? * 86_400 + seconds) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (at_ms, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_078_099_199_000, "2004-02-29T23:59:59.000Z"),
            (1_794_803_786_123, "2026-11-16T04:36:26.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(warc_date(at_ms), date);
            assert_eq!(timestamp_of(date), timestamp(at_ms));
            let whole_second = Some(at_ms / 1_000 * 1_000);
            assert_eq!(super::at_ms(&timestamp(at_ms)), whole_second);
        }
        for text in [
            "",
            "2026",
            "x0261116043626",
            "19691116043626",
            "20261100043626",
        ] {
            assert_eq!(super::at_ms(text), None);
        }
    }

    /// Another way to the same dates: the parser of HTTP dates knows the calendar too.
    #[test]
    fn every_day_of_five_centuries_agrees_with_http_dates() {
        for day in 0..(365 * 500) {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(day * 86_400);
            let http = httpdate::fmt_http_date(time);
            let [year, _, date, ..] = civil(day * 86_400_000);
            assert_eq!(http[5..7].parse::<u64>(), Ok(date), "{http}");
            assert_eq!(http[12..16].parse::<u64>(), Ok(year), "{http}");
        }
    }
}
