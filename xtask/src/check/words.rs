//! Words that the glossary replaces: each must not occur in the source or the documentation.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};
use std::path::PathBuf;

const WORDS: &str = include_str!("words.txt");

/// The folders and files that are searched, and the endings of their files.
const PLACES: &[&str] =
    &["crates", "docs", "xtask", "config", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".html", ".js", ".css"];

/// Lines that use a replaced word.
pub(super) fn check() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for file in searched() {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        wrong.extend(
            replaced_words(&text)
                .map(|(line, old, new)| format!("{name}:{line}: say {new:?} instead of {old:?}")),
        );
    }
    Ok(wrong)
}

fn searched() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for place in PLACES {
        let path = root().join(place);
        match path.is_dir() {
            true => files.extend(ENDINGS.iter().flat_map(|ending| files_below(&path, ending))),
            false => files.push(path),
        }
    }
    files.retain(|file| {
        !file.components().any(|part| part.as_os_str() == "node_modules") && !file.ends_with(file!())
    });
    files
}

/// Each replaced word in a text: its line, counted from 1, the word, and what to say instead.
fn replaced_words(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let lines: Vec<String> = text.lines().map(str::to_lowercase).collect();
    pairs().flat_map(move |(old, new)| {
        let hits: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| contains_word(line, old))
            .map(|(at, _)| at + 1)
            .collect();
        hits.into_iter().map(move |line| (line, old, new))
    })
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
}

/// Whether a line has the word with no letter directly before or behind it, but for an ending such as `s`.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let behind = line[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric)
            && !behind.is_some_and(|letter| letter.is_alphanumeric() && letter != 's')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_word_is_found_in_any_case_with_its_line() {
        let found: Vec<_> = replaced_words("fine\nThe Caretaker and the hit rates").collect();
        assert_eq!(found, [(2, "caretaker", "coherence task"), (2, "hit rate", "hit ratio")]);
    }

    #[test]
    fn longer_word_is_not_mistaken_for_a_replaced_one() {
        assert_eq!(replaced_words("in graceful words").count(), 0);
    }

    #[test]
    fn every_line_of_the_list_is_a_pair() {
        let lines = WORDS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(pairs().count(), lines);
    }
}
