//! The options of `cargo xtask soak`.

use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::time::Duration;

/// What the command line says.
#[derive(Debug, PartialEq)]
pub(super) struct Options {
    pub(super) time: Duration,
    pub(super) program: Option<PathBuf>,
    /// The program of another version, which runs beside that one.
    pub(super) former: Option<PathBuf>,
    pub(super) has_rounds: bool,
    pub(super) seed: Option<u64>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut options =
            Options { time: Duration::ZERO, program: None, former: None, has_rounds: true, seed: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} has no value"));
            match *word {
                "--hours" => {
                    let text = value()?;
                    let hours: Option<f64> =
                        text.parse().ok().filter(|hours| (0.01..=10_000.0).contains(hours));
                    let hours =
                        hours.with_context(|| format!("--hours is {text}: expected 0.01 to 10000"))?;
                    options.time = Duration::from_secs_f64(hours * 3_600.0);
                }
                "--program" => options.program = Some(PathBuf::from(value()?)),
                "--former" => options.former = Some(PathBuf::from(value()?)),
                "--no-rounds" => options.has_rounds = false,
                "--seed" => options.seed = Some(value()?.parse().context("--seed is not a whole number")?),
                _ => bail!("soak has no option {word}"),
            }
        }
        ensure!(!options.time.is_zero(), "--hours is missing");
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed() {
        let words = ["--hours", "0.1", "--program", "a/b", "--former", "a/c", "--no-rounds", "--seed", "7"];
        let (program, former) = (Some(PathBuf::from("a/b")), Some(PathBuf::from("a/c")));
        let time = Duration::from_secs(360);
        let expected = Options { time, program, former, has_rounds: false, seed: Some(7) };
        assert_eq!(Options::parse(&words).unwrap(), expected);
        for words in
            [&[][..], &["--hours"], &["--hours", "0"], &["--hours", "x"], &["--hours", "1", "--fast"]]
        {
            assert!(Options::parse(words).is_err(), "{words:?}");
        }
    }
}
