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
    /// What somebody runs and that is no browser, such as curl, or unknown.
    Program(String),
    /// What follows links by itself: a crawler, or a preview of a link in a chat.
    Bot(String),
}

/// What bots have in their user agents, in lower case, and their names. Programs for chats fetch a link to show a preview of it.
const BOTS: [(&str, &str); 19] = [
    ("whatsapp/", "WhatsApp"),
    ("slackbot", "Slack"),
    ("slack-imgproxy", "Slack"),
    ("telegrambot", "Telegram"),
    ("discordbot", "Discord"),
    ("skypeuripreview", "Microsoft Teams"),
    ("linkedinbot", "LinkedIn"),
    ("twitterbot", "X"),
    ("facebookexternalhit", "facebook"),
    ("facebookcatalog", "facebook"),
    ("meta-external", "facebook"),
    ("redditbot", "Reddit"),
    ("pinterestbot", "Pinterest"),
    ("mastodon", "Mastodon"),
    ("bluesky cardyb", "Bluesky"),
    ("embedly", "Embedly"),
    ("iframely", "Iframely"),
    ("vkshare", "VK"),
    ("headlesschrome", "HeadlessChrome"),
];

/// What only bots of other names have in their user agents, in lower case: the address of a page about them, say.
const SIGNS_OF_BOTS: [&str; 5] = ["crawl", "spider", "preview", "+http://", "+https://"];

/// The parsed user agents, by their hashes: each is parsed once.
#[derive(Default)]
pub(super) struct UserAgents(HashMap<u64, Agent>);

impl UserAgents {
    /// The agent of a user agent; without one it is a program.
    pub(super) fn parse(&mut self, hash: Option<u64>, text: Option<&[u8]>) -> &Agent {
        if self.0.len() >= MAX_AGENTS {
            self.0.clear();
        }
        // No hash stands for no text.
        let parsed = self.0.entry(hash.unwrap_or(0));
        parsed.or_insert_with(|| parse(&String::from_utf8_lossy(text.unwrap_or_default())))
    }
}

/// Whether this is the user agent of a bot.
pub(super) fn is_bot(text: &str) -> bool {
    matches!(parse(text), Agent::Bot(_))
}

/// The name of a bot that the parser does not know.
fn name_of_bot(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let known = BOTS.iter().find(|(sign, _)| text.contains(sign));
    let is_bot = || has_word_bot(&text) || SIGNS_OF_BOTS.iter().any(|sign| text.contains(sign));
    known.map(|(_, name)| *name).or_else(|| is_bot().then_some(OTHER_VALUE))
}

/// Whether a word ends with "bot": `NewBot/1.2`, and not the telephones named Cubot.
fn has_word_bot(text: &str) -> bool {
    text.match_indices("bot").any(|(start, sign)| {
        let rest = text.as_bytes().get(start + sign.len());
        !rest.is_some_and(u8::is_ascii_alphanumeric) && !text[..start].ends_with("cu")
    })
}

fn parse(text: &str) -> Agent {
    if let Some(name) = name_of_bot(text).filter(|name| *name != OTHER_VALUE) {
        return Agent::Bot(name.to_owned());
    }
    let parsed = Parser::new().parse(text);
    if let Some(crawler) = parsed.as_ref().filter(|parsed| parsed.category == "crawler") {
        let name = if crawler.name == "misc crawler" { OTHER_VALUE } else { crawler.name };
        return Agent::Bot(name.to_owned());
    }
    if name_of_bot(text).is_some() {
        return Agent::Bot(OTHER_VALUE.to_owned());
    }
    let program = |name: &str| Agent::Program(name.to_owned());
    let Some(parsed) = parsed else { return program(OTHER_VALUE) };
    let device = match parsed.category {
        "pc" => "desktop",
        "smartphone" if is_tablet(text) => "tablet",
        "smartphone" | "mobilephone" => "phone",
        "appliance" => "console",
        UNKNOWN => return program(OTHER_VALUE),
        _ => return program(parsed.name),
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
            Agent::Program(name) => format!("program {name}"),
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
    fn crawlers_and_previews_are_bots_and_other_clients_are_programs() {
        for (text, expected) in [
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "bot Googlebot"),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; NewBot/1.2; +https://new.example/bot)",
                "bot other",
            ),
            ("facebookexternalhit/1.1", "bot facebook"),
            ("WhatsApp/2.23.20.0 A", "bot WhatsApp"),
            ("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "bot Slack"),
            ("TelegramBot (like TwitterBot)", "bot Telegram"),
            ("Twitterbot/1.0", "bot X"),
            ("Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)", "bot Discord"),
            (
                "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
                "bot Microsoft Teams",
            ),
            (
                "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
                "bot LinkedIn",
            ),
            ("GPTBot/1.2; +https://openai.com/gptbot", "bot other"),
            ("curl/8.5.0", "program HTTP Library"),
            ("Go-http-client/1.1", "program other"),
            ("", "program other"),
            (
                "Mozilla/5.0 (Linux; Android 13; CUBOT X70) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
                "Chrome, Android, phone",
            ),
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
