//! A cache whose memory has no room for a value, so that each call goes to Redis, and values that are there.

use super::memory_hit::runtime;
use anyhow::{Result, ensure};
use larder::{Cache, Raw, View};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The keys that have a value: from 0.
pub(super) const VALUES: u64 = 26;
pub(super) const VALUE_BYTES: usize = 1 << 10;

pub(super) type Values = View<u64, Vec<u8>>;

pub(super) struct Remote {
    pub(super) runtime: Arc<Runtime>,
    pub(super) view: Values,
}

impl Remote {
    pub(super) fn new(url: String) -> Result<Self> {
        let runtime = runtime()?;
        let view = runtime.block_on(async {
            let cache = Cache::builder("bench")
                .memory_bytes(1 << 10)
                .ttl(Duration::from_secs(3_600))
                .redis(url)
                .build()?;
            let view: Values = cache.view_with_codec("kib", Raw);
            for key in 0..VALUES {
                ensure!(view.write(&key, value()).await?.is_everywhere(), "redis refuses a write");
            }
            anyhow::Ok(view)
        })?;
        Ok(Remote { runtime, view })
    }
}

pub(super) fn value() -> Vec<u8> {
    vec![b'x'; VALUE_BYTES]
}
