//! The time to live of a value: what is left of it, and another one.
//!
//! A touch by [`View::touch`] is not that of [`View::touch_on_read`]. The latter repeats the time with which the value was
//! stored: it can only end later, so other nodes need not hear of it, loads may go on, and its caller waits for nothing. The
//! former has a new time, which may be shorter. Copies in the memory of other nodes must not outlive it, so it stores the value
//! under a new id and announces that.

use super::View;
use super::rewrite::{Becomes, Present};
use crate::coherence::mutation::spawn_mutation;
use crate::fetch::view_state::ViewState;
use crate::key::{CacheKey, KeyBuf};
use crate::node::sealing::NewEntry;
use crate::policy::Policy;
use crate::report::error::CacheError;
use crate::value::envelope;
use std::sync::Arc;
use std::time::Duration;

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Gives a valid value another time to live and another grace period, which begin now, on all nodes. Times that the policy
    /// does not set are the view's. Returns whether there was a valid value; a stale one stays stale.
    ///
    /// Other nodes serve the value no longer than the new times say, or than they would have, but for `max_lag`. Running loads
    /// of the key can no longer store their values, on any node. Also while the cache is off.
    ///
    /// The touch continues if the caller is dropped. Cost: two round trips to Redis, and one more if the value has tags. For a
    /// time that each read restarts see [`View::touch_on_read`], for which no caller waits.
    ///
    /// # Errors
    /// If Redis could not be read, nothing has changed. [`CacheError::Contended`] if other nodes came first each time: nothing has
    /// changed either. If Redis was asked to store and did not confirm, the key is removed on this node, and its deletion is
    /// queued.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn touch(&self, key: &K, policy: Policy) -> Result<bool, CacheError> {
        let (state, key) = (self.state.clone(), KeyBuf::of(key));
        spawn_mutation(self.state.node(), async move { state.touch(&key, policy).await }).await
    }

    /// How long the value that [`View::read`] finds is still fresh; `None` if it finds none. It restarts no time to live.
    ///
    /// Cancel safe. Cost: as [`View::read`].
    ///
    /// # Panics
    /// As [`View::read`].
    pub async fn ttl(&self, key: &K) -> Option<Duration> {
        Some(self.state.find(&KeyBuf::of(key)).await?.remaining_ttl())
    }
}

impl<V: Send + Sync + 'static> ViewState<V> {
    async fn touch(self: Arc<Self>, key: &KeyBuf, policy: Policy) -> Result<bool, CacheError> {
        let decide = |present: &Present| self.touched(present, policy);
        Ok(self.clone().rewrite(key, decide).await?.changed)
    }

    /// The same value under a new id, with times that begin now.
    fn touched(&self, present: &Present, policy: Policy) -> Result<Becomes, CacheError> {
        let node = self.node();
        let valid = present.valid.as_ref();
        let Some((former, value)) = valid.and_then(|entry| Some((entry.state(), entry.value::<V>()?))) else {
            return Ok(Becomes::Same);
        };
        let (id, lifetime) = (node.random.id(), self.lifetime(value, policy));
        let envelope = match &present.envelope {
            Some((bytes, _)) => {
                let mut bytes = bytes.clone();
                envelope::set_id(&mut bytes, id);
                envelope::set_lifetime(&mut bytes, lifetime.fresh, lifetime.grace);
                Some(node.with_deadline(bytes, lifetime.kept_for()).ok_or(CacheError::NotAsked)?)
            }
            None => None,
        };
        let encoded_bytes = former.encoded_bytes as usize;
        let cost = Duration::from_millis(former.cost_ms.into());
        let new =
            NewEntry { cost, ..NewEntry::written(encoded_bytes, lifetime, former.tags.to_vec(), Some(id)) };
        let entry = node.new_entry(&self.config, value.clone(), new, &present.start);
        Ok(Becomes::Put { entry, envelope })
    }
}
