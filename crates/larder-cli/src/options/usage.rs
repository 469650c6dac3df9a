//! Errors of the command line: each names where the wrong value is from, and what is expected.

use crate::flags::Cli;
use crate::options::option_sources::GivenOptions;
use crate::options::wrong_usage::WrongUsage;
use crate::output::exit;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Error, FromArgMatches};
use std::ffi::OsString;

/// The error of `larder bench`, with the command that does the same.
pub(crate) fn bench_moved(words: &[OsString]) -> WrongUsage {
    let words: String = words.iter().map(|word| format!(" {}", word.to_string_lossy())).collect();
    let words = if words.is_empty() { " list".to_owned() } else { words };
    WrongUsage(format!(
        "the measurements are the program larder-bench; in its sources: cargo run --release -p larder-bench --{words}"
    ))
}

/// Parses the command line, and returns which options it and the environment set. Exits with status 2 after a usage error,
/// with 0 after `--help` and `--version`.
pub(crate) fn parse() -> (Cli, GivenOptions) {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
        Ok((cli, GivenOptions::of(&matches)))
    });
    parsed.unwrap_or_else(|error| exit("larder", &with_variable(error, std::env::args_os().skip(1))))
}

/// An error about a flag whose value is that of an environment variable names the variable.
fn with_variable(mut error: Error, words: impl Iterator<Item = OsString>) -> Error {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return error };
    if let Some(variable) = variable_of(shown, words) {
        let named = format!("{shown} from {variable}");
        error.insert(ContextKind::InvalidArg, ContextValue::String(named));
    }
    error
}

/// The variable of a flag such as `--threads <N>`, if it is set and the flag is not among the words of the command line.
fn variable_of(shown: &str, words: impl Iterator<Item = OsString>) -> Option<String> {
    let flag = shown.strip_prefix("--")?.split([' ', '=']).next()?;
    let (root, mut chain) = (Cli::command(), Vec::new());
    let mut command = &root;
    for word in words {
        let word = word.to_string_lossy();
        if word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(flag)) {
            return None;
        }
        if let Some(subcommand) = command.find_subcommand(&*word) {
            chain.push(command);
            command = subcommand;
        }
    }
    chain.push(command);
    let arguments = chain.into_iter().rev().flat_map(|command| command.get_arguments());
    let variable = arguments
        .filter(|argument| argument.get_long() == Some(flag))
        .find_map(|argument| argument.get_env())?;
    std::env::var_os(variable)?;
    Some(variable.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use larder_server::Config;

    #[test]
    fn ranges_in_messages_are_those_of_the_server() {
        let message = |words: &[&str]| Cli::try_parse_from(words).expect_err("not a number").to_string();
        for (flag, least, most) in [("--threads", 1, 256), ("--maxclients", 1, 1_000_000)] {
            let message = message(&["larder", "server", flag, "x"]);
            assert!(
                message.contains(&format!("expected a whole number from {least} to {most}\n")),
                "{message}"
            );
            for (value, is_valid) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
                let config = match flag {
                    "--threads" => Config { threads: Some(value), ..Config::default() },
                    _ => Config { maxclients: value, ..Config::default() },
                };
                assert_eq!(config.validate().is_ok(), is_valid, "{flag} {value}");
            }
        }
    }
}
