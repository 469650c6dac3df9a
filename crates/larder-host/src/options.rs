//! Options by their names: of a cache as texts, of a call or a view with values that the binding has read.

use crate::names::NameError;
use larder::{BuildError, Builder, Cache, Policy, WriteOptions};
use larder_text::{ByteSize, similar};
use std::time::Duration;

/// The options of a call or of a view, as the host gives them.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The lifetime of what is stored, and how long a load is waited for.
    pub policy: Policy,
    /// The tags of what is stored.
    pub tags: Vec<String>,
    /// Whether a `fetch` loads although there is a value.
    pub refresh: bool,
    pub(crate) has_negative_ttl: bool,
}

/// One of the options of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOption {
    /// A time, which [`CallOptions::set_time`] sets.
    Time(TimeOption),
    /// The share of the TTL by which it varies, which [`CallOptions::set_jitter`] sets.
    Jitter,
    /// Texts.
    Tags,
    /// Whether to load anew.
    Refresh,
}

/// An option of a call that is a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are those of a policy")]
pub enum TimeOption {
    Ttl,
    NegativeTtl,
    Grace,
    RetryAfter,
    SoftTimeout,
    HardTimeout,
}

/// How a language writes a name of several words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `negative_ttl`
    Snake,
    /// `negativeTtl`
    Camel,
}

static CALL_OPTIONS: [(&str, CallOption); 9] = [
    ("ttl", CallOption::Time(TimeOption::Ttl)),
    ("negative_ttl", CallOption::Time(TimeOption::NegativeTtl)),
    ("grace", CallOption::Time(TimeOption::Grace)),
    ("retry_after", CallOption::Time(TimeOption::RetryAfter)),
    ("soft_timeout", CallOption::Time(TimeOption::SoftTimeout)),
    ("hard_timeout", CallOption::Time(TimeOption::HardTimeout)),
    ("jitter", CallOption::Jitter),
    ("tags", CallOption::Tags),
    ("refresh", CallOption::Refresh),
];

impl CallOption {
    /// The option of this name.
    ///
    /// # Errors
    /// If there is none. The error names the one that was probably meant.
    ///
    /// # Examples
    /// ```
    /// use larder_host::{CallOption, Spelling};
    ///
    /// assert_eq!(CallOption::named("jitter", Spelling::Snake), Ok(CallOption::Jitter));
    /// let wrong = CallOption::named("negativTtl", Spelling::Camel).unwrap_err();
    /// assert_eq!(wrong.to_string(), r#"there is no option "negativTtl"; did you mean negativeTtl?"#);
    /// ```
    pub fn named(name: &str, spelling: Spelling) -> Result<Self, NameError> {
        let found = CALL_OPTIONS.iter().find(|(known, _)| spelling.of(known) == name);
        found.map(|(_, option)| *option).ok_or_else(|| {
            let meant = similar(&snake(name), &CALL_OPTIONS.map(|(known, _)| known)).first().copied();
            let meant =
                meant.map_or(String::new(), |meant| format!("; did you mean {}?", spelling.of(meant)));
            NameError(format!("there is no option {name:?}{meant}"))
        })
    }
}

impl Spelling {
    /// A name in this spelling, which is given as `negative_ttl`.
    pub fn of(self, name: &str) -> String {
        match self {
            Spelling::Snake => name.to_owned(),
            Spelling::Camel => {
                let mut words = name.split('_');
                let first = words.next().unwrap_or_default().to_owned();
                words.fold(first, |name, word| name + &word[..1].to_ascii_uppercase() + &word[1..])
            }
        }
    }
}

/// A name without upper case.
fn snake(name: &str) -> String {
    name.chars().fold(String::new(), |mut name, letter| {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        name
    })
}

impl CallOptions {
    /// Sets a time.
    pub fn set_time(&mut self, option: TimeOption, time: Duration) {
        let policy = self.policy;
        self.has_negative_ttl |= option == TimeOption::NegativeTtl;
        self.policy = match option {
            TimeOption::Ttl => policy.ttl(time),
            TimeOption::NegativeTtl => policy.negative_ttl(time),
            TimeOption::Grace => policy.grace(time),
            TimeOption::RetryAfter => policy.retry_after(time),
            TimeOption::SoftTimeout => policy.soft_timeout(time),
            TimeOption::HardTimeout => policy.hard_timeout(time),
        };
    }

    /// Sets the share of the TTL by which it varies.
    ///
    /// # Errors
    /// If it is not from 0 to 1.
    pub fn set_jitter(&mut self, share: f64) -> Result<(), NameError> {
        if !(0.0..=1.0).contains(&share) {
            return Err(NameError(format!("jitter is {share}; it must be a number from 0 to 1")));
        }
        self.policy = self.policy.jitter(share as f32);
        Ok(())
    }

    /// The options of a write.
    pub fn for_write(&self) -> WriteOptions {
        self.tags.iter().fold(WriteOptions::new().policy(self.policy), WriteOptions::tag)
    }
}

/// The names of the options of a cache that are times, which the host may write as numbers.
pub fn time_options() -> impl Iterator<Item = &'static str> {
    let options = Builder::options().iter().filter(|option| option.takes() == "a time");
    options.map(larder::BuilderOption::name)
}

/// A builder with options as texts. One differs from larder's: a process of a host has many brothers, and little to say at once,
/// so it has one connection for commands.
pub(crate) fn builder_of(namespace: &str, options: &[(String, String)]) -> Result<Builder, BuildError> {
    let builder = Cache::builder(namespace).redis_connections(1);
    options.iter().try_fold(builder, |builder, (name, value)| builder.option(name, value))
}

/// The longest value that a cache with these options stores: the binding refuses longer ones while it encodes them.
pub(crate) fn max_value_bytes(options: &[(String, String)]) -> usize {
    let given = options.iter().rfind(|(name, _)| name == "max_value_bytes");
    let default = Builder::options().iter().find(|option| option.name() == "max_value_bytes");
    let size = given.map(|(_, size)| size.as_str()).or(default.and_then(larder::BuilderOption::default));
    size.and_then(|size| size.parse().ok()).map_or(usize::MAX, |ByteSize(bytes)| bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_has_one_name_in_each_spelling() {
        for (name, option) in CALL_OPTIONS {
            assert_eq!(CallOption::named(name, Spelling::Snake), Ok(option));
            assert_eq!(CallOption::named(&Spelling::Camel.of(name), Spelling::Camel), Ok(option));
            assert_eq!(snake(&Spelling::Camel.of(name)), name);
        }
        CallOption::named("negative_ttl", Spelling::Camel).expect_err("not in this spelling");
        let wrong = CallOption::named("zzz", Spelling::Snake).expect_err("no option").to_string();
        assert_eq!(wrong, r#"there is no option "zzz""#);
    }

    #[test]
    fn jitter_is_a_share() {
        let mut options = CallOptions::default();
        assert_eq!(options.set_jitter(1.0), Ok(()));
        for share in [-0.1, 1.1, f64::NAN] {
            let wrong = options.set_jitter(share).expect_err("no share").to_string();
            assert!(wrong.contains(&share.to_string()), "{wrong}");
        }
    }

    #[test]
    fn longest_value_is_that_of_the_options_or_the_default() {
        let option = |size: &str| ("max_value_bytes".to_owned(), size.to_owned());
        assert_eq!(max_value_bytes(&[]), 64 << 20);
        assert_eq!(max_value_bytes(&[option("1KiB"), option("2KiB")]), 2_048);
        assert!(time_options().any(|name| name == "max_lag"));
    }
}
