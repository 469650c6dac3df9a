//! Options by their names: of a cache as texts, of a call or a view with values that the binding has read.

use crate::names::NameError;
use larder::{BuildError, Builder, Cache, Policy, RefreshAhead, WriteOptions};
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
    /// Whether fetches load ahead; `None` if that is the view's.
    loads_ahead: Option<bool>,
}

/// One of the options of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOption {
    /// A time, which [`CallOptions::set_time`] sets.
    Time(TimeOption),
    /// The share of the TTL by which it varies, which [`CallOptions::set_jitter`] sets.
    Jitter,
    /// When a fresh value is loaded again, which [`CallOptions::set_refresh_ahead`] sets.
    RefreshAhead,
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

static CALL_OPTIONS: [(&str, CallOption); 10] = [
    ("ttl", CallOption::Time(TimeOption::Ttl)),
    ("negative_ttl", CallOption::Time(TimeOption::NegativeTtl)),
    ("grace", CallOption::Time(TimeOption::Grace)),
    ("retry_after", CallOption::Time(TimeOption::RetryAfter)),
    ("soft_timeout", CallOption::Time(TimeOption::SoftTimeout)),
    ("hard_timeout", CallOption::Time(TimeOption::HardTimeout)),
    ("jitter", CallOption::Jitter),
    ("refresh_ahead", CallOption::RefreshAhead),
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

    /// Sets when a value that is fresh is loaded again, as a text: after a part of its TTL, from `0` to `1`; `never`; or `by_cost`, by a
    /// chance that is the greater the longer its last load took, which `by_cost:2` makes twice as early.
    ///
    /// # Errors
    /// If it is none of these.
    pub fn set_refresh_ahead(&mut self, when: &str) -> Result<(), NameError> {
        let number = |text: &str, range: std::ops::RangeInclusive<f32>| {
            text.parse().ok().filter(|number| range.contains(number))
        };
        let ahead = match (when, when.strip_prefix("by_cost:")) {
            ("never", _) => Some(RefreshAhead::Never),
            ("by_cost", _) => Some(RefreshAhead::ByCost(1.0)),
            (_, Some(factor)) => number(factor, f32::MIN_POSITIVE..=f32::MAX).map(RefreshAhead::ByCost),
            _ => number(when, 0.0..=1.0).map(RefreshAhead::After),
        };
        let ahead = ahead.ok_or_else(|| {
            NameError(format!(
                "refresh_ahead is {when:?}; it must be a number from 0 to 1, \"by_cost\" or \"never\""
            ))
        })?;
        self.loads_ahead = Some(ahead != RefreshAhead::Never);
        self.policy = self.policy.refresh_ahead(ahead);
        Ok(())
    }

    /// Whether fetches load ahead, if these options say so or say not.
    pub fn loads_ahead(&self) -> Option<bool> {
        self.loads_ahead
    }

    /// Whether a fetch with these options loads ahead, in a view with those.
    pub(crate) fn loads_ahead_in(&self, view: &CallOptions) -> bool {
        self.loads_ahead.or(view.loads_ahead).unwrap_or_default()
    }

    /// The options of a write.
    ///
    /// # Errors
    /// If they have one that a write cannot have.
    pub fn for_write(&self) -> Result<WriteOptions, NameError> {
        self.refuse_ahead()?;
        Ok(self.tags.iter().fold(WriteOptions::new().policy(self.policy), WriteOptions::tag))
    }

    /// The options of an update; `None` if none is set: a value then keeps those of the one that it replaces.
    ///
    /// # Errors
    /// As [`CallOptions::for_write`].
    pub fn for_update(&self) -> Result<Option<WriteOptions>, NameError> {
        let is_set = self.policy != Policy::new() || !self.tags.is_empty();
        self.for_write().map(|options| is_set.then_some(options))
    }

    /// The times of a [`touch`](larder::View::touch).
    ///
    /// # Errors
    /// If they have an option that it cannot have.
    pub fn for_touch(&self) -> Result<Policy, NameError> {
        self.refuse_ahead()?;
        Ok(self.policy)
    }

    /// What is written has the option of its view: one of the call would do nothing.
    fn refuse_ahead(&self) -> Result<(), NameError> {
        match self.loads_ahead {
            Some(_) => Err(NameError(
                "refresh_ahead is an option of views and of fetches: what is written has that of its view"
                    .to_owned(),
            )),
            None => Ok(()),
        }
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
    fn refresh_ahead_is_a_part_or_by_cost_and_no_option_of_writes() {
        let set = |when: &str| {
            let mut options = CallOptions::default();
            options.set_refresh_ahead(when).map(|()| options)
        };
        for (when, ahead) in [
            ("0.8", RefreshAhead::After(0.8)),
            ("1", RefreshAhead::After(1.0)),
            ("by_cost", RefreshAhead::ByCost(1.0)),
            ("by_cost:2.5", RefreshAhead::ByCost(2.5)),
            ("never", RefreshAhead::Never),
        ] {
            let options = set(when).expect("valid");
            assert_eq!(options.policy, Policy::new().refresh_ahead(ahead), "{when}");
            assert_eq!(options.loads_ahead_in(&CallOptions::default()), when != "never");
            options.for_write().expect_err("no option of a write");
            options.for_touch().expect_err("no option of a touch");
        }
        let view = set("0.8").expect("valid");
        assert!(CallOptions::default().loads_ahead_in(&view));
        assert!(!set("never").expect("valid").loads_ahead_in(&view));
        for when in ["1.1", "-0.1", "NaN", "", "by_cost:", "by_cost:0", "by_cost:x", "never:1", "0.8:1"] {
            let wrong = set(when).expect_err("out of range").to_string();
            assert!(wrong.contains(&format!("{when:?}")), "{wrong}");
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
