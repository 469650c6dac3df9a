//! The options of a [`Builder`] that are data: one table with the name, default and range of each, and how each is read from a
//! text. The ranges of the calls of the builder are those of the table.

use super::Builder;
use crate::policy::{MAX_GRACE, Policy, Prefer};
use crate::report::error::BuildError;
use crate::value::codec::Format;
use crate::value::compression::Compression;
use larder_engine::MAX_TTL;
use larder_text::{ByteSize, parse_switch, parse_time, similar};
use std::ops::RangeInclusive;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// The most names that an error suggests.
const MAX_SUGGESTIONS: usize = 3;

/// An option that [`Builder::option`] takes. Listed by [`Builder::options`].
#[derive(Debug)]
pub struct BuilderOption {
    name: &'static str,
    default: Option<&'static str>,
    /// Empty if every value is valid.
    range: &'static str,
    set: Set,
}

/// What the text of an option is, in which range, and what it sets.
#[derive(Debug)]
enum Set {
    Time(RangeInclusive<Duration>, fn(Builder, Duration) -> Builder),
    Size(RangeInclusive<u64>, fn(Builder, u64) -> Builder),
    Count(RangeInclusive<u64>, fn(Builder, u64) -> Builder),
    /// From 0 to 1.
    Part(fn(Builder, f32) -> Builder),
    Switch(fn(Builder, bool) -> Builder),
    /// One of several words. `None` for others.
    Word(fn(Builder, &str) -> Option<Builder>),
    Text(fn(Builder, &str) -> Builder),
    /// The name of a file that each connection reads.
    File(fn(Builder, &str) -> Builder),
    /// The name of a file in PEM that is read at once.
    Pem(TlsFile),
}

/// A file of `Builder::redis_tls`.
#[derive(Clone, Copy, Debug)]
pub(super) enum TlsFile {
    Roots,
    Certificate,
    Key,
}

/// All of them, in the order of the page `docs/options.md`.
static OPTIONS: [BuilderOption; 33] = [
    row("ttl", None, "1 ms to 8,900 years", Set::Time(MS..=MAX_TTL, Builder::ttl)),
    row(
        "negative_ttl",
        None,
        "1 ms to 8,900 years",
        Set::Time(MS..=MAX_TTL, |builder, ttl| builder.policy(Policy::new().negative_ttl(ttl))),
    ),
    row(
        "grace",
        Some("0"),
        "0 to 4,450 years",
        Set::Time(Duration::ZERO..=MAX_GRACE, |builder, grace| builder.policy(Policy::new().grace(grace))),
    ),
    row(
        "retry_after",
        Some("5s"),
        "",
        Set::Time(ANY_TIME, |builder, pause| builder.policy(Policy::new().retry_after(pause))),
    ),
    row(
        "soft_timeout",
        None,
        "",
        Set::Time(ANY_TIME, |builder, timeout| builder.policy(Policy::new().soft_timeout(timeout))),
    ),
    row(
        "hard_timeout",
        None,
        "",
        Set::Time(ANY_TIME, |builder, timeout| builder.policy(Policy::new().hard_timeout(timeout))),
    ),
    row("jitter", Some("0"), "0 to 1", Set::Part(|builder, part| builder.policy(Policy::new().jitter(part)))),
    row("memory_bytes", Some("64MiB"), "1 KiB to 2^62", Set::Size(1 << 10..=1 << 62, Builder::memory_bytes)),
    row("memory_entries", None, "1 to 2^62", Set::Count(1..=1 << 62, Builder::memory_entries)),
    row("redis", None, "", Set::Text(|builder, url| builder.redis(url))),
    row("redis_timeout", Some("250ms"), "1 ms to 1 min", Set::Time(MS..=MINUTE, Builder::redis_timeout)),
    row(
        "redis_connect_timeout",
        None,
        "1 ms to 1 min",
        Set::Time(MS..=MINUTE, Builder::redis_connect_timeout),
    ),
    row(
        "redis_keepalive",
        Some("60s"),
        "1 s to 1 h",
        Set::Time(SECOND..=Duration::from_secs(3_600), Builder::redis_keepalive),
    ),
    row(
        "redis_connections",
        Some("4"),
        "1 to 64",
        Set::Count(1..=64, |builder, connections| builder.redis_connections(connections as usize)),
    ),
    row("redis_user", None, "", Set::Text(Builder::redis_user_name)),
    row("redis_password", None, "", Set::Text(Builder::redis_password)),
    row("redis_password_file", None, "", Set::File(Builder::redis_password_file)),
    row("redis_roots", None, "", Set::Pem(TlsFile::Roots)),
    row("redis_certificate", None, "", Set::Pem(TlsFile::Certificate)),
    row("redis_key", None, "", Set::Pem(TlsFile::Key)),
    row("sentinel_fence", Some("true"), "", Set::Switch(Builder::sentinel_fence)),
    row(
        "replica_fence",
        Some("0"),
        "0 to 100",
        Set::Count(0..=100, |builder, replicas| builder.replica_fence(replicas as u32)),
    ),
    row(
        "max_lag",
        Some("1s"),
        "10 ms to 1 min",
        Set::Time(Duration::from_millis(10)..=MINUTE, Builder::max_lag),
    ),
    row("disconnected", Some("30s"), "", Set::Time(ANY_TIME, Builder::disconnected)),
    row("prefer", Some("coherence"), "coherence or availability", Set::Word(prefer)),
    row("lease_wait", Some("2s"), "", Set::Time(ANY_TIME, Builder::lease_wait)),
    row("foreign_writers", Some("false"), "", Set::Switch(Builder::foreign_writers)),
    row("allow_uncoordinated", Some("false"), "", Set::Switch(Builder::allow_uncoordinated)),
    row("enabled", Some("true"), "", Set::Switch(Builder::enabled)),
    row(
        "format",
        Some("postcard"),
        "postcard, json (feature `json`) or messagepack (feature `messagepack`)",
        Set::Word(format),
    ),
    row(
        "compression",
        Some("none"),
        "none, lz4 (feature `lz4`) or zstd (feature `zstd`)",
        Set::Word(compression),
    ),
    row(
        "compress_from_bytes",
        Some("1KiB"),
        "",
        Set::Size(0..=u64::MAX, |builder, bytes| builder.compress_from_bytes(saturated(bytes))),
    ),
    row(
        "max_value_bytes",
        Some("64MiB"),
        "1 to 2^32 - 1",
        Set::Size(1..=u32::MAX as u64, |builder, bytes| builder.max_value_bytes(saturated(bytes))),
    ),
];

