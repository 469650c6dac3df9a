//! A response cache of the crate `larder-http` as a part of the dashboard.

use http::{Request, Uri};
use larder_http::{HttpCache, Inspection, Reason, Stats, TopKey};

use crate::parts::explain::Explanation;
use crate::parts::purge::{PurgeFuture, Purger, Target};
use crate::parts::registry::Registry;
use crate::parts::sample::{Figure, Sample, Tier, Unit};

/// A response cache that the dashboard shows: [`HttpCache`], and with the feature `http-shared` the `SharedHttpCache` of
/// several replicas.
pub trait ResponseCache: Clone + Send + Sync + 'static {
    /// Its figures.
    fn stats(&self) -> Stats;
    /// What it has for a GET.
    fn inspect_get(&self, request: &Request<String>) -> Inspection;
    /// Purges a target.
    fn purge_target(&self, target: Target) -> PurgeFuture<'_>;
    /// Purges a target softly.
    fn soft_purge_target(&self, target: Target) -> PurgeFuture<'_>;
}

impl Registry {
    /// Adds a response cache: its lookups, why requests bypassed it or were not stored, and what is used most. It can be
    /// purged by tag, URI, prefix and principal and as a whole, also softly, and explains URLs.
    ///
    /// ```
    /// use larder_admin::Registry;
    /// use larder_http::HttpCache;
    ///
    /// let cache = HttpCache::builder().max_bytes(64 << 20).build()?;
    /// let registry = Registry::new();
    /// registry.register_http("responses", &cache);
    /// let router = larder_admin::router(registry);
    /// # let _: axum::Router = router;
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn register_http(&self, name: impl Into<String>, cache: &impl ResponseCache) {
        self.register_http_from(name, cache, Sample::running);
    }

    /// [`Registry::register_http`] for a part whose state is known: each sample starts as `start` returns it.
    pub fn register_http_from(
        &self,
        name: impl Into<String>,
        cache: &impl ResponseCache,
        start: impl Fn() -> Sample + Send + Sync + 'static,
    ) {
        let (name, source, explained) = (name.into(), cache.clone(), cache.clone());
        let sample = move || start().with_responses(&source.stats());
        self.register_with_purger(name.clone(), "http", sample, ResponsePurger(cache.clone()));
        self.explain_with(&name, move |target: &str| explain(&explained, target));
    }
}

impl Sample {
    fn with_responses(self, stats: &Stats) -> Sample {
        let mut latency = stats.hit_time.clone();
        latency.merge(&stats.miss_time);
        let tier = Tier::new("http")
            .lookups([
                ("hit", stats.hits),
                ("shared", stats.shared_hits),
                ("disk", stats.disk_hits),
                ("stale", stats.stale_hits),
                ("validated", stats.validated),
                ("miss", stats.misses),
                ("collapsed", stats.collapsed),
                ("bypass", stats.bypassed_total()),
            ])
            .miss_causes(stats.miss_causes.counts())
            .latency(latency)
            .entries(stats.entries)
            .bytes(stats.bytes, stats.capacity);
        let counts = |reasons: &[(Reason, u64)]| -> Vec<_> {
            reasons.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()
        };
        let total = |name, value, help| Figure::total(name, Unit::Count, value, help);
        let bodies = "Bodies in memory: stored, in running fills, and in replies that are being sent.";
        let disk = stats.disk.iter().flat_map(|disk| {
            [
                Figure::current(
                    "disk_entries",
                    Unit::Count,
                    disk.entries as f64,
                    "Responses and records on disk.",
                ),
                Figure::current("disk", Unit::Bytes, disk.bytes as f64, "Room that they take."),
                total("disk_writes", disk.writes, "Entries written to the disk."),
                total("disk_write_errors", disk.write_errors, "Entries that could not be written."),
                total("disk_dropped_writes", disk.dropped_writes, "Entries that the disk was too slow for."),
            ]
        });
        let with_disk = disk.fold(self, Sample::figure);
        with_disk
            .tier(tier)
            .top("paths", shown(&stats.top_paths))
            .top("routes", shown(&stats.top_routes))
            .top("tags", shown(&stats.top_tags))
            .reasons("bypass", counts(&stats.bypassed))
            .reasons("unstored", counts(&stats.unstored))
            .figure(total("purges", stats.purges, "Purge requests."))
            .figure(Figure::current("bodies", Unit::Bytes, stats.body_bytes as f64, bodies))
            .figure(total("not_modified", stats.not_modified, "Responses with status 304."))
    }
}

/// Keys as text, with their counts and errors.
fn shown(keys: &[TopKey]) -> impl Iterator<Item = (String, u64, u64)> {
    keys.iter().map(|top| (String::from_utf8_lossy(&top.key).into_owned(), top.count, top.error))
}

impl ResponseCache for HttpCache {
    fn stats(&self) -> Stats {
        HttpCache::stats(self)
    }

    fn inspect_get(&self, request: &Request<String>) -> Inspection {
        self.inspect(request)
    }

