//! The thread that writes receipts down.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::files::Files;
use super::{Receipt, line};
use crate::engine::StopSignal;

/// Lines that are written in one go at most; a fraction of a file, if that is less.
const BATCH_BYTES: usize = 64 << 10;
/// How long to wait before a disk that took nothing is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// See the module.
pub struct Writer {
    receipts: Receiver<Receipt>,
    files: Files,
    stop: StopSignal,
    batch_bytes: usize,
}

impl Writer {
    pub(super) fn new(receipts: Receiver<Receipt>, files: Files, stop: StopSignal) -> Self {
        let batch_bytes = BATCH_BYTES.min(files.most_bytes() as usize / 4);
        Self {
            receipts,
            files,
            stop,
            batch_bytes,
        }
    }

    /// Works until nobody is left who could give a receipt.
    pub fn run(mut self) {
        let mut batch = Vec::with_capacity(self.batch_bytes);
        let mut lost = 0_u64;
        while let Ok(first) = self.receipts.recv() {
            let mut next = Some(first);
            let mut count = 0;
            while let Some(receipt) = next {
                if let Err(error) = line::write(&receipt, &mut batch) {
                    // Text and numbers into memory: this cannot be reached.
                    tracing::error!("a receipt could not be spelled: {error}");
                }
                count += 1;
                let has_room = batch.len() < self.batch_bytes;
                next = has_room.then(|| self.receipts.try_recv().ok()).flatten();
            }
            if !self.write(&batch) {
                lost += count;
            }
            batch.clear();
        }
        if let Err(error) = self.files.sync() {
            tracing::warn!("receipts may not have reached the disk: {error}");
        }
        if lost > 0 {
            tracing::error!("{lost} receipts could not be written before the end");
        }
    }

    /// Writes a batch, and tries until it succeeds or the engine stops. Meanwhile the
    /// channel fills and downloaders wait: nothing is fetched that is not written down.
    fn write(&mut self, batch: &[u8]) -> bool {
        let mut is_told = false;
        loop {
            let error: io::Error = match self.files.append(batch) {
                Ok(()) => return true,
                Err(error) => error,
            };
            if !is_told {
                tracing::error!("receipts cannot be written, so fetching waits: {error}");
                is_told = true;
            }
            if self.stop.recv_timeout(RETRY) == Err(RecvTimeoutError::Disconnected) {
                return false;
            }
        }
    }
}
