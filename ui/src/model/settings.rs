//! Everything that the volunteer can set, and single changes to it.
//!
//! The units are those that are shown: KiB/s and GB (of 10⁹ bytes). 0 means
//! unlimited wherever a limit is a number.

/// Everything that can be set. The defaults are those of a first start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Download at most.
    pub download_kib_per_s: u32,
    /// Upload at most.
    pub upload_kib_per_s: u32,
    /// Pages a minute at most.
    pub pages_per_min: u32,
    /// Connections at once at most.
    pub connections: u32,
    /// Share of the processor at most, in percent; 0 and 100 are the whole of it.
    pub cpu_percent: u32,
    /// The archive's size at most.
    pub disk_gb: u32,
    /// Data in 30 days at most, both ways together.
    pub monthly_gb: u32,
    /// Whether slow mode is on.
    pub slow_mode: bool,
    /// Download at most in slow mode.
    pub slow_download_kib_per_s: u32,
    /// Upload at most in slow mode.
    pub slow_upload_kib_per_s: u32,
    /// Whether the weekly schedule is kept.
    pub schedule_on: bool,
    /// When it may run, Monday first.
    pub schedule: [DayHours; 7],
    /// Pause while the computer runs on its battery.
    pub pause_on_battery: bool,
    /// Pause while the connection is paid by volume.
    pub pause_on_metered: bool,
    /// Pause while other programs keep the processor busy.
    pub pause_when_busy: bool,
    /// Run only while nobody uses the computer.
    pub only_when_unused: bool,
    /// Whether this peer may become a supernode.
    pub allow_supernode: bool,
    /// How the network is organised.
    pub overlay: OverlayKind,
    /// Start with the desktop.
    pub start_at_login: bool,
    /// Colours.
    pub theme: ThemeChoice,
    /// Size of text and everything else, in percent.
    pub text_percent: u32,
    /// What closing the window does.
    pub on_close: OnClose,
    /// How far the crawl may go from its seeds.
    pub scope: Scope,
    /// Links from a seed to a page at most.
    pub max_depth: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            download_kib_per_s: 256,
            upload_kib_per_s: 64,
            pages_per_min: 0,
            connections: 32,
            cpu_percent: 50,
            disk_gb: 10,
            monthly_gb: 10,
            slow_mode: false,
            slow_download_kib_per_s: 64,
            slow_upload_kib_per_s: 16,
            schedule_on: false,
            schedule: [DayHours::default(); 7],
            pause_on_battery: true,
            pause_on_metered: true,
            pause_when_busy: false,
            only_when_unused: false,
            allow_supernode: true,
            overlay: OverlayKind::Supernode,
            start_at_login: false,
            theme: ThemeChoice::System,
            text_percent: 100,
            on_close: OnClose::Ask,
            scope: Scope::Any,
            max_depth: 100,
        }
    }
}

/// One change. Each stands for one key of the config file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each sets the field of `Settings` of its name")]
pub enum Setting {
    DownloadKibPerS(u32),
    UploadKibPerS(u32),
    PagesPerMin(u32),
    Connections(u32),
    CpuPercent(u32),
    DiskGb(u32),
    MonthlyGb(u32),
    SlowMode(bool),
    SlowDownloadKibPerS(u32),
    SlowUploadKibPerS(u32),
    ScheduleOn(bool),
    Schedule([DayHours; 7]),
    PauseOnBattery(bool),
    PauseOnMetered(bool),
    PauseWhenBusy(bool),
    OnlyWhenUnused(bool),
    AllowSupernode(bool),
    Overlay(OverlayKind),
    StartAtLogin(bool),
    Theme(ThemeChoice),
    TextPercent(u32),
    OnClose(OnClose),
    Scope(Scope),
    MaxDepth(u32),
}

/// The greatest numbers that the config file takes.
#[allow(missing_docs, reason = "the names are those of the fields")]
impl Settings {
    /// Download and upload, in slow mode too.
    pub const MOST_KIB_PER_S: u32 = 1 << 22;
    pub const MOST_PAGES_PER_MIN: u32 = 100_000_000;
    pub const MOST_CONNECTIONS: u32 = 4_096;
    pub const MOST_CPU_PERCENT: u32 = 100;
    /// In the file, it is 2⁵⁰ bytes.
    pub const MOST_DISK_GB: u32 = ((1_u64 << 50) / 1_000_000_000) as u32;
    pub const MOST_MONTHLY_GB: u32 = 1_000_000;
    pub const MOST_DEPTH: u32 = 10_000;
}

