//! The weekly schedule: whether it may run at this hour, and if not, when it may.
//!
//! The local time of the week goes in, as minutes since Monday began.

use toml_edit::Value;

use crate::config::{self, value};

/// Minutes of a day, and of a week.
const DAY: u32 = 24 * 60;
const WEEK: u32 = 7 * DAY;

/// When it may run on one day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DayHours {
    /// Not at all.
    Off,
    /// From one full hour (0 to 23) to another (1 to 24), not included. If the second is
    /// not after the first, it is one of the next day.
    Hours(u8, u8),
}

impl DayHours {
    /// The whole day.
    pub const ALL_DAY: Self = Self::Hours(0, 24);

    /// Reads `"off"` or hours such as `"22-6"`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.trim() == "off" {
            return Some(Self::Off);
        }
        let (from, to) = text.split_once('-')?;
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        (from <= 23 && (1..=24).contains(&to)).then_some(Self::Hours(from, to))
    }

    /// How it is written in the config file.
    pub fn to_text(self) -> String {
        match self {
            Self::Off => "off".into(),
            Self::Hours(from, to) => format!("{from}-{to}"),
        }
    }

    /// Minutes after the day's midnight at which it begins and ends.
    fn minutes(self) -> Option<(u32, u32)> {
        match self {
            Self::Off => None,
            Self::Hours(from, to) => {
                let (from, to) = (u32::from(from) * 60, u32::from(to) * 60);
                Some((from, if to > from { to } else { to + DAY }))
            }
        }
    }
}

impl value::Setting for DayHours {
    fn read(value: &Value, _: value::Allowed) -> Option<Self> {
        Self::parse(value.as_str()?)
    }

    fn describe(_: value::Allowed) -> String {
        "\"off\" or hours from and to, such as \"0-24\" or \"22-6\"".into()
    }
}

impl config::Schedule {
    /// The days, Monday first.
    pub fn days(&self) -> [DayHours; 7] {
        [
            self.monday,
            self.tuesday,
            self.wednesday,
            self.thursday,
            self.friday,
            self.saturday,
            self.sunday,
        ]
    }
}

/// Minutes from now until it may run, by these days, Monday first: 0 if it may now,
/// `None` if it never may. `minute` counts from the beginning of Monday.
pub fn minutes_until_open(days: &[DayHours; 7], minute: u32) -> Option<u32> {
    let minute = minute % WEEK;
    let spans = days.iter().zip(0..).filter_map(|(day, number)| {
        let (from, to) = day.minutes()?;
        Some((number * DAY + from, number * DAY + to))
    });
    let until = |(from, to)| {
        // Sunday's hours may reach into Monday.
        let is_open = (from..to).contains(&minute) || (from..to).contains(&(minute + WEEK));
        match is_open {
            true => 0,
            false => (from + WEEK - minute) % WEEK,
        }
    };
    spans.map(until).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: DayHours = DayHours::Off;

    fn at(day: u32, hour: u32) -> u32 {
        day * DAY + hour * 60
    }

    #[test]
    fn hours_hold_on_their_day_alone() {
        let mut days = [OFF; 7];
        days[2] = DayHours::Hours(9, 17);
        assert_eq!(minutes_until_open(&days, at(2, 9)), Some(0));
        assert_eq!(minutes_until_open(&days, at(2, 17) - 1), Some(0));
        assert_eq!(minutes_until_open(&days, at(2, 8)), Some(60));
        assert_eq!(minutes_until_open(&days, at(2, 17)), Some(WEEK - 8 * 60));
        assert_eq!(minutes_until_open(&days, at(0, 0)), Some(at(2, 9)));
        assert_eq!(minutes_until_open(&[OFF; 7], 0), None);
        assert_eq!(minutes_until_open(&[DayHours::ALL_DAY; 7], 77), Some(0));
    }

    #[test]
    fn a_night_reaches_into_the_next_day_and_week() {
        let mut days = [OFF; 7];
        days[6] = DayHours::Hours(22, 6);
        assert_eq!(minutes_until_open(&days, at(6, 23)), Some(0));
        assert_eq!(minutes_until_open(&days, at(0, 5)), Some(0));
        assert_eq!(minutes_until_open(&days, at(0, 6)), Some(at(6, 16)));
        days[6] = DayHours::Hours(0, 24);
        assert_eq!(minutes_until_open(&days, at(6, 23)), Some(0));
        assert_eq!(minutes_until_open(&days, at(0, 0)), Some(at(6, 0)));
    }

    #[test]
    fn hours_are_read_as_they_are_written() {
        for text in ["off", "0-24", "22-6", "7-7"] {
            assert_eq!(DayHours::parse(text).unwrap().to_text(), text);
        }
        for text in ["", "24-3", "0-0", "0-25", "7", "a-b", "-1-3"] {
            assert_eq!(DayHours::parse(text), None, "{text}");
        }
    }
}
