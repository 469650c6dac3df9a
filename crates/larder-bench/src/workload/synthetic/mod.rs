//! Requests that are generated from a seed, with one known property each: what a policy must do well is in the name.
//!
//! A text such as `zipf:keys=50000,skew=0.9,drift=0.01` describes a workload; [`HELP`] explains all of them.

mod grammar;
mod kinds;
#[cfg(test)]
mod tests;

pub(crate) use kinds::HELP;

use crate::trace::Request;
use kinds::{Kind, Parameter};
use std::fmt;

/// The numbers of the keys of a workload, in the order in which they are requested.
type Keys = Box<dyn Iterator<Item = u64>>;
/// For how many requests a value of the key with this number is fresh.
type Ttls = Box<dyn Fn(u64) -> u32>;

/// A workload with a value for each parameter, all of them within their ranges.
#[derive(Clone, Debug)]
pub(crate) struct Synthetic {
    kind: &'static Kind,
    /// The parameters of the kind, then the common ones. Whole numbers are exact: their ranges end below 2^53.
    values: Vec<(&'static Parameter, f64)>,
}

impl Synthetic {
    /// The requests. The same workload has the same ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Request> + use<> {
        let (ttl, requests) = (self.kind.ttl.map(|ttl| ttl(self)), self.whole("requests") as usize);
        (self.kind.generate)(self).take(requests).map(move |number| Request {
            ttl: ttl.as_ref().map(|ttl| ttl(number)),
            ..Request::of(super::keys::scrambled(number))
        })
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.whole("requests")
    }

    /// The same workload with other requests. Only the low 32 bits of the seed are used.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        let mut reseeded = self.clone();
        for (parameter, value) in &mut reseeded.values {
            if parameter.name == "seed" {
                *value = (seed as u32).into();
            }
        }
        reseeded
    }

    /// The value of a parameter of this kind.
    fn number(&self, name: &str) -> f64 {
        let known = self.values.iter().find(|(parameter, _)| parameter.name == name);
        known.expect("a generator reads the parameters of its kind").1
    }

    /// The value of a parameter that is a whole number.
    fn whole(&self, name: &str) -> u64 {
        self.number(name) as u64
    }
}

/// The text with the values of all parameters.
impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        for (n, (parameter, value)) in self.values.iter().enumerate() {
            write!(f, "{}{}={value}", if n == 0 { ':' } else { ',' }, parameter.name)?;
        }
        Ok(())
    }
}
