//! Loads of the core, which those of other languages are compared with.

use anyhow::Result;
use larder::{Cache, Format, View};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// As the programs in other languages have it: two threads, and one connection for calls.
pub(super) struct Core {
    runtime: Runtime,
    view: View<u64, Vec<u8>, Infallible>,
    next: u64,
}

/// The bytes of the value that the other languages load.
const VALUE_BYTES: usize = 254;

impl Core {
    pub(super) fn start(url: &str) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let builder = Cache::builder("bench-core").ttl(Duration::from_secs(600)).redis(url);
        let builder = builder.redis_connections(1).format(Format::MessagePack);
        let cache = builder.runtime(runtime.handle().clone()).build()?;
        Ok(Core { view: cache.view("cold"), runtime, next: 0 })
    }

    /// The nanoseconds of a fetch that no tier answers, one after the other. The thread of the caller waits, as those of other
    /// languages do.
    pub(super) fn cold_fetches(&mut self, count: usize) -> Result<f64> {
        let first = self.next;
        self.next += count as u64;
        let start = Instant::now();
        for key in first..self.next {
            let fetch = self.view.fetch(&key).load(|_| async { Ok(vec![7; VALUE_BYTES]) });
            self.runtime.block_on(fetch)?;
        }
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    }
}
