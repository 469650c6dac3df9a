//! What a user agent says: the browser, system and device of a person, or the name of a bot.

use crate::store::OTHER_VALUE;
use std::collections::HashMap;
use woothee::parser::Parser;

/// How many parsed user agents are kept. A service sees some thousands; more come from somebody who makes them up.
const MAX_AGENTS: usize = 16_384;
/// What the parser says of what it does not know.
const UNKNOWN: &str = "UNKNOWN";

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    Browser {
        browser: String,
        system: String,
        device: String,
    },
    /// Anything but a browser: a crawler, a preview of a link in a chat, a script.
    Bot(String),
}

/// The parsed user agents, by their hashes: each is parsed once.
#[derive(Default)]
pub(super) struct UserAgents(HashMap<u64, Agent>);

impl UserAgents {
    /// The agent of a user agent; without one it is a bot.
    pub(super) fn parse(&mut self, hash: Option<u64>, text: Option<&[u8]>) -> &Agent {
        if self.0.len() >= MAX_AGENTS {
            self.0.clear();
        }
        // No hash stands for no text.
        let parsed = self.0.entry(hash.unwrap_or(0));
        parsed.or_insert_with(|| parse(&String::from_utf8_lossy(text.unwrap_or_default())))
    }
}

fn parse(text: &str) -> Agent {
    let bot = |name: &str| Agent::Bot(if name == "misc crawler" { OTHER_VALUE } else { name }.to_owned());
    let Some(parsed) = Parser::new().parse(text) else { return bot(OTHER_VALUE) };
    let device = match parsed.category {
        "pc" => "desktop",
        "smartphone" if is_tablet(text) => "tablet",
        "smartphone" | "mobilephone" => "phone",
        "appliance" => "console",
        UNKNOWN => return bot(OTHER_VALUE),
        _ => return bot(parsed.name),
    };
    let system = match parsed.os {
        UNKNOWN => OTHER_VALUE,
        "Mac OSX" => "macOS",
        "iPhone" | "iPad" | "iPod" => "iOS",
        // Browsers say 10 for 11 too.
        windows if windows.starts_with("Windows") => "Windows",
        other => other,
    };
    let browser = match parsed.name {
        UNKNOWN => OTHER_VALUE,
        "SamsungBrowser" => "Samsung Internet",
        name => name,
    };
    Agent::Browser { browser: browser.to_owned(), system: system.to_owned(), device: device.to_owned() }
}

/// Tablets with Android leave out the word that phones have.
fn is_tablet(text: &str) -> bool {
    text.contains("iPad") || (text.contains("Android") && !text.contains("Mobile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> String {
        match parse(text) {
            Agent::Bot(name) => format!("bot {name}"),
            Agent::Browser { browser, system, device } => format!("{browser}, {system}, {device}"),
        }
    }

    #[test]
    fn browsers_of_today_are_known() {
        for (text, expected) in [
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
                "Chrome, Windows, desktop",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0",
                "Edge, Windows, desktop",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15",
                "Safari, macOS, desktop",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
                "Safari, iOS, phone",
            ),
            (
                "Mozilla/5.0 (iPad; CPU OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
                "Safari, iOS, tablet",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
                "Chrome, Android, phone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 14; SM-X910) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
                "Chrome, Android, tablet",
            ),
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "Firefox, Linux, desktop",
            ),
        ] {
            assert_eq!(short(text), expected, "{text}");
        }
    }

    #[test]
    fn whatever_is_no_browser_is_a_bot() {
        for (text, expected) in [
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "bot Googlebot"),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; NewBot/1.2; +https://new.example/bot)",
                "bot other",
            ),
            ("facebookexternalhit/1.1", "bot facebook"),
            ("curl/8.5.0", "bot HTTP Library"),
            ("Go-http-client/1.1", "bot other"),
            ("", "bot other"),
        ] {
            assert_eq!(short(text), expected, "{text}");
        }
    }

    #[test]
    fn made_up_user_agents_do_not_fill_the_memory() {
        let mut agents = UserAgents::default();
        for n in 0..3 * MAX_AGENTS as u64 {
            agents.parse(Some(n), Some(b"curl/8.5.0"));
            assert!(agents.0.len() <= MAX_AGENTS);
        }
    }
}
