//! What only the desktop knows: whether the connection is paid by volume, and for how
//! long nobody has used the computer.
//!
//! Asked through small programs that come with the desktop: that is seldom, and one that
//! hangs is ended. Where they are missing it cannot be told.

use std::time::Duration;

use super::ask::ask;
use crate::clock::Millis;

/// Whether the connection is paid by volume, by NetworkManager; `None` where that cannot
/// be told.
pub fn is_metered() -> Option<bool> {
    let name = "org.freedesktop.NetworkManager";
    let path = "/org/freedesktop/NetworkManager";
    let bus = || ask("busctl", &["get-property", name, path, name, "Metered"]);
    let tool = || ask("nmcli", &["-g", "GENERAL.METERED", "device", "show"]);
    bus()
        .and_then(|answer| metered_by_bus(&answer))
        .or_else(|| tool().and_then(|answer| metered_by_tool(&answer)))
}

/// `u 1` is yes, 2 no, 3 and 4 the same as a guess, 0 unknown.
fn metered_by_bus(answer: &str) -> Option<bool> {
    match answer.strip_prefix("u ")? {
        "1" | "3" => Some(true),
        "2" | "4" => Some(false),
        _ => None,
    }
}

/// A line for each device: `yes`, `no`, `yes (guessed)`, `unknown`.
fn metered_by_tool(answer: &str) -> Option<bool> {
    let mut known = None;
    for line in answer.lines().map(str::trim) {
        if line.starts_with("yes") {
            return Some(true);
        }
        if line.starts_with("no") {
            known = Some(false);
        }
    }
    known
}

/// For how long nobody has touched a key or the mouse; `None` where that cannot be told.
pub fn unused_for(now_ms: Millis) -> Option<Duration> {
    let name = "org.gnome.Mutter.IdleMonitor";
    let path = "/org/gnome/Mutter/IdleMonitor/Core";
    let gnome = || {
        ask(
            "busctl",
            &["--user", "call", name, path, name, "GetIdletime"],
        )
    };
    let screen = || ask("xprintidle", &[]);
    let login = || {
        let name = "org.freedesktop.login1";
        let path = "/org/freedesktop/login1";
        let of = "org.freedesktop.login1.Manager";
        let asked = ["get-property", name, path, of, "IdleHint", "IdleSinceHint"];
        ask("busctl", &asked)
    };
    gnome()
        .and_then(|answer| milliseconds(answer.strip_prefix("t ")?))
        .or_else(|| milliseconds(&screen()?))
        .or_else(|| unused_by_login(&login()?, now_ms))
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(Duration::from_millis)
}

/// `b true` or `b false`, and since when in microseconds since 1970, as `t 1`. Many desktops
/// never tell the login manager that nobody is there: `false` since 0 is what it says before
/// it was told anything, and means nothing.
fn unused_by_login(answer: &str, now_ms: Millis) -> Option<Duration> {
    let mut words = answer.split_whitespace();
    let is_idle = match (words.next()?, words.next()?) {
        ("b", "true") => true,
        ("b", "false") => false,
        _ => return None,
    };
    let since_us: u64 = match (words.next()?, words.next()?) {
        ("t", number) => number.parse().ok()?,
        _ => return None,
    };
    match (is_idle, since_us) {
        (false, 0) => None,
        (false, _) => Some(Duration::ZERO),
        (true, _) => Some(Duration::from_millis(
            now_ms.saturating_sub(since_us / 1_000),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_network_manager_says_is_understood() {
        assert_eq!(metered_by_bus("u 1"), Some(true));
        assert_eq!(metered_by_bus("u 3"), Some(true));
        assert_eq!(metered_by_bus("u 4"), Some(false));
        assert_eq!(metered_by_bus("u 0"), None);
        assert_eq!(metered_by_bus("Failed to connect to bus"), None);
        assert_eq!(metered_by_tool("no (guessed)\nyes\nunknown"), Some(true));
        assert_eq!(metered_by_tool("no (guessed)\nunknown"), Some(false));
        assert_eq!(metered_by_tool("unknown\n\n"), None);
    }

    #[test]
    fn what_the_login_manager_says_is_understood() {
        let now_ms = 1_800_000_000_000;
        let idle = "b true\nt 1799999940000000";
        assert_eq!(unused_by_login(idle, now_ms), Some(Duration::from_secs(60)));
        let used = "b false\nt 1799999940000000";
        assert_eq!(unused_by_login(used, now_ms), Some(Duration::ZERO));
        // Read as "somebody is there", this kept such desktops from ever crawling.
        assert_eq!(unused_by_login("b false\nt 0", now_ms), None);
        assert_eq!(unused_by_login("", now_ms), None);
        assert_eq!(unused_by_login("b true", now_ms), None);
        assert_eq!(milliseconds("1500\n"), Some(Duration::from_millis(1_500)));
        assert_eq!(milliseconds("no display"), None);
    }
}
