//! What is on the screen: the last figures, what happened since those before, and what the keys have chosen.

use crate::commands::remote::figures::{Figures, Part, Tier};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Something that the screen must hear of.
#[derive(Debug)]
pub(super) enum Message {
    Figures(Figures),
    /// Why there are none.
    Problem(String),
    /// A signal.
    Stop,
}

#[derive(Debug)]
pub(super) struct Screen {
    pub(super) address: String,
    last: Option<Figures>,
    /// The totals are those of the time below.
    pub(super) figures: Figures,
    pub(super) seconds: f64,
    pub(super) problem: Option<String>,
    pub(super) is_paused: bool,
    selected: usize,
    is_over: bool,
}

impl Screen {
    pub(super) fn new(address: String) -> Screen {
        Screen {
            address,
            last: None,
            figures: Figures::default(),
            seconds: 0.0,
            problem: None,
            is_paused: false,
            selected: 0,
            is_over: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether there were figures yet.
    pub(super) fn has_figures(&self) -> bool {
        self.last.is_some()
    }

    /// A row for each tier, and one for a part without tiers.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Part, Option<&Tier>)> {
        self.figures.parts.iter().flat_map(|part| {
            let count = part.tiers.len().max(1);
            (0..count).map(move |index| (part, part.tiers.get(index)))
        })
    }

    /// The number of the selected row; `None` if there are no rows.
    pub(super) fn selected(&self) -> Option<usize> {
        let last = self.rows().count().checked_sub(1)?;
        Some(self.selected.min(last))
    }

    pub(super) fn take(&mut self, message: Message) {
        match message {
            Message::Stop => self.is_over = true,
            _ if self.is_paused => {}
            Message::Problem(problem) => self.problem = Some(problem),
            Message::Figures(figures) => {
                self.problem = None;
                (self.figures, self.seconds) = match &self.last {
                    Some(earlier) => (figures.since(earlier), figures.seconds_since(earlier)),
                    None => (figures.clone(), figures.server.uptime_seconds),
                };
                self.last = Some(figures);
            }
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let row = self.selected().unwrap_or(0);
        match key.code {
            // In a raw terminal Ctrl-C is a key.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.is_over = true,
            KeyCode::Char('q') | KeyCode::Esc => self.is_over = true,
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Up => self.selected = row.saturating_sub(1),
            KeyCode::Down => self.selected = row + 1,
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// The figures of a shortener that has lost Redis, and of a server, after some requests.
    pub(in crate::commands::remote::top) fn figures(uptime_seconds: f64, requests: u64) -> Figures {
        let latency = json!({ "count": requests, "buckets": [[0.002, requests]] });
        let value = json!({
            "server": { "version": "1.2.3", "started_at": 1.0, "uptime_seconds": uptime_seconds },
            "parts": [
                {
                    "part": "links", "state": "degraded", "notes": { "primaries": "10.0.0.1:6379 with 16384 slots" },
                    "degradations": [
                        { "name": "redis", "seconds": 75.0, "ready": true, "meaning": "Redis does not answer" },
                    ],
                    "tiers": [
                        {
                            "tier": "memory", "lookups": { "hit": 3 * requests, "miss": requests }, "entries": 7,
                            "bytes": 2_048, "capacity_bytes": 4_096, "latency": latency,
                            "miss_causes": { "first": requests, "evicted": 3 * requests },
                        },
                        { "tier": "redis", "lookups": { "error": requests } },
                    ],
                    "top": { "slugs": [{ "name": "evil\u{1b}[31m", "count": 160, "error": 9 }] },
                    "figures": [
                        { "name": "evicted", "total": true, "value": 10 * requests },
                        { "name": "pending_invalidations", "total": false, "value": 4.0 },
                    ],
                },
                { "part": "server", "state": "running", "tiers": [] },
            ],
        });
        serde_json::from_value(value).unwrap()
    }

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn figures_are_those_since_the_last_look_unless_it_is_paused() {
        let mut screen = Screen::new("http://a".to_owned());
        let hits = |screen: &Screen| screen.figures.parts[0].tiers[0].hits();
        screen.take(Message::Figures(figures(100.0, 1_000)));
        assert_eq!((hits(&screen), screen.seconds), (3_000, 100.0));
        screen.take(Message::Figures(figures(102.0, 1_010)));
        assert_eq!((hits(&screen), screen.seconds), (30, 2.0));
        screen.take(Message::Problem("gone".to_owned()));
        assert_eq!((hits(&screen), screen.problem.as_deref()), (30, Some("gone")));
        screen.press(key(KeyCode::Char('p')));
        screen.take(Message::Figures(figures(104.0, 1_030)));
        assert_eq!((hits(&screen), screen.is_paused), (30, true));
        screen.press(key(KeyCode::Char('p')));
        screen.take(Message::Figures(figures(106.0, 1_050)));
        assert_eq!((hits(&screen), screen.seconds, screen.problem.as_deref()), (120, 4.0, None));
    }

    #[test]
    fn arrows_select_a_row_and_stay_within_the_rows() {
        let mut screen = Screen::new("http://a".to_owned());
        assert_eq!(screen.selected(), None);
        screen.press(key(KeyCode::Down));
        screen.take(Message::Figures(figures(1.0, 1)));
        assert_eq!(screen.rows().count(), 3);
        let mut pressed = |code| {
            screen.press(key(code));
            screen.selected()
        };
        assert_eq!([KeyCode::Down, KeyCode::Down, KeyCode::Down].map(&mut pressed), [Some(2); 3]);
        assert_eq!([KeyCode::Up, KeyCode::Up, KeyCode::Up].map(&mut pressed), [Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn keys_and_signals_end_it() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for end in [key(KeyCode::Char('q')), key(KeyCode::Esc), control_c] {
            let mut screen = Screen::new("http://a".to_owned());
            screen.press(key(KeyCode::Char('c')));
            assert!(!screen.is_over());
            screen.press(end);
            assert!(screen.is_over(), "{end:?}");
        }
        let mut screen = Screen::new("http://a".to_owned());
        screen.press(key(KeyCode::Char('p')));
        screen.take(Message::Stop);
        assert!(screen.is_over());
    }
}
