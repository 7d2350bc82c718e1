//! How much disk the archive may have, and what happens when it is used up.

use std::collections::VecDeque;

/// What to do when the limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Take nothing more in: the crawl pauses, and what was stored stays.
    #[default]
    Stop,
    /// Remove the oldest complete files, of those that this program named. A revisit may then
    /// refer to a record that is gone; it still says from where and when.
    RemoveOldest,
}

/// The disk that the archive may have, indexes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLimit {
    /// Bytes at most.
    pub limit_bytes: u64,
    /// What to do then.
    pub when_full: WhenFull,
}

impl DiskLimit {
    /// No limit but the disk's own.
    pub const NONE: Self = Self {
        limit_bytes: u64::MAX,
        when_full: WhenFull::Stop,
    };
}

/// A complete file with its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complete {
    pub name: String,
    pub bytes: u64,
}

/// What has to be done before `more_bytes` can be taken in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Remove so many of the oldest files, perhaps none.
    Remove(usize),
    /// There is no way.
    None,
}

/// Whether `more_bytes` fit beside `stays_bytes`, which cannot be removed (the open file,
/// what was set aside, and what is not ours), and the complete files, oldest first.
pub(super) fn room(
    limit: DiskLimit,
    complete: &VecDeque<Complete>,
    stays_bytes: u64,
    more_bytes: u64,
) -> Room {
    let sum: u64 = complete.iter().map(|file| file.bytes).sum();
    let mut wanted = sum.saturating_add(stays_bytes).saturating_add(more_bytes);
    if wanted <= limit.limit_bytes {
        return Room::Remove(0);
    }
    if limit.when_full == WhenFull::Stop {
        return Room::None;
    }
    for (count, file) in complete.iter().enumerate() {
        wanted -= file.bytes;
        if wanted <= limit.limit_bytes {
            return Room::Remove(count + 1);
        }
    }
    Room::None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(when_full: WhenFull, limit_bytes: u64, more_bytes: u64) -> Room {
        let file = |name: &str, bytes| Complete {
            name: name.to_owned(),
            bytes,
        };
        let limit = DiskLimit {
            limit_bytes,
            when_full,
        };
        room(limit, &[file("a", 10), file("b", 20)].into(), 5, more_bytes)
    }

    #[test]
    fn room_is_found_made_or_refused() {
        assert_eq!(asked(WhenFull::Stop, 40, 5), Room::Remove(0));
        assert_eq!(asked(WhenFull::Stop, 40, 6), Room::None);
        assert_eq!(asked(WhenFull::RemoveOldest, 40, 6), Room::Remove(1));
        assert_eq!(asked(WhenFull::RemoveOldest, 40, 16), Room::Remove(2));
        assert_eq!(asked(WhenFull::RemoveOldest, 40, 36), Room::None);
    }
}