const ANY_TIME: RangeInclusive<Duration> = Duration::ZERO..=Duration::MAX;

const fn row(
    name: &'static str,
    default: Option<&'static str>,
    range: &'static str,
    set: Set,
) -> BuilderOption {
    BuilderOption { name, default, range, set }
}

/// A number of bytes; all that this machine can address for more.
fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn prefer(builder: Builder, word: &str) -> Option<Builder> {
    Some(builder.prefer(match word {
        "coherence" => Prefer::Coherence,
        "availability" => Prefer::Availability,
        _ => return None,
    }))
}

fn format(builder: Builder, word: &str) -> Option<Builder> {
    Some(builder.format(match word {
        "postcard" => Format::Postcard,
        #[cfg(feature = "json")]
        "json" => Format::Json,
        #[cfg(feature = "messagepack")]
        "messagepack" => Format::MessagePack,
        _ => return None,
    }))
}

fn compression(builder: Builder, word: &str) -> Option<Builder> {
    Some(builder.compression(match word {
        "none" => Compression::None,
        #[cfg(feature = "lz4")]
        "lz4" => Compression::Lz4,
        #[cfg(feature = "zstd")]
        "zstd" => Compression::Zstd,
        _ => return None,
    }))
}

impl Builder {
    /// Sets an option by its name from a text, as an environment variable, a file or another language has it. Every option but
    /// the functions, the clock and the namespace can be set so: [`Builder::options`] lists them. A later call of the same
    /// option, in either form, replaces it.
    ///
    /// Times have a unit (`250ms`, `30s`, `5m`, `1.5h`, `2d`), sizes may have one (`65536`, `64MiB`); switches are `true` or
    /// `false`. The page `docs/options.md` has a table.
    ///
    /// # Examples
    /// ```
    /// use larder::Cache;
    ///
    /// let mut builder = Cache::builder("shop");
    /// for (name, value) in [("ttl", "5m"), ("memory_bytes", "256MiB"), ("jitter", "0.1")] {
    ///     builder = builder.option(name, value)?;
    /// }
    /// let cache = builder.build()?;
    ///
    /// let error = Cache::builder("shop").option("max_lagg", "1s").unwrap_err();
    /// assert_eq!(error.to_string(), r#"there is no option "max_lagg"; did you mean max_lag?"#);
    /// # Ok::<(), larder::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::UnknownOption`], with the names that are similar; [`BuildError::Option`], with the name, the value and the
    /// range, if the text is no valid value, or if a certificate or a key cannot be read from its file.
    pub fn option(self, name: &str, value: &str) -> Result<Builder, BuildError> {
        match find(name) {
            Some(option) => option.apply(self, value),
            None => {
                let known: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
                let mut similar = similar(name, &known);
                similar.truncate(MAX_SUGGESTIONS);
                Err(BuildError::UnknownOption { name: name.to_owned(), similar })
            }
        }
    }