impl Settings {
    /// Makes one change.
    pub fn apply(&mut self, setting: &Setting) {
        match *setting {
            Setting::DownloadKibPerS(value) => self.download_kib_per_s = value,
            Setting::UploadKibPerS(value) => self.upload_kib_per_s = value,
            Setting::PagesPerMin(value) => self.pages_per_min = value,
            Setting::Connections(value) => self.connections = value,
            Setting::CpuPercent(value) => self.cpu_percent = value,
            Setting::DiskGb(value) => self.disk_gb = value,
            Setting::MonthlyGb(value) => self.monthly_gb = value,
            Setting::SlowMode(value) => self.slow_mode = value,
            Setting::SlowDownloadKibPerS(value) => self.slow_download_kib_per_s = value,
            Setting::SlowUploadKibPerS(value) => self.slow_upload_kib_per_s = value,
            Setting::ScheduleOn(value) => self.schedule_on = value,
            Setting::Schedule(value) => self.schedule = value,
            Setting::PauseOnBattery(value) => self.pause_on_battery = value,
            Setting::PauseOnMetered(value) => self.pause_on_metered = value,
            Setting::PauseWhenBusy(value) => self.pause_when_busy = value,
            Setting::OnlyWhenUnused(value) => self.only_when_unused = value,
            Setting::AllowSupernode(value) => self.allow_supernode = value,
            Setting::Overlay(value) => self.overlay = value,
            Setting::StartAtLogin(value) => self.start_at_login = value,
            Setting::Theme(value) => self.theme = value,
            Setting::TextPercent(value) => self.text_percent = value,
            Setting::OnClose(value) => self.on_close = value,
            Setting::Scope(value) => self.scope = value,
            Setting::MaxDepth(value) => self.max_depth = value,
        }
    }

    /// The download limit that holds now, slow mode included; 0 for none.
    pub fn download_now_kib_per_s(&self) -> u32 {
        match self.slow_mode {
            true => smaller_limit(self.download_kib_per_s, self.slow_download_kib_per_s),
            false => self.download_kib_per_s,
        }
    }

    /// The upload limit that holds now, slow mode included; 0 for none.
    pub fn upload_now_kib_per_s(&self) -> u32 {
        match self.slow_mode {
            true => smaller_limit(self.upload_kib_per_s, self.slow_upload_kib_per_s),
            false => self.upload_kib_per_s,
        }
    }
}

fn smaller_limit(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, limit) | (limit, 0) => limit,
        _ => one.min(other),
    }
}

/// The days of the schedule, in its order.
pub const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// When it may run on one day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayHours {
    /// Whether it may run at all.
    pub on: bool,
    /// The hour at which it begins, 0 to 23.
    pub from_hour: u8,
    /// The hour at which it ends, 1 to 24. If it is not after `from_hour`, it ends on
    /// the next day.
    pub to_hour: u8,
}

impl Default for DayHours {
    fn default() -> Self {
        Self {
            on: true,
            from_hour: 0,
            to_hour: 24,
        }
    }
}

/// How the network is organised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OverlayKind {
    /// Every peer passes messages on. For up to about a hundred peers.
    Flat,
    /// Some peers pass messages on for the others.
    #[default]
    Supernode,
}

/// Colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThemeChoice {
    /// As the desktop has them.
    #[default]
    System,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// What closing the window does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnClose {
    /// Ask.
    #[default]
    Ask,
    /// Go on without a window.
    KeepCrawling,
    /// End the program.
    Quit,
}

/// How far the crawl may go from its seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// Only the seeds' hosts.
    Host,
    /// The seeds' hosts and their relatives under the same registered name.
    Domain,
    /// Anywhere.
    #[default]
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_mode_never_raises_a_limit() {
        let mut settings = Settings {
            slow_mode: true,
            ..Settings::default()
        };
        assert_eq!(settings.download_now_kib_per_s(), 64);
        settings.apply(&Setting::DownloadKibPerS(32));
        assert_eq!(settings.download_now_kib_per_s(), 32);
        settings.apply(&Setting::DownloadKibPerS(0));
        assert_eq!(settings.download_now_kib_per_s(), 64);
        settings.apply(&Setting::SlowUploadKibPerS(0));
        assert_eq!(settings.upload_now_kib_per_s(), 64);
        settings.apply(&Setting::SlowMode(false));
        assert_eq!(settings.download_now_kib_per_s(), 0);
    }
}
