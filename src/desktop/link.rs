//! Between the window and its desk: models one way, orders the other. Neither side ever
//! waits for the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use crossbeam_channel::{Sender, TrySendError};
use peercrawl_ui::model::{ArchiveFile, Field, LookUp};
use peercrawl_ui::{Backend, Command, Model};

use super::tray::TrayIcon;

/// Orders that may wait for the desk.
pub const ORDERS: usize = 256;
/// Commands that the window holds back while the desk is busy.
const HELD_BACK: usize = 1_024;

/// What the desk is told.
#[derive(Debug)]
pub enum Order {
    /// The user wants something.
    User(Command),
    /// The program was started a second time, or somebody clicked its icon.
    Rung(Option<PathBuf>),
    /// The program is to end: the system or the tray says so.
    Stop,
    /// A file or folder was chosen in the desktop's dialog.
    Chosen(Field, PathBuf),
    /// A page was looked up in the archive.
    Found(String, LookUp),
    /// The archive was looked through.
    Archive {
        /// Its files.
        files: Vec<ArchiveFile>,
        /// What the rest of the data directory takes.
        besides_bytes: u64,
    },
    /// It could not be.
    ArchiveUnreadable(String),
    /// Files of the archive are nobody's any more, and are to be moved.
    MoveFiles {
        /// Where they are.
        from: PathBuf,
        /// Where they go.
        to: PathBuf,
        /// Their names, without endings.
        names: Vec<String>,
    },
    /// Files of the archive were moved or deleted, or that went wrong.
    ArchiveChanged(Result<String, String>),
    /// There is an icon for the tray.
    Tray(TrayIcon),
    /// Whether the desktop's own colours are dark, if it says so.
    SystemTheme(Option<bool>),
    /// Something that takes a while is done, or went wrong.
    Done(Result<String, String>),
}

/// The window's end.
pub struct Link {
    pub(super) model: Arc<ArcSwap<Model>>,
    pub(super) orders: Sender<Order>,
    pub(super) held_back: VecDeque<Command>,
}

impl Backend for Link {
    fn latest(&mut self) -> Arc<Model> {
        self.flush();
        self.model.load_full()
    }

    fn send(&mut self, command: Command) {
        if self.held_back.len() == HELD_BACK {
            tracing::warn!("the desk is too busy: a command was lost");
            return;
        }
        self.held_back.push_back(command);
        self.flush();
    }
}

impl Link {
    /// A link to a desk that could not be set to work: the window closes again.
    pub(super) fn dead() -> Self {
        let (orders, _) = crossbeam_channel::bounded(1);
        Self {
            model: Arc::new(ArcSwap::from_pointee(Model {
                quits: true,
                ..Model::default()
            })),
            orders,
            held_back: VecDeque::new(),
        }
    }

    /// Passes on what the desk has room for.
    fn flush(&mut self) {
        while let Some(command) = self.held_back.pop_front() {
            match self.orders.try_send(Order::User(command)) {
                Ok(()) => {}
                Err(TrySendError::Full(Order::User(command))) => {
                    self.held_back.push_front(command);
                    return;
                }
                // The desk has ended; so does the window.
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window must never wait, whatever keeps the desk.
    #[test]
    fn the_window_does_not_wait_for_a_desk_that_takes_nothing() {
        let (orders, receiver) = crossbeam_channel::bounded(ORDERS);
        let mut link = Link {
            orders,
            ..Link::dead()
        };
        // It would stay here for good if one of them had to wait.
        for minutes in 0..(ORDERS + HELD_BACK + 10) as u32 {
            link.send(Command::PauseFor { minutes });
            link.latest();
        }
        assert_eq!(receiver.len(), ORDERS);
        assert_eq!(link.held_back.len(), HELD_BACK);
        // In order, once there is a desk; what was too much is lost, the last of all.
        let mut taken = Vec::new();
        while let Ok(order) = receiver.try_recv() {
            link.latest();
            match order {
                Order::User(Command::PauseFor { minutes }) => taken.push(minutes),
                other => panic!("{other:?}"),
            }
        }
        assert!(taken.into_iter().eq(0..(ORDERS + HELD_BACK) as u32));
    }
}