    /// The options that [`Builder::option`] takes.
    pub fn options() -> &'static [BuilderOption] {
        &OPTIONS
    }
}

impl BuilderOption {
    /// The name, which is that of the call of [`Builder`] or [`Policy`] if there is one.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the text is, such as `a time`.
    pub fn takes(&self) -> &'static str {
        match self.set {
            Set::Time(..) => "a time",
            Set::Size(..) => "a size",
            Set::Count(..) => "a whole number",
            Set::Part(..) => "a number",
            Set::Switch(..) => "true or false",
            Set::Word(..) => "a word",
            Set::Text(..) => "a text",
            Set::File(..) => "a file",
            Set::Pem(..) => "a file in PEM",
        }
    }

    /// The valid values, for people. `None` if all of the kind are valid.
    pub fn range(&self) -> Option<&'static str> {
        (!self.range.is_empty()).then_some(self.range)
    }

    /// The value of a cache that is given none. `None` if that is no value, but another rule.
    pub fn default(&self) -> Option<&'static str> {
        self.default
    }

    fn apply(&self, builder: Builder, text: &str) -> Result<Builder, BuildError> {
        let set = match &self.set {
            Set::Time(range, set) => {
                parse_time(text).filter(|time| range.contains(time)).map(|time| set(builder, time))
            }
            Set::Size(range, set) => {
                let size = text.parse().ok().filter(|ByteSize(bytes)| range.contains(bytes));
                size.map(|ByteSize(bytes)| set(builder, bytes))
            }
            Set::Count(range, set) => {
                text.parse().ok().filter(|count| range.contains(count)).map(|count| set(builder, count))
            }
            Set::Part(set) => {
                text.parse().ok().filter(|part| (0.0..=1.0).contains(part)).map(|part| set(builder, part))
            }
            Set::Switch(set) => parse_switch(text).map(|on| set(builder, on)),
            Set::Word(set) => set(builder, text),
            Set::Text(set) | Set::File(set) => Some(set(builder, text)),
            Set::Pem(file) => {
                let read = builder.redis_tls_file(*file, text);
                return read.map_err(|expected| self.refused(format!("{text:?}"), expected));
            }
        };
        set.ok_or_else(|| self.refused(format!("{text:?}"), self.expected()))
    }

    /// The valid texts, for people.
    fn expected(&self) -> String {
        let kind = match self.set {
            Set::Time(..) => "a time such as 250ms, 30s or 5m",
            Set::Size(..) => "a size such as 64MiB",
            Set::Word(..) => return self.range.to_owned(),
            _ => self.takes(),
        };
        if self.range.is_empty() { kind.to_owned() } else { format!("{kind}, from {}", self.range) }
    }

    fn refused(&self, value: String, expected: String) -> BuildError {
        BuildError::Option { option: self.name, value, expected }
    }
}

fn find(name: &str) -> Option<&'static BuilderOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// Whether a time that a call has set is in the range of its option.
pub(super) fn check_time(name: &str, time: Duration) -> Result<(), BuildError> {
    let option = find(name).expect("an option of the table");
    match &option.set {
        Set::Time(range, _) if !range.contains(&time) => {
            Err(option.refused(format!("{time:?}"), format!("from {}", option.range)))
        }
        _ => Ok(()),
    }
}

/// Whether a number that a call has set is in the range of its option.
pub(super) fn check_number(name: &str, number: u64) -> Result<(), BuildError> {
    let option = find(name).expect("an option of the table");
    match &option.set {
        Set::Size(range, _) | Set::Count(range, _) if !range.contains(&number) => {
            Err(option.refused(number.to_string(), format!("from {}", option.range)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
