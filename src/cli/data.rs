//! The data directory that a command line names.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use crossbeam_channel::Receiver;
use peercrawl::data_directory::DataDirectory;
use peercrawl::ledger::KeepError;
use peercrawl::store::StoreError;

/// How soon to look again whether the disk has room.
const LOOK: Duration = Duration::from_secs(1);

/// Where results are kept.
#[derive(Args, Default)]
pub struct DataArguments {
    /// The data directory [default: the platform's own place]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl DataArguments {
    /// Where it is, whether or not anything is there.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        let usual = DataDirectory::usual_place;
        let path = self.data.clone().or_else(usual);
        path.context("this system has no place for data: name one with --data")
    }

    /// Takes it into use, and waits while the disk has no room for that.
    pub fn open(&self, stop: &Receiver<()>) -> anyhow::Result<DataDirectory> {
        let (path, fresh) = (self.path()?, super::passing_secret()?);
        let directory = once_there_is_room(stop, || Ok(DataDirectory::open(&path, fresh)?))?;
        tell(&directory.notices);
        Ok(directory)
    }

    /// The same; `None` if nobody named a directory and another process has the usual
    /// one: a second crawl should not fail for that.
    pub fn open_if_free(&self, stop: &Receiver<()>) -> anyhow::Result<Option<DataDirectory>> {
        match self.open(stop) {
            Err(error) if self.data.is_none() && is_in_use(&error) => {
                let why = super::in_words(&error);
                eprintln!("peercrawl: {why}; this crawl keeps nothing");
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    let why = error.downcast_ref();
    matches!(why, Some(KeepError::Store(StoreError::InUse(..))))
}

/// Says what had to be put right.
pub fn tell(notices: &[String]) {
    for notice in notices {
        eprintln!("peercrawl: {notice}");
    }
}

/// Opens what is kept, and waits while the disk has no room for it.
pub fn once_there_is_room<T>(
    stop: &Receiver<()>,
    open: impl Fn() -> Result<T, KeepError>,
) -> anyhow::Result<T> {
    let mut is_told = false;
    loop {
        match open() {
            Err(error) if error.is_disk_full() => {
                if !std::mem::replace(&mut is_told, true) {
                    eprintln!("peercrawl: {error}");
                }
                if stop.recv_timeout(LOOK).is_ok() {
                    return Err(error.into());
                }
            }
            opened => return Ok(opened?),
        }
    }
}
