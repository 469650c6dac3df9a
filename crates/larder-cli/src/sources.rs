//! What the parts tell the dashboard: their own numbers, put into its words.

use crate::supervisor::{State, Watched};
use crate::up::ServedStats;
use larder_admin::{Figure, PurgeFuture, Purger, Registry, Sample, Target, Tier, Unit};
use larder_http::HttpCache;
use larder_links::Links;

/// The shortener: its redirects with the tiers behind them, and its API with the response cache in front.
pub(crate) fn register_links(registry: &Registry, links: &Links, watched: &Watched) {
    let (asked, health) = (links.clone(), watched.clone());
    registry.register("links", "app", move || {
        let stats = asked.stats();
        let redirects = Tier::new("redirects")
            .operations([
                ("found", stats.redirects.found),
                ("not_found", stats.redirects.not_found),
                ("error", stats.redirects.error),
            ])
            .latency(stats.redirect_latency);
        let visits = stats.visits;
        healthy(&health)
            .tier(redirects)
            .with_cache(asked.cache())
            .figure(Figure::total("visits_written", Unit::Count, visits.written, "Visits in the database."))
            .figure(Figure::now(
                "visits_waiting",
                Unit::Count,
                visits.queued as f64,
                "Visits not yet written.",
            ))
            .figure(Figure::total(
                "visits_dropped",
                Unit::Count,
                visits.dropped,
                "Visits that were not counted.",
            ))
            .figure(Figure::total("links_created", Unit::Count, stats.created, "Links made."))
    });

    let (asked, health, purged) = (links.clone(), watched.clone(), links.responses().clone());
    let sample = move || {
        let stats = asked.responses().stats();
        let mut latency = stats.hit_time.clone();
        latency.merge(&stats.miss_time);
        let bypassed = stats.bypassed_total();
        let responses = Tier::new("http")
            .lookups([
                ("hit", stats.hits),
                ("stale", stats.stale_hits),
                ("miss", stats.misses),
                ("collapsed", stats.collapsed),
                ("bypass", bypassed),
            ])
            .latency(latency)
            .entries(stats.entries)
            .bytes(stats.bytes, stats.capacity);
        let reasons = stats.bypassed.iter().chain(&stats.unstored);
        healthy(&health)
            .tier(responses)
            .reasons(reasons.map(|(reason, count)| (reason.as_str(), *count)))
            .figure(Figure::total("purges", Unit::Count, stats.purges, "Purges asked for."))
            .figure(Figure::total(
                "not_modified",
                Unit::Count,
                stats.not_modified,
                "Answers that were a 304.",
            ))
    };
    registry.register_with_purger("api responses", "http", sample, ResponsePurger(purged));
}

/// The cache server.
pub(crate) fn register_server(registry: &Registry, served: ServedStats, watched: &Watched) {
    let health = watched.clone();
    registry.register("server", "server", move || {
        let stats = served.handle().snapshot();
        let keys = Tier::new("memory")
            .lookups([("hit", stats.hits), ("miss", stats.misses)])
            .operations([("command", stats.commands)])
            .latency(stats.latency)
            .entries(stats.keys)
            .bytes(stats.memory_used_bytes, stats.memory_capacity_bytes);
        healthy(&health)
            .tier(keys)
            .figure(Figure::now("connections", Unit::Count, stats.connections as f64, "Connections open."))
            .figure(Figure::total("errors", Unit::Count, stats.errors, "Commands answered with an error."))
            .figure(Figure::total("evicted", Unit::Count, stats.evicted, "Entries that left to make room."))
            .figure(Figure::total("expired", Unit::Count, stats.expired, "Entries whose time was over."))
            .figure(Figure::total("bytes_in", Unit::Bytes, stats.bytes_in, "Bytes read from clients."))
            .figure(Figure::total("bytes_out", Unit::Bytes, stats.bytes_out, "Bytes written to clients."))
    });
}

fn healthy(watched: &Watched) -> Sample {
    let health = watched.health();
    let state = match health.state {
        State::Running => larder_admin::State::Running,
        State::Pausing => larder_admin::State::Restarting,
        State::Stopped => larder_admin::State::Stopped,
    };
    Sample { state, restarts: health.restarts, ..Sample::running() }
}

/// Purges the response cache on behalf of the admin port.
struct ResponsePurger(HttpCache);

impl Purger for ResponsePurger {
    fn purge(&self, target: Target) -> PurgeFuture<'_> {
        let purged = match target {
            Target::Tag(tag) => {
                self.0.purge_tag(&tag);
                Ok(())
            }
            Target::Uri(uri) => self.0.purge_uri(&uri).map(drop).map_err(|error| error.to_string()),
            Target::Prefix(prefix) => self.0.purge_prefix(&prefix).map_err(|error| error.to_string()),
            Target::All => {
                self.0.purge_all();
                Ok(())
            }
            other => Err(format!("this part cannot purge {other:?}")),
        };
        Box::pin(std::future::ready(purged))
    }
}
