//! What happened in a history, for people to read; kept only when one is run again because it failed.

use std::sync::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    lines: Option<Mutex<Vec<String>>>,
}

impl Trace {
    pub(crate) fn new(kept: bool) -> Self {
        Trace { began: Instant::now(), lines: kept.then(Mutex::default) }
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.lines {
            let line = format!("{:>7} ms  {}", self.began.elapsed().as_millis(), line());
            lines.lock().expect("nobody panics with it").push(line);
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines
            .as_ref()
            .map_or_else(Vec::new, |lines| lines.lock().expect("nobody panics with it").clone())
    }
}
