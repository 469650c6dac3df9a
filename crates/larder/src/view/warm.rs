//! Warming memory after a start: the keys that were used most in the last run, and reading them again from Redis.

use super::View;
use crate::key::KeyBuf;
use crate::tier::BATCH;
use std::cmp::Reverse;

/// The first bytes of stored keys, with the version of the format.
const MAGIC: &[u8; 3] = b"Lk\x01";

/// Keys of a view, those that were used most first. Made by [`View::hottest`], and read by [`View::warm`] in another run.
///
/// The bytes are `Lk`, the version 1, and then for each key its length in four bytes, little-endian, and its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotKeys(Vec<Vec<u8>>);

/// Bytes that are no [`HotKeys`] of this version: the last run was another version, or the file has been damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no list of keys that this version has stored")]
pub struct NoHotKeys;

impl HotKeys {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of each key.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// The keys as bytes, to keep until the next run. Keys longer than 4 GiB are left out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for key in &self.0 {
            if let Ok(length) = u32::try_from(key.len()) {
                bytes.extend_from_slice(&length.to_le_bytes());
                bytes.extend_from_slice(key);
            }
        }
        bytes
    }

    /// The keys that [`HotKeys::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`NoHotKeys`], for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoHotKeys> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(NoHotKeys)?;
        let mut keys = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| NoHotKeys)?;
            let (key, after) = after.split_at_checked(length).ok_or(NoHotKeys)?;
            keys.push(key.to_vec());
            rest = after;
        }
        if rest.is_empty() { Ok(HotKeys(keys)) } else { Err(NoHotKeys) }
    }
}

impl<K: ?Sized, V, E> View<K, V, E>
where
    V: Send + Sync + 'static,
{
    /// The keys of this view that memory has, those that were used most lately first, at most so many. Keep them when a process
    /// ends, and [`warm`](View::warm) the next one with them, so that its first requests find memory full.
    ///
    /// It changes neither the policy nor a counter, and holds no lock for longer than for a few entries. Cost: a walk over all
    /// entries of the cache, and the memory for the keys of this view.
    ///
    /// # Examples
    /// ```
    /// use larder::{Cache, HotKeys, View};
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let file = std::env::temp_dir().join(format!("hot-keys-{}", std::process::id()));
    /// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    /// let prices: View<str, u32> = cache.view("price");
    /// if let Ok(bytes) = std::fs::read(&file) {
    ///     prices.warm(&HotKeys::from_bytes(&bytes)?).await;      // at the start
    /// }
    /// std::fs::write(&file, prices.hottest(10_000).to_bytes())?; // at the end
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hottest(&self, limit: usize) -> HotKeys {
        let (node, view) = (self.state.node(), self.state.config.number);
        if !node.is_usable() {
            return HotKeys::default();
        }
        let mut keys: Vec<(Reverse<u8>, Vec<u8>)> = Vec::new();
        for (key, _) in node.memory.iter() {
            let borrowed = key.borrow();
            let hits = match borrowed.view == view {
                true => node.memory.peek_with(&borrowed, |entry| entry.hits()),
                false => None,
            };
            keys.extend(hits.map(|hits| (Reverse(hits), borrowed.bytes.to_vec())));
        }
        keys.sort_unstable();
        keys.truncate(limit);
        HotKeys(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// Reads into memory what Redis has under these keys, and memory lacks. Returns how many of them memory has then. It loads
    /// nothing: keys that Redis does not have stay misses, and a cache without Redis has nothing to warm from. For a list of
    /// keys of your own, [`View::read_multi`] does the same, and [`View::fetch_multi`] loads what is missing.
    ///
    /// Cancel safe: what was read until then stays. Cost: a round trip for each 500 keys, one after the other.
    ///
    /// # Panics
    /// Outside a tokio runtime, if Redis is asked.
    pub async fn warm(&self, keys: &HotKeys) -> usize {
        let mut found = 0;
        for batch in keys.0.chunks(BATCH) {
            let keys = batch.iter().map(|key| KeyBuf::of(key.as_slice())).collect();
            found += self.state.read_many(keys).await.iter().flatten().count();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_are_read_back_and_anything_else_is_refused() {
        let keys = HotKeys(vec![b"apple".to_vec(), Vec::new(), vec![0xff; 300]]);
        let bytes = keys.to_bytes();
        assert_eq!(HotKeys::from_bytes(&bytes), Ok(keys));
        assert_eq!(HotKeys::from_bytes(b"Lk\x01"), Ok(HotKeys::default()));
        assert_eq!(
            HotKeys::from_bytes(b"Lk\x01\x02\0\0\0ab"),
            Ok(HotKeys(vec![b"ab".to_vec()])),
            "version 1"
        );
        for wrong in
            [&b""[..], b"Lk", b"Lk\x02", b"Lk\x01\x02\0\0\0a", b"Lk\x01\x02\0\0", b"Lk\x01\xff\xff\xff\xff"]
        {
            assert_eq!(HotKeys::from_bytes(wrong), Err(NoHotKeys), "{wrong:?}");
        }
        assert!((0..bytes.len()).all(|length| HotKeys::from_bytes(&bytes[..length]) != Ok(HotKeys(Vec::new())) || length == 3));
    }
}
