//! The events of a history, as text.

use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    most: usize,
    lines: Mutex<VecDeque<Line>>,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// The only key that it concerns.
    key: Option<usize>,
}

impl Trace {
    /// Keeps the last `most` lines; with zero it formats none.
    pub(crate) fn new(most: usize) -> Self {
        Trace { began: Instant::now(), most, lines: Mutex::default() }
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        self.add(None, line);
    }

    pub(crate) fn note_of(&self, key: usize, line: impl FnOnce() -> String) {
        self.add(Some(key), line);
    }

    fn add(&self, key: Option<usize>, line: impl FnOnce() -> String) {
        if self.most == 0 {
            return;
        }
        let text = format!("{:>11.3} ms  {}", self.began.elapsed().as_secs_f64() * 1e3, line());
        let mut lines = self.lines.lock().expect("nobody panics with it");
        if lines.len() == self.most {
            lines.pop_front();
        }
        lines.push_back(Line { text, key });
    }

    /// All lines.
    #[allow(dead_code, reason = "only the checker compares traces")]
    pub(crate) fn text(&self) -> String {
        let lines = self.lines.lock().expect("nobody panics with it");
        lines.iter().map(|line| line.text.clone() + "\n").collect()
    }

    /// The last lines that may concern a key, `most` at most.
    pub(crate) fn about(&self, key: usize, most: usize) -> String {
        let lines = self.lines.lock().expect("nobody panics with it");
        let about_key = lines.iter().rev().filter(|line| line.key.is_none_or(|only| only == key));
        let mut last: Vec<_> = about_key.take(most).map(|line| &line.text[..]).collect();
        last.reverse();
        last.join("\n")
    }
}
