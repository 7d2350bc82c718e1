//! The window's settings are keys of the config file: which is which, and in which units.

use peercrawl_ui::model::{DayHours, OnClose, OverlayKind, Scope, Setting, Settings, ThemeChoice};
use toml_edit::Value;

use crate::{conditions, config};

/// The key of a change, and its value in the config file.
pub fn entries(setting: &Setting) -> Vec<(&'static str, Value)> {
    let number = |key, value: u32| vec![(key, Value::from(i64::from(value)))];
    let flag = |key, value: bool| vec![(key, Value::from(value))];
    let word = |key, value: &str| vec![(key, Value::from(value))];
    match setting {
        Setting::DownloadKibPerS(value) => number("limits.download_kib", *value),
        Setting::UploadKibPerS(value) => number("limits.upload_kib", *value),
        Setting::PagesPerMin(value) => number("limits.pages_per_min", *value),
        Setting::Connections(value) => number("limits.connections", *value),
        Setting::CpuPercent(value) => number("limits.cpu_percent", *value),
        Setting::MonthlyGb(value) => number("limits.monthly_gb", *value),
        Setting::SlowMode(value) => flag("limits.slow_mode", *value),
        Setting::SlowDownloadKibPerS(value) => number("limits.slow_download_kib", *value),
        Setting::SlowUploadKibPerS(value) => number("limits.slow_upload_kib", *value),
        Setting::DiskGb(value) => {
            let bytes = i64::from(*value) * GB as i64;
            vec![("archive.limit_bytes", Value::from(bytes))]
        }
        Setting::ScheduleOn(value) => flag("schedule.enabled", *value),
        Setting::Schedule(days) => {
            let hours = days.iter().map(|hours| Value::from(hours_word(hours)));
            DAYS.into_iter().zip(hours).collect()
        }
        Setting::PauseOnBattery(value) => flag("pause.on_battery", *value),
        Setting::PauseOnMetered(value) => flag("pause.on_metered", *value),
        Setting::PauseWhenBusy(value) => flag("pause.when_busy", *value),
        Setting::OnlyWhenUnused(value) => flag("pause.while_used", *value),
        Setting::AllowSupernode(value) => flag("overlay.allow_supernode", *value),
        Setting::Overlay(kind) => word(
            "overlay.kind",
            match kind {
                OverlayKind::Flat => "flat",
                OverlayKind::Supernode => "supernode",
            },
        ),
        Setting::StartAtLogin(value) => flag("desktop.start_at_login", *value),
        Setting::Theme(theme) => word(
            "desktop.theme",
            match theme {
                ThemeChoice::System => "system",
                ThemeChoice::Light => "light",
                ThemeChoice::Dark => "dark",
            },
        ),
        Setting::TextPercent(value) => number("desktop.text_percent", *value),
        Setting::OnClose(choice) => word(
            "desktop.on_close",
            match choice {
                OnClose::Ask => "ask",
                OnClose::KeepCrawling => "keep-crawling",
                OnClose::Quit => "quit",
            },
        ),
        Setting::Scope(scope) => word(
            "crawl.scope",
            match scope {
                Scope::Host => "host",
                Scope::Domain => "domain",
                Scope::Any => "any",
            },
        ),
        Setting::MaxDepth(value) => number("crawl.max_depth", *value),
    }
}

/// A gigabyte, as volunteers count them.
pub const GB: u64 = 1_000_000_000;

/// The keys of the schedule, Monday first.
const DAYS: [&str; 7] = [
    "schedule.monday",
    "schedule.tuesday",
    "schedule.wednesday",
    "schedule.thursday",
    "schedule.friday",
    "schedule.saturday",
    "schedule.sunday",
];

fn hours_word(hours: &DayHours) -> String {
    match hours.on {
        true => format!("{}-{}", hours.from_hour, hours.to_hour),
        false => "off".to_owned(),
    }
}

/// The settings as the window shows them.
pub fn view(config: &config::Settings) -> Settings {
    let (limits, pause) = (&config.limits, &config.pause);
    Settings {
        download_kib_per_s: limits.download_kib,
        upload_kib_per_s: limits.upload_kib,
        pages_per_min: limits.pages_per_min,
        connections: limits.connections,
        cpu_percent: limits.cpu_percent,
        // A limit of a few bytes is still a limit.
        disk_gb: u32::try_from(config.archive.limit_bytes.div_ceil(GB)).unwrap_or(u32::MAX),
        monthly_gb: limits.monthly_gb,
        slow_mode: limits.slow_mode,
        slow_download_kib_per_s: limits.slow_download_kib,
        slow_upload_kib_per_s: limits.slow_upload_kib,
        schedule_on: config.schedule.enabled,
        schedule: config.schedule.days().map(|hours| match hours {
            conditions::DayHours::Off => DayHours {
                on: false,
                ..DayHours::default()
            },
            conditions::DayHours::Hours(from_hour, to_hour) => DayHours {
                on: true,
                from_hour,
                to_hour,
            },
        }),
        pause_on_battery: pause.on_battery,
        pause_on_metered: pause.on_metered,
        pause_when_busy: pause.when_busy,
        only_when_unused: pause.while_used,
        allow_supernode: config.overlay.allow_supernode,
        overlay: match config.overlay.kind {
            config::OverlayChoice::Flat => OverlayKind::Flat,
            config::OverlayChoice::Supernode => OverlayKind::Supernode,
        },
        start_at_login: config.desktop.start_at_login,
        theme: match config.desktop.theme {
            config::Theme::System => ThemeChoice::System,
            config::Theme::Light => ThemeChoice::Light,
            config::Theme::Dark => ThemeChoice::Dark,
        },
        text_percent: config.desktop.text_percent,
        on_close: match config.desktop.on_close {
            config::OnClose::Ask => OnClose::Ask,
            config::OnClose::KeepCrawling => OnClose::KeepCrawling,
            config::OnClose::Quit => OnClose::Quit,
        },
        scope: match config.crawl.scope {
            config::Scope::Host => Scope::Host,
            config::Scope::Domain => Scope::Domain,
            config::Scope::Any => Scope::Any,
        },
        max_depth: config.crawl.max_depth.into(),
    }
}

