//! The real window with a made-up model, for whoever works on its looks.
//!
//! `cargo run -p peercrawl-ui --example preview -- [KIND] [light|dark] [WIDTH HEIGHT]
//! [130%]`, where KIND is `running` (the default), `first-run`, `empty`, `full`, `demo` or `join`,
//! and the number with a percent sign is the text size. The made-up crawl goes on
//! at 4 models a second, as the real one does; `still` as a last word makes it stand still.

mod made_up;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use peercrawl_ui::model::{Demo, Model, PauseReason, RunState, ThemeChoice};
use peercrawl_ui::{Backend, Command, Waker, WindowOptions};

struct Preview(Arc<Mutex<Arc<Model>>>);

impl Preview {
    fn change(&self, change: impl FnOnce(&mut Model)) {
        let mut model = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut model));
    }
}

impl Backend for Preview {
    fn latest(&mut self) -> Arc<Model> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&mut self, command: Command) {
        println!("{command:?}");
        self.change(|model| made_up::answer(model, &command));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let sizes: Vec<f32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let mut model = match words.first().map(String::as_str) {
        Some("first-run") => made_up::first_run(),
        Some("empty") => made_up::empty(),
        _ => made_up::model(),
    };
    if has("full") {
        Arc::make_mut(&mut model.archive).full = true;
        model.state = RunState::Paused(PauseReason::ArchiveFull);
    }
    if has("demo") {
        model.demo = Some(Demo { can_leave: true });
    }
    if has("join") {
        Arc::make_mut(&mut model.crawl).offer = Some(made_up::offer());
    }
    let settings = Arc::make_mut(&mut model.settings);
    settings.theme = if has("dark") {
        ThemeChoice::Dark
    } else {
        ThemeChoice::Light
    };
    let percent = words.iter().find_map(|word| word.strip_suffix('%'));
    if let Some(Ok(percent)) = percent.map(str::parse) {
        settings.text_percent = percent;
    }
    let still = has("still");
    let window = WindowOptions {
        icon: None,
        size: sizes.first_chunk().copied(),
        is_hidden: false,
    };
    peercrawl_ui::run(window, move |waker| {
        let shared = Arc::new(Mutex::new(Arc::new(model)));
        if !still {
            go_on(waker, Preview(Arc::clone(&shared)));
        }
        Preview(shared)
    })?;
    Ok(())
}

/// Makes 4 models a second.
fn go_on(waker: Waker, preview: Preview) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(250));
            preview.change(|model| {
                model.now_ms += 250;
                if model.state == RunState::Crawling && model.first_run.is_none() {
                    let random = made_up::noise(model.now_ms);
                    model.rates.download_bytes_per_s = (180.0 + 76.0 * random) * 1_024.0;
                    model.rates.pages_per_s = 30.0 + 9.0 * random;
                    model.graphs = Arc::new(made_up::graphs(model.now_ms));
                }
            });
            waker.wake();
        }
    });
}
