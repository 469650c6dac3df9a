//! Text traces, parsed line by line.

use super::Request;
use anyhow::{Context, Result, bail};
use std::io::BufRead;
use std::ops::RangeInclusive;

/// No format has longer lines. The limit keeps a binary file from being read into memory as one line.
const MAX_LINE_BYTES: usize = 4096;
/// No line of a real trace has more keys. The limit detects a wrong format before it yields endless requests.
const MAX_KEYS_PER_LINE: u64 = 1 << 24;

/// Consecutive keys. Inclusive, so that `u64::MAX` can be one of them.
type Keys = RangeInclusive<u64>;

#[allow(clippy::reversed_empty_ranges, reason = "this is how an empty inclusive range is written")]
const NO_KEYS: Keys = 1..=0;

/// Parses the keys of a line; an empty range if the line is to be skipped.
pub(super) type ParseLine = fn(&str) -> Result<Keys>;

/// The requests of a text file.
pub(super) struct Lines<R> {
    source: R,
    name: String,
    parse: ParseLine,
    line: Vec<u8>,
    line_number: u64,
    pending: Keys,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(source: R, name: String, parse: ParseLine) -> Self {
        Lines { source, name, parse, line: Vec::new(), line_number: 0, pending: NO_KEYS, ended: false }
    }

    /// Reads the keys of the next line that has any into `pending`; false at the end.
    fn advance(&mut self) -> Result<bool> {
        while self.pending.is_empty() {
            self.line.clear();
            self.line_number += 1;
            let mut limited = std::io::Read::take(&mut self.source, MAX_LINE_BYTES as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line);
            if read.with_context(|| format!("{}, line {}", self.name, self.line_number))? == 0 {
                return Ok(false);
            }
            let keys = parse_line(&self.line, self.parse);
            self.pending = keys.with_context(|| format!("{}, line {}", self.name, self.line_number))?;
        }
        Ok(true)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.pending.is_empty() && !self.ended {
            match self.advance() {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.pending.next().map(|key| Ok(Request::of(key)))
    }
}

fn parse_line(line: &[u8], parse: ParseLine) -> Result<Keys> {
    if line.len() > MAX_LINE_BYTES {
        bail!("longer than {MAX_LINE_BYTES} bytes: not a trace of this format");
    }
    let line = std::str::from_utf8(line).context("not text: a trace of another format?")?.trim();
    if line.is_empty() { Ok(NO_KEYS) } else { parse(line) }
}

/// `start count 0 seq`
pub(super) fn arc(line: &str) -> Result<Keys> {
    let mut columns = line.split_ascii_whitespace();
    let start = number(columns.next(), "the first key")?;
    let count = number(columns.next(), "the number of keys")?;
    if columns.clone().count() != 2 {
        bail!("{line:?} should have four columns");
    }
    if count > MAX_KEYS_PER_LINE {
        bail!("{count} keys in one line; {MAX_KEYS_PER_LINE} are allowed");
    }
    if count == 0 {
        return Ok(NO_KEYS);
    }
    let last = start.checked_add(count - 1);
    Ok(start..=last.with_context(|| format!("{count} keys from {start} on pass 2^64"))?)
}

/// One key per line; `*` separates phases of the traced program.
pub(super) fn lirs(line: &str) -> Result<Keys> {
    if line == "*" {
        return Ok(NO_KEYS);
    }
    let key = number(Some(line), "the key")?;
    Ok(key..=key)
}

/// `l 0x1fffff50 1`
pub(super) fn address(line: &str) -> Result<Keys> {
    let mut columns = line.split_ascii_whitespace();
    let access = columns.next();
    if !matches!(access, Some("l" | "s")) {
        bail!("{:?} should be l or s", access.unwrap_or_default());
    }
    let column = columns.next().context("the address is missing")?;
    let key = column
        .strip_prefix("0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .with_context(|| format!("{column:?} is not a hexadecimal address like 0x1ff"))?;
    Ok(key..=key)
}

fn number(column: Option<&str>, what: &str) -> Result<u64> {
    let column = column.with_context(|| format!("{what} is missing"))?;
    column.parse().ok().with_context(|| format!("{what} is {column:?}, not a number from 0 to 2^64 - 1"))
}
