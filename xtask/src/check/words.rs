//! Checks that the source and the documentation do not use words that the glossary replaces.

use crate::workspace::{files_below, root};
use anyhow::{Context, Result};
use std::path::PathBuf;

const WORDS: &str = include_str!("words.txt");

/// The folders and files to search, and the endings of their files.
const SEARCHED: &[&str] =
    &["crates", "docs", "xtask", "config", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".html", ".js", ".css"];

/// The lines with a replaced word.
pub(super) fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in searched_files() {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        faults.extend(
            replaced_words(&text)
                .map(|(line, old, new)| format!("{name}:{line}: write {new:?} instead of {old:?}")),
        );
    }
    Ok(faults)
}

fn searched_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in SEARCHED {
        let path = root().join(name);
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

/// Each replaced word in a text: its line, counted from 1, the word, and its replacement.
fn replaced_words(text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let lines: Vec<String> = text.lines().map(str::to_lowercase).collect();
    pairs().flat_map(move |(old, new)| {
        let hits: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| contains_word(line, old))
            .map(|(index, _)| index + 1)
            .collect();
        hits.into_iter().map(move |line| (line, old, new))
    })
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    WORDS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
}

/// Whether a line contains the word, with no letter directly before or after it except a plural `s`.
fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric)
            && !after.is_some_and(|letter| letter.is_alphanumeric() && letter != 's')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_words_ignore_case_and_count_lines() {
        let found: Vec<_> = replaced_words("fine\nThe Caretaker and the hit rates").collect();
        assert_eq!(found, [(2, "caretaker", "coherence task"), (2, "hit rate", "hit ratio")]);
    }

    #[test]
    fn replaced_words_skip_longer_words() {
        assert_eq!(replaced_words("in graceful words").count(), 0);
    }

    #[test]
    fn every_line_of_the_list_is_a_pair_of_words() {
        let lines = WORDS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(pairs().count(), lines);
    }
}
