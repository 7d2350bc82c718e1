//! Whether the desktop's own colours are dark, where only its portal knows.
//!
//! On Linux the portal is asked over D-Bus, and followed. Elsewhere the window finds it out
//! by itself.

#[cfg(target_os = "linux")]
pub use portal::watch;

#[cfg(not(target_os = "linux"))]
pub use none::watch;

#[cfg(target_os = "linux")]
mod portal {
    use std::{io, thread};

    use zbus::MatchRule;
    use zbus::blocking::{Connection, MessageIterator};
    use zbus::message::Type;
    use zbus::zvariant::Value;

    /// Who knows, where, and under which interface.
    const NAME: &str = "org.freedesktop.portal.Desktop";
    const PATH: &str = "/org/freedesktop/portal/desktop";
    const SETTINGS: &str = "org.freedesktop.portal.Settings";
    /// The setting: its namespace, and its key there.
    const SETTING: (&str, &str) = ("org.freedesktop.appearance", "color-scheme");

    /// Tells whether the desktop is dark, now and whenever that changes; `None` while it has
    /// no preference. The thread ends where there is nobody to ask, or with the program.
    pub fn watch(tell: impl Fn(Option<bool>) + Send + 'static) -> io::Result<()> {
        let work = move || {
            if let Err(why) = follow(&tell) {
                tracing::debug!("the desktop does not say whether it is dark: {why}");
            }
        };
        thread::Builder::new().name("looks".into()).spawn(work)?;
        Ok(())
    }

    fn follow(tell: &impl Fn(Option<bool>)) -> zbus::Result<()> {
        let bus = Connection::session()?;
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(NAME)?
            .path(PATH)?
            .interface(SETTINGS)?
            .member("SettingChanged")?
            .arg(0, SETTING.0)?
            .arg(1, SETTING.1)?
            .build();
        // From before it is asked, so that no change is missed.
        let changes = MessageIterator::for_match_rule(rule, &bus, None)?;
        tell(ask(&bus)?);
        for change in changes {
            let body = change?.body();
            let (_, _, value): (&str, &str, Value<'_>) = body.deserialize()?;
            tell(is_dark(&value));
        }
        Ok(())
    }

    fn ask(bus: &Connection) -> zbus::Result<Option<bool>> {
        let call = |method: &'static str| {
            bus.call_method(Some(NAME), PATH, Some(SETTINGS), method, &SETTING)
        };
        // Older portals know only the second.
        let body = call("ReadOne").or_else(|_| call("Read"))?.body();
        let value: Value<'_> = body.deserialize()?;
        Ok(is_dark(&value))
    }

    /// 1 is dark and 2 is light. Older portals wrap the number once more.
    fn is_dark(value: &Value<'_>) -> Option<bool> {
        match value {
            Value::Value(inner) => is_dark(inner),
            Value::U32(1) => Some(true),
            Value::U32(2) => Some(false),
            _ => None,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_the_portal_says_is_understood() {
            assert_eq!(is_dark(&Value::U32(1)), Some(true));
            assert_eq!(is_dark(&Value::U32(2)), Some(false));
            assert_eq!(is_dark(&Value::U32(0)), None, "no preference");
            assert_eq!(is_dark(&Value::U32(7)), None, "of a later version");
            assert_eq!(is_dark(&Value::Bool(true)), None);
            let wrapped = Value::Value(Box::new(Value::U32(1)));
            assert_eq!(is_dark(&wrapped), Some(true), "an old portal");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::io;

    /// Nobody to ask.
    pub fn watch(_tell: impl Fn(Option<bool>) + Send + 'static) -> io::Result<()> {
        Ok(())
    }
}