/// The hours of a day that is off are not in the config file; the window does not forget
/// them for as long as it is there.
pub fn keep_hours(days: &mut [DayHours; 7], before: &[DayHours; 7]) {
    for (day, before) in days.iter_mut().zip(before) {
        if !day.on {
            *day = DayHours {
                on: false,
                ..*before
            };
        }
    }
}

/// Fills in what the first page proposes, where no limit is set yet.
pub fn propose(shown: &mut Settings) {
    let proposed = Settings::default();
    let fill = |value: &mut u32, proposed: u32| {
        if *value == 0 {
            *value = proposed;
        }
    };
    fill(&mut shown.download_kib_per_s, proposed.download_kib_per_s);
    fill(&mut shown.upload_kib_per_s, proposed.upload_kib_per_s);
    fill(&mut shown.monthly_gb, proposed.monthly_gb);
    fill(&mut shown.connections, proposed.connections);
    fill(&mut shown.cpu_percent, proposed.cpu_percent);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window took numbers that the config refuses.
    #[test]
    fn the_window_takes_as_much_as_the_config_and_no_more() {
        type Set = fn(u32) -> Setting;
        let bounds: [(Set, u32); 10] = [
            (Setting::DownloadKibPerS, Settings::MOST_KIB_PER_S),
            (Setting::UploadKibPerS, Settings::MOST_KIB_PER_S),
            (Setting::SlowDownloadKibPerS, Settings::MOST_KIB_PER_S),
            (Setting::SlowUploadKibPerS, Settings::MOST_KIB_PER_S),
            (Setting::PagesPerMin, Settings::MOST_PAGES_PER_MIN),
            (Setting::Connections, Settings::MOST_CONNECTIONS),
            (Setting::CpuPercent, Settings::MOST_CPU_PERCENT),
            (Setting::MonthlyGb, Settings::MOST_MONTHLY_GB),
            (Setting::DiskGb, Settings::MOST_DISK_GB),
            (Setting::MaxDepth, Settings::MOST_DEPTH),
        ];
        let takes = |setting: Setting| {
            let mut config = config::Settings::default();
            let mut entries = entries(&setting).into_iter();
            entries.all(|(key, value)| config.apply_flag(&format!("{key}={value}")).is_ok())
        };
        for (set, most) in bounds {
            assert!(takes(set(most)), "{:?}", set(most));
            assert!(!takes(set(most + 1)), "{:?}", set(most + 1));
        }
    }

    #[test]
    fn what_is_changed_in_the_window_is_read_back_from_the_config() {
        let night = DayHours {
            on: true,
            from_hour: 22,
            to_hour: 6,
        };
        let mut days = [night; 7];
        days[6].on = false;
        days[6].from_hour = 0;
        days[6].to_hour = 24;
        let changes = [
            Setting::DownloadKibPerS(77),
            Setting::UploadKibPerS(78),
            Setting::PagesPerMin(79),
            Setting::Connections(8),
            Setting::CpuPercent(81),
            Setting::DiskGb(25),
            Setting::MonthlyGb(83),
            Setting::SlowMode(true),
            Setting::SlowDownloadKibPerS(5),
            Setting::SlowUploadKibPerS(6),
            Setting::ScheduleOn(true),
            Setting::Schedule(days),
            Setting::PauseOnBattery(false),
            Setting::PauseOnMetered(false),
            Setting::PauseWhenBusy(true),
            Setting::OnlyWhenUnused(true),
            Setting::AllowSupernode(false),
            Setting::Overlay(OverlayKind::Supernode),
            Setting::StartAtLogin(true),
            Setting::Theme(ThemeChoice::Dark),
            Setting::TextPercent(130),
            Setting::OnClose(OnClose::KeepCrawling),
            Setting::Scope(Scope::Domain),
            Setting::MaxDepth(7),
        ];
        let mut config = config::Settings::default();
        let mut shown = view(&config);
        for change in &changes {
            for (key, value) in entries(change) {
                config.apply_flag(&format!("{key}={value}")).unwrap();
            }
            let before = shown.clone();
            shown.apply(change);
            assert_ne!(before, shown, "{change:?} changes nothing here");
            assert_eq!(view(&config), shown, "{change:?}");
        }
    }

    /// A day that was unticked and ticked again was open all day.
    #[test]
    fn a_day_that_is_off_keeps_its_hours() {
        let night = |on| DayHours {
            on,
            from_hour: 22,
            to_hour: 6,
        };
        let mut config = config::Settings::default();
        for (key, value) in entries(&Setting::Schedule([night(false); 7])) {
            config.apply_flag(&format!("{key}={value}")).unwrap();
        }
        let mut shown = view(&config).schedule;
        shown[6].on = true;
        let open = shown[6];
        keep_hours(&mut shown, &[night(true); 7]);
        assert_eq!(shown[..6], [night(false); 6]);
        assert_eq!(shown[6], open, "what is on is as the file has it");
    }

    #[test]
    fn the_first_page_proposes_limits_where_none_are_set() {
        let mut config = config::Settings::default();
        config.limits.upload_kib = 5;
        let mut shown = view(&config);
        propose(&mut shown);
        assert_eq!((shown.download_kib_per_s, shown.upload_kib_per_s), (256, 5));
        assert_eq!((shown.monthly_gb, shown.disk_gb), (10, 10));
    }
}
