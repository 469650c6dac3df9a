//! Traces of recorded requests, read as a stream from the formats in which they are published.
//!
//! | format | layout | origin |
//! |---|---|---|
//! | `arc` | text, `start count 0 seq`: each line requests `count` consecutive keys from `start` | ARC |
//! | `lirs` | text, one decimal key a line; `*` and empty lines are skipped | LIRS |
//! | `u64be` | binary, big-endian keys of 8 bytes | Caffeine's corpus |
//! | `i32be` | binary, big-endian keys of 4 bytes | cache2k |
//! | `address` | text, `l` or `s`, an address as the key, a number | UCSD course traces |
//! | `oracle` | binary, little-endian `time: u32, key: u64, size: u32, next access: i64` | libCacheSim's oracleGeneral |
//!
//! Files may be plain or compressed by gzip, zstd or xz; their first bytes identify the compression.

mod binary;
mod decompress;
mod text;

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) key: u64,
    /// The size of the object; 1 in formats without sizes.
    pub(crate) bytes: u32,
    /// For how many requests a value that is stored now is fresh; `None` for ever.
    pub(crate) ttl: Option<u32>,
}

impl Request {
    pub(crate) fn of(key: u64) -> Self {
        Request { key, bytes: 1, ttl: None }
    }
}

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text: first key, number of consecutive keys, 0, sequence number.
    Arc,
    /// Text: one decimal key a line.
    Lirs,
    /// Binary: big-endian keys of eight bytes.
    U64be,
    /// Binary: big-endian keys of four bytes.
    I32be,
    /// Text: l or s, a hexadecimal address, a number.
    Address,
    /// Binary: time, key, size in bytes, next access; the only format with sizes.
    Oracle,
}

impl Format {
    /// Whether requests of this format have the sizes of their objects.
    pub(crate) fn has_sizes(self) -> bool {
        self == Format::Oracle
    }
}

/// The requests of a trace, in order. An error ends it.
pub(crate) type Requests = Box<dyn Iterator<Item = Result<Request>>>;

/// Opens a trace; `-` is the standard input.
///
/// `wrap` wraps the reader of the compressed file, so that a progress bar can count its bytes.
pub(crate) fn open<R: Read + 'static>(
    path: &Path,
    format: Format,
    wrap: impl FnOnce(Box<dyn Read>) -> R,
) -> Result<Requests> {
    let name = path.display().to_string();
    let raw: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("cannot open {name}"))?)
    };
    read(wrap(raw), format, name)
}

/// Reads a trace from its bytes. Errors mention `name`.
pub(crate) fn read(raw: impl Read + 'static, format: Format, name: String) -> Result<Requests> {
    let plain = decompress::reader(raw).with_context(|| format!("cannot read {name}"))?;
    Ok(match format {
        Format::Arc => Box::new(text::Lines::new(plain, name, text::arc)),
        Format::Lirs => Box::new(text::Lines::new(plain, name, text::lirs)),
        Format::Address => Box::new(text::Lines::new(plain, name, text::address)),
        Format::U64be => Box::new(binary::Records::new(plain, name, binary::u64be())),
        Format::I32be => Box::new(binary::Records::new(plain, name, binary::i32be())),
        Format::Oracle => Box::new(binary::Records::new(plain, name, binary::oracle())),
    })
}

#[cfg(test)]
mod tests;
