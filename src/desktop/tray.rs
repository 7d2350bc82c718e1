//! The icon in the tray, on desktops that have one.
//!
//! It is never the only way back to the window: starting the program again is another.
//! Desktops on Linux are asked over D-Bus; elsewhere there is no icon yet.

#[cfg(target_os = "linux")]
pub use status_notifier::{TrayIcon, show};

#[cfg(not(target_os = "linux"))]
pub use none::{TrayIcon, show};

#[cfg(target_os = "linux")]
mod status_notifier {
    use std::fmt;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use crossbeam_channel::Sender;
    use ksni::blocking::{Handle, TrayMethods};
    use ksni::menu::StandardItem;
    use ksni::{Icon, MenuItem, OfflineReason, Tray};
    use peercrawl_ui::Command;

    use crate::desktop::ICON;
    use crate::desktop::link::Order;
    use crate::desktop::tasks;

    /// An icon that is in the tray whenever the desktop has one.
    pub struct TrayIcon {
        handle: Handle<Face>,
        is_shown: Arc<AtomicBool>,
    }

    impl fmt::Debug for TrayIcon {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("TrayIcon")
        }
    }

    impl TrayIcon {
        /// What the crawl does, and whether it could be started.
        pub fn tell(&self, words: &str, can_start: bool) {
            let told = self.handle.update(|face| {
                face.words = words.to_owned();
                face.can_start = can_start;
            });
            if told.is_none() {
                tracing::debug!("the tray is gone");
            }
        }

        /// Whether there is a tray to show it.
        pub fn is_shown(&self) -> bool {
            self.is_shown.load(Relaxed)
        }
    }

    /// What the icon shows, and where its clicks go.
    struct Face {
        words: String,
        can_start: bool,
        orders: Sender<Order>,
        picture: Vec<Icon>,
        /// Written as the tray comes and goes, read by the desk.
        is_shown: Arc<AtomicBool>,
    }

    impl Face {
        fn send(&self, order: Order) {
            // Full or gone: a click can be made again.
            let _busy = self.orders.try_send(order);
        }
    }

    impl Tray for Face {
        fn id(&self) -> String {
            "peercrawl".into()
        }

        fn title(&self) -> String {
            format!("PeerCrawl: {}", self.words)
        }

        fn icon_pixmap(&self) -> Vec<Icon> {
            self.picture.clone()
        }

        fn activate(&mut self, _x: i32, _y: i32) {
            self.send(Order::Rung(None));
        }

        fn menu(&self) -> Vec<MenuItem<Self>> {
            let item = |label: &str, order: fn(&Self) -> Order| {
                MenuItem::Standard(StandardItem {
                    label: label.to_owned(),
                    activate: Box::new(move |face: &mut Self| face.send(order(face))),
                    ..StandardItem::default()
                })
            };
            let run = match self.can_start {
                true => item("Start", |_| Order::User(Command::Start)),
                false => item("Pause", |_| Order::User(Command::Pause)),
            };
            vec![
                item("Open the window", |_| Order::Rung(None)),
                run,
                item("Quit", |_| Order::Stop),
            ]
        }

        fn watcher_online(&self) {
            self.is_shown.store(true, Relaxed);
        }

        fn watcher_offline(&self, reason: OfflineReason) -> bool {
            tracing::debug!("no tray at present: {reason:?}");
            self.is_shown.store(false, Relaxed);
            // It may come, or come back.
            true
        }
    }

    /// Puts an icon into the tray, now or as soon as there is one: at login the program may
    /// be faster than the desktop. The icon comes as an order.
    pub fn show(orders: &Sender<Order>) {
        let is_shown = Arc::new(AtomicBool::new(true));
        let face = Face {
            words: String::new(),
            can_start: false,
            orders: orders.clone(),
            picture: picture(),
            is_shown: is_shown.clone(),
        };
        tasks::start(orders, "tray", move || {
            match face.assume_sni_available(true).spawn() {
                Ok(handle) => Order::Tray(TrayIcon { handle, is_shown }),
                Err(why) => {
                    tracing::debug!("no tray: {why}");
                    Order::Done(Ok(String::new()))
                }
            }
        });
    }

    fn picture() -> Vec<Icon> {
        let Some(icon) = peercrawl_ui::icon(ICON) else {
            return Vec::new();
        };
        let mut data = icon.rgba;
        for pixel in data.chunks_exact_mut(4) {
            // The tray wants the opacity first.
            pixel.rotate_right(1);
        }
        vec![Icon {
            width: icon.width as i32,
            height: icon.height as i32,
            data,
        }]
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_icon_outlives_the_tray_and_knows_whether_there_is_one() {
            let is_shown = Arc::new(AtomicBool::new(true));
            let face = Face {
                words: String::new(),
                can_start: true,
                orders: crossbeam_channel::bounded(1).0,
                picture: Vec::new(),
                is_shown: is_shown.clone(),
            };
            assert!(face.watcher_offline(OfflineReason::No), "it stays");
            assert!(!is_shown.load(Relaxed));
            face.watcher_online();
            assert!(is_shown.load(Relaxed));
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use crossbeam_channel::Sender;

    use crate::desktop::link::Order;

    /// There is none.
    #[derive(Debug)]
    pub struct TrayIcon;

    impl TrayIcon {
        /// Nobody sees it.
        pub fn tell(&self, _words: &str, _can_start: bool) {}

        /// Nowhere.
        pub fn is_shown(&self) -> bool {
            false
        }
    }

    /// Nothing to show.
    pub fn show(_orders: &Sender<Order>) {}
}
