//! Whether the computer runs on its battery, as Linux tells it in `/sys/class/power_supply`.

use std::fs;
use std::path::Path;

/// Where Linux keeps it.
pub const FOLDER: &str = "/sys/class/power_supply";

/// Whether the computer runs on its battery; `None` where that cannot be told. A computer
/// without a battery does not.
pub fn is_on_battery(folder: &Path) -> Option<bool> {
    let entries = fs::read_dir(folder).ok()?;
    let (mut is_discharging, mut is_plugged_in) = (false, false);
    for entry in entries.flatten() {
        let read = |name: &str| {
            let text = fs::read_to_string(entry.path().join(name));
            text.map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        // The batteries of mice and headsets say so.
        if read("scope") == "Device" {
            continue;
        }
        match read("type").as_str() {
            "Battery" => is_discharging |= read("status") == "Discharging",
            "Mains" | "USB" | "Wireless" => is_plugged_in |= read("online") == "1",
            _ => {}
        }
    }
    Some(is_discharging && !is_plugged_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as Linux would show it: supplies, and files in them.
    fn read(supplies: &[(&str, &[(&str, &str)])]) -> Option<bool> {
        let folder = tempfile::tempdir().unwrap();
        for (name, files) in supplies {
            let supply = folder.path().join(name);
            fs::create_dir(&supply).unwrap();
            for (file, text) in *files {
                fs::write(supply.join(file), format!("{text}\n")).unwrap();
            }
        }
        is_on_battery(folder.path())
    }

    const DISCHARGING: (&str, &[(&str, &str)]) =
        ("BAT0", &[("type", "Battery"), ("status", "Discharging")]);

    #[test]
    fn a_laptop_runs_on_its_battery_when_it_is_unplugged() {
        let mains = |online| ("AC", [("type", "Mains"), ("online", online)]);
        let (unplugged, plugged) = (mains("0"), mains("1"));
        assert_eq!(
            read(&[DISCHARGING, (unplugged.0, &unplugged.1)]),
            Some(true)
        );
        assert_eq!(read(&[DISCHARGING, (plugged.0, &plugged.1)]), Some(false));
        assert_eq!(read(&[DISCHARGING]), Some(true));
        let full: &[_] = &[("type", "Battery"), ("status", "Full")];
        assert_eq!(read(&[("BAT0", full)]), Some(false));
    }

    #[test]
    fn a_mouse_is_not_the_computer() {
        let mouse: &[_] = &[
            ("type", "Battery"),
            ("status", "Discharging"),
            ("scope", "Device"),
        ];
        assert_eq!(read(&[("mouse", mouse)]), Some(false));
        assert_eq!(read(&[]), Some(false));
    }

    #[test]
    fn without_the_folder_it_cannot_be_told() {
        assert_eq!(is_on_battery(Path::new("/nowhere/at/all")), None);
    }
}