    fn purge_target(&self, target: Target) -> PurgeFuture<'_> {
        let purged = match target {
            Target::Tag(tag) => {
                self.purge_tag(&tag);
                Ok(())
            }
            Target::Uri(uri) => self.purge_uri(&uri).map(drop).map_err(|error| error.to_string()),
            Target::Prefix(prefix) => self.purge_prefix(&prefix).map_err(|error| error.to_string()),
            Target::Principal(principal) => {
                self.purge_principal(&principal);
                Ok(())
            }
            Target::All => {
                self.purge_all();
                Ok(())
            }
        };
        Box::pin(std::future::ready(purged))
    }

    fn soft_purge_target(&self, target: Target) -> PurgeFuture<'_> {
        let purged = match target {
            Target::Tag(tag) => {
                self.soft_purge_tag(&tag);
                Ok(())
            }
            Target::Uri(uri) => self.soft_purge_uri(&uri).map(drop).map_err(|error| error.to_string()),
            Target::Prefix(prefix) => self.soft_purge_prefix(&prefix).map_err(|error| error.to_string()),
            Target::Principal(principal) => {
                self.soft_purge_principal(&principal);
                Ok(())
            }
            Target::All => {
                self.soft_purge_all();
                Ok(())
            }
        };
        Box::pin(std::future::ready(purged))
    }
}

#[cfg(feature = "http-shared")]
impl ResponseCache for larder_http::SharedHttpCache {
    fn stats(&self) -> Stats {
        larder_http::SharedHttpCache::stats(self)
    }

    fn inspect_get(&self, request: &Request<String>) -> Inspection {
        self.inspect(request)
    }

    fn purge_target(&self, target: Target) -> PurgeFuture<'_> {
        Box::pin(async move {
            let reach = match target {
                Target::Tag(tag) => self.purge_tag(&tag).await,
                Target::Uri(uri) => self.purge_uri(&uri).await.map_err(|error| error.to_string())?,
                Target::Prefix(prefix) => {
                    self.purge_prefix(&prefix).await.map_err(|error| error.to_string())?
                }
                Target::Principal(principal) => self.purge_principal(&principal).await,
                Target::All => self.purge_all().await,
            };
            crate::parts::tiers::confirmed(reach)
        })
    }

    fn soft_purge_target(&self, target: Target) -> PurgeFuture<'_> {
        Box::pin(async move {
            let reach = match target {
                Target::Tag(tag) => self.soft_purge_tag(&tag).await,
                Target::Uri(uri) => self.soft_purge_uri(&uri).await.map_err(|error| error.to_string())?,
                Target::Prefix(prefix) => {
                    self.soft_purge_prefix(&prefix).await.map_err(|error| error.to_string())?
                }
                Target::Principal(principal) => self.soft_purge_principal(&principal).await,
                Target::All => self.soft_purge_all().await,
            };
            crate::parts::tiers::confirmed(reach)
        })
    }
}

/// Purges a response cache for the admin port.
struct ResponsePurger<C>(C);

impl<C: ResponseCache> Purger for ResponsePurger<C> {
    fn purge(&self, target: Target) -> PurgeFuture<'_> {
        self.0.purge_target(target)
    }

    fn soft_purge(&self, target: Target) -> PurgeFuture<'_> {
        self.0.soft_purge_target(target)
    }

    fn has_soft_purges(&self) -> bool {
        true
    }
}

/// What the cache would do with the GET of a URL.
fn explain(cache: &impl ResponseCache, target: &str) -> Option<Explanation> {
    let is_url = target.starts_with("http://") || target.starts_with("https://");
    let url: Uri = target.parse().ok().filter(|_| is_url)?;
    let request = Request::get(url.clone()).body(String::new()).ok()?;
    let found = cache.inspect_get(&request);
    let verdict = match (&found.bypass, &found.response) {
        (Some(reason), _) => format!("bypasses the cache: {}", reason.as_str()),
        (None, Some(response)) if response.is_filling => "follows the running fill".to_owned(),
        (None, Some(response)) if response.is_expired => {
            "expired: the origin is asked to validate it".to_owned()
        }
        (None, Some(response)) if response.ttl.is_zero() => "answered stale, and refreshed".to_owned(),
        (None, Some(_)) => "answered from the cache".to_owned(),
        (None, None) if found.is_purged => "purged: the handler runs".to_owned(),
        (None, None) if found.is_hit_for_miss => {
            "the handler runs, and others do not wait: the last response was not stored, or too slow"
                .to_owned()
        }
        (None, None) => {
            "not stored: the handler runs, and its response is stored if that allows it".to_owned()
        }
    };
    let vary: Vec<&str> = found.vary.iter().map(|field| field.as_str()).collect();
    let explanation = Explanation::new(verdict)
        .fact("method", "GET")
        .fact("scheme", url.scheme_str().unwrap_or_default())
        .fact("authority", url.authority().map_or("", |authority| authority.as_str()))
        .fact("path", url.path())
        .fact("query", url.query())
        .fact("vary", vary)
        .fact("scope", found.scope.map(|scope| format!("{scope:?}").to_lowercase()));
    let Some(response) = found.response else { return Some(explanation.fact("tier", "none")) };
    Some(
        explanation
            .fact("tier", "http")
            .fact("status", response.status.as_u16())
            .fact("age_seconds", response.age.as_secs_f64())
            .fact("ttl_seconds", response.ttl.as_secs_f64())
            .fact("grace_seconds", response.grace.as_secs_f64())
            .fact("tags", response.tags)
            .fact("bytes", response.bytes),
    )
}
