//! The first page, answered: with limits, and with what to begin with.

use peercrawl_ui::command::Begin;
use peercrawl_ui::model::{Field, Setting};
use toml_edit::Value;

use crate::desktop::crew::DemoSpec;
use crate::desktop::desk::Desk;
use crate::desktop::stage::Wish;
use crate::desktop::{addresses, settings};

impl Desk {
    /// The first page was answered with *Start crawling*.
    pub(super) fn begin(&mut self, settings: &[Setting], with: Begin) {
        self.forget_first_problems();
        match with {
            Begin::AsConfigured => {}
            Begin::Site(text) => match self.seed_address(&text) {
                Ok(url) => self.set_seeds(vec![url.to_string()]),
                Err(why) => return self.problem(Field::FirstSite, why),
            },
            Begin::Peer(address) => match addresses::check(&address) {
                Ok(()) => self.set_bootstrap(vec![address]),
                Err(why) => return self.problem(Field::PeerAddress, why),
            },
            Begin::JoinFile(path) => {
                self.apply_first(settings);
                self.state.is_first_page_answered = true;
                return self.read_join_file(&path);
            }
            Begin::Demo => {
                // First, because in a demo the window shows what is set, and forgets what
                // the first page proposed.
                self.apply_first(settings);
                self.keep();
                self.demo = Some(DemoSpec::default());
                self.state.demo_past = Default::default();
                self.state.blocked_before = Some(self.config.crawl.blocked_sites.clone());
                return self.begun();
            }
        }
        self.apply_first(settings);
        self.begun();
    }

    /// The settings of the first page: what was changed there, and what it proposed.
    fn apply_first(&mut self, settings: &[Setting]) {
        for setting in settings {
            self.change(setting);
        }
        self.write_first_limits();
    }

    /// The first page has been answered for good. There may be an engine already, paused or
    /// about to finish: it takes part in what was named there.
    pub(super) fn begun(&mut self) {
        self.state.first_run = None;
        if self.demo.is_none() {
            self.set_key("desktop.first_run_done", Value::from(true));
        }
        self.state.kept.wish = Wish::Crawl;
        self.keep();
        self.take_finish_back();
        self.start();
        self.begin_crawl();
        let called = self.config.overlay.bootstrap.clone();
        if self.demo.is_none() && self.engine().is_some() && !called.is_empty() {
            self.call(&called);
        }
    }

    /// What the first page proposes becomes the volunteer's own choice with its answer.
    fn write_first_limits(&mut self) {
        if self.config.desktop.first_run_done {
            return;
        }
        let shown = self.shown.clone();
        // A limit of 500 MB is shown as 1 GB, and stays what it is.
        let disk_gb = settings::view(&self.config).disk_gb;
        for proposed in [
            Setting::DownloadKibPerS(shown.download_kib_per_s),
            Setting::UploadKibPerS(shown.upload_kib_per_s),
            Setting::MonthlyGb(shown.monthly_gb),
            Setting::DiskGb(shown.disk_gb),
            Setting::Connections(shown.connections),
            Setting::CpuPercent(shown.cpu_percent),
        ] {
            if proposed != Setting::DiskGb(disk_gb) {
                self.change(&proposed);
            }
        }
    }

    /// Nothing is wrong with what is typed into the first page.
    pub fn forget_first_problems(&mut self) {
        for field in [Field::FirstSite, Field::PeerAddress, Field::JoinFile] {
            self.forget_problem(field);
        }
    }
}
