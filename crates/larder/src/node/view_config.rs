//! The configuration of one view: its name, and how its values are encoded, weighed, tagged and timed.

use crate::policy::{Lifetime, Policy};
use crate::report::error::CacheError;
use crate::unwind::caught;
use crate::value::codec::Codec;
use crate::value::envelope;
use crate::value::random::Random;
use std::sync::Arc;

pub(crate) struct ViewConfig<V> {
    pub(crate) name: String,
    /// The number of the view in keys of memory.
    pub(crate) number: u32,
    /// The schema that is stored with each value.
    pub(crate) schema: u64,
    pub(crate) codec: Arc<dyn Codec<V>>,
    pub(crate) policy: Policy,
    /// Whether a value is none, where the cache or the type of the view can tell.
    pub(crate) is_none: Option<fn(&V) -> bool>,
    /// Which values the view takes for absences too.
    pub(crate) is_negative: Option<fn(&V) -> bool>,
    /// The tags of every entry.
    pub(crate) tags: Vec<Box<str>>,
    pub(crate) weigher: Option<Arc<Weigher<V>>>,
    pub(crate) touch_on_read: bool,
}

pub(crate) type Weigher<V> = dyn Fn(&V) -> u64 + Send + Sync;

impl<V: 'static> ViewConfig<V> {
    pub(crate) fn new(
        name: String,
        number: u32,
        codec: Arc<dyn Codec<V>>,
        schema: u64,
        policy: Policy,
    ) -> Self {
        ViewConfig {
            name,
            number,
            schema,
            codec,
            policy,
            is_none: None,
            is_negative: None,
            tags: Vec::new(),
            weigher: None,
            touch_on_read: false,
        }
    }

    /// Whether a value says that there is nothing: it is none, or the view takes it for an absence. A test that panics
    /// accepts nothing.
    pub(crate) fn is_negative(&self, value: &V) -> bool {
        let accepts = |test: fn(&V) -> bool| caught("with_negative", || test(value)).unwrap_or(false);
        [self.is_none, self.is_negative].into_iter().flatten().any(accepts)
    }

    /// How long a value is fresh and kept by a policy that leaves nothing open.
    pub(crate) fn lifetime(&self, value: &V, policy: Policy, random: &Random) -> Lifetime {
        policy.lifetime(policy.negative_ttl.is_some() && self.is_negative(value), random)
    }

    /// The tags of a value: the view's and those of the call and the loader, each once.
    pub(crate) fn tags<'t>(&self, more: impl IntoIterator<Item = &'t Box<str>>) -> Vec<Box<str>> {
        let mut tags: Vec<Box<str>> = self.tags.iter().cloned().chain(more.into_iter().cloned()).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// Whether a value may have the view's tags and these.
    pub(crate) fn check_tags(&self, more: &[Box<str>]) -> Result<(), CacheError> {
        envelope::check_tags(&self.tags(more)).map_err(CacheError::Encode)
    }

    /// The weight of a value in bytes: its encoded length without a weigher, or if that panics.
    pub(super) fn weight(&self, value: &V, encoded_bytes: usize) -> u32 {
        let weighed = self.weigher.as_ref().and_then(|weigher| caught("with_weigher", || weigher(value)));
        u32::try_from(weighed.unwrap_or(encoded_bytes as u64)).unwrap_or(u32::MAX)
    }
}

impl<V> Clone for ViewConfig<V> {
    fn clone(&self) -> Self {
        ViewConfig {
            name: self.name.clone(),
            number: self.number,
            schema: self.schema,
            codec: self.codec.clone(),
            policy: self.policy,
            is_none: self.is_none,
            is_negative: self.is_negative,
            tags: self.tags.clone(),
            weigher: self.weigher.clone(),
            touch_on_read: self.touch_on_read,
        }
    }
}
