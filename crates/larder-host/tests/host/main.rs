//! The promises of the crate, over real servers and in processes that fork.

mod ahead;
mod calls;
mod corpus;
mod forks;
mod raw;
mod updates;
mod values;
mod wire;
mod wire_clients;
mod wire_page;

use larder::{BuildError, Builder, Cache};
use larder_host::{HostCache, HostCodec, HostView, Objects, wait};
use std::convert::Infallible;
use std::time::{Duration, Instant};

const MAX_LAG: Duration = Duration::from_millis(200);

/// The error of a host's loader.
type Raised = &'static str;
/// A view whose objects are texts.
type Texts = HostView<String, Raised>;

/// The schema of the texts.
const TEXT: (&str, u32) = ("text", 1);

/// The options of a cache over this Redis, or of one in memory.
fn options(url: Option<String>) -> impl Fn() -> Result<Builder, BuildError> + Send + Sync + 'static {
    move || {
        let builder = Cache::builder("test").ttl(Duration::from_secs(60)).max_lag(MAX_LAG);
        Ok(match &url {
            Some(url) => builder.redis(url).redis_timeout(Duration::from_secs(5)),
            None => builder,
        })
    }
}

fn cache(url: Option<String>) -> HostCache {
    HostCache::new(options(url)).expect("valid options")
}

fn texts(cache: &HostCache) -> Texts {
    cache
        .view(|cache| HostCodec::message_pack().view(cache, "text", TEXT, Objects::Copied))
        .expect("valid options")
}

/// Blocks as a binding does, for a minute at most.
fn blocked<F: Future>(call: F) -> F::Output {
    let deadline = Instant::now() + Duration::from_secs(60);
    wait(call, Some(deadline), || Ok::<_, Infallible>(())).expect("it ends in time")
}
