//! The sources of the dashboard: convert the statistics of the parts into samples.

use crate::process::supervisor::{HealthHandle, State};
use larder_admin::{Degradation, Figure, Registry, Sample, Tier, Unit};
use larder_http::TopKey;
use larder_links::{Links, StoreError, StoreHealth};
use larder_server::{CertificateHandle, Server, StatsHandle};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// How long refused connections are shown.
const REFUSALS_SHOWN: Duration = Duration::from_secs(30);

/// Registers the shortener: its redirects with the tiers of their cache, and the response cache of its API.
pub(crate) fn register_links(registry: &Registry, links: &Links, health: &HealthHandle) {
    let (source, handle) = (links.clone(), health.clone());
    registry.register("links", "app", move || {
        let stats = source.stats();
        let redirects = Tier::new("redirects")
            .operations([
                ("found", stats.redirects.found),
                ("not_found", stats.redirects.not_found),
                ("gone", stats.redirects.gone),
                ("error", stats.redirects.error),
            ])
            .latency(stats.redirect_latency);
        let visits = stats.visits;
        let mut sample = sample_with_health(&handle);
        sample.degradations.extend(lacking_database(source.store().health()));
        sample
            .tier(redirects)
            .with_cache(source.cache())
            .top("slugs", shown(&stats.top_slugs))
            .figure(Figure::total("visits_written", Unit::Count, visits.written, "Visits in the database."))
            .figure(Figure::current(
                "visits_waiting",
                Unit::Count,
                visits.queued as f64,
                "Visits that are not written yet.",
            ))
            .figure(Figure::total(
                "visits_dropped",
                Unit::Count,
                visits.dropped,
                "Visits dropped because the queue was full.",
            ))
            .figure(Figure::total("links_created", Unit::Count, stats.created, "Links created."))
    });

    let handle = health.clone();
    registry.register_http_from("api responses", links.responses(), move || sample_with_health(&handle));
}

/// Registers the cache server.
pub(crate) fn register_server(registry: &Registry, current: CurrentStats, health: &HealthHandle) {
    let (handle, refusals) = (health.clone(), Refusals::default());
    registry.register("server", "server", move || {
        let (stats, certificate) = current.get();
        let stats = stats.snapshot();
        let memory = Tier::new("memory")
            .lookups([("hit", stats.hits), ("miss", stats.misses)])
            .miss_causes(stats.miss_causes.counts())
            .operations([("command", stats.commands)])
            .latency(stats.latency)
            .entries(stats.keys)
            .bytes(stats.memory_used_bytes, stats.memory_capacity_bytes);
        let mut sample = sample_with_health(&handle);
        sample.degradations.extend(refusals.lacking_connections(stats.connections_rejected));
        sample.figures.extend(certificate.and_then(|handle| handle.expires()).map(certificate_figure));
        sample
            .tier(memory)
            .top("keys", shown(&stats.top_keys))
            .figure(Figure::current(
                "connections",
                Unit::Count,
                stats.connections as f64,
                "Open connections.",
            ))
            .figure(Figure::total(
                "command_errors",
                Unit::Count,
                stats.errors,
                "Commands that failed with an error.",
            ))
            .figure(Figure::total(
                "rejected_connections",
                Unit::Count,
                stats.connections_rejected,
                "Connections refused because maxclients was reached.",
            ))
            .figure(Figure::total(
                "out_of_memory_errors",
                Unit::Count,
                stats.out_of_memory,
                "Commands refused because the memory limit was reached and nothing could be evicted.",
            ))
            .figure(Figure::total("evicted", Unit::Count, stats.evicted, "Entries evicted to make room."))
            .figure(Figure::total("expired", Unit::Count, stats.expired, "Entries removed after their TTL."))
            .figure(Figure::total("received", Unit::Bytes, stats.bytes_in, "Bytes read from clients."))
            .figure(Figure::total("sent", Unit::Bytes, stats.bytes_out, "Bytes written to clients."))
    });
}

/// What the shortener lacks if its database does not take writes.
fn lacking_database(health: StoreHealth) -> Option<Degradation> {
    const REDIRECTS: &str = "redirects work, changes are refused, and visits wait in memory";
    let stopped = |meaning| Degradation::new("database", meaning).not_ready();
    Some(match health {
        StoreHealth::Writes => return None,
        StoreHealth::Fails { since, error: error @ StoreError::Full(_) } => {
            Degradation::new("disk", format!("{error}: {REDIRECTS}")).lasting(since.elapsed())
        }
        StoreHealth::Fails { since, error } => {
            Degradation::new("database", format!("{error}: {REDIRECTS}")).lasting(since.elapsed())
        }
        StoreHealth::WriterDown { since } => {
            stopped("the database cannot be opened again or does not answer: changes are refused, and visits wait in memory")
                .lasting(since.elapsed())
        }
        _ => stopped("the database is closed"),
    })
}

/// The connections that the cache server refused: how many, and when the last sample found more of them.
#[derive(Default)]
struct Refusals(Mutex<(u64, Option<Instant>)>);

impl Refusals {
    /// What the server lacks for a while after it has refused connections.
    fn lacking_connections(&self, refused: u64) -> Option<Degradation> {
        let (known, last) = &mut *self.0.lock().expect("nothing panics under this lock");
        if std::mem::replace(known, refused) < refused {
            *last = Some(Instant::now());
        }
        let is_recent = last.is_some_and(|last| last.elapsed() < REFUSALS_SHOWN);
        let meaning = format!("maxclients is reached: {refused} connections were refused since the start");
        is_recent.then(|| Degradation::new("connections", meaning))
    }
}

/// Keys as text, with their counts and errors.
fn shown(keys: &[TopKey]) -> impl Iterator<Item = (String, u64, u64)> {
    keys.iter().map(|top| (String::from_utf8_lossy(&top.key).into_owned(), top.count, top.error))
}

/// For how long a certificate is still valid.
pub(super) fn certificate_figure(expires: SystemTime) -> Figure {
    let seconds = match expires.duration_since(SystemTime::now()) {
        Ok(left) => left.as_secs_f64(),
        Err(ago) => -ago.duration().as_secs_f64(),
    };
    Figure::current(
        "certificate_remaining",
        Unit::Seconds,
        seconds,
        "Time until the first certificate of the chain expires, negative afterwards.",
    )
}

/// A sample with the state and the restarts of a part.
pub(super) fn sample_with_health(health: &HealthHandle) -> Sample {
    let health = health.get();
    let state = match health.state {
        State::Running => larder_admin::State::Running,
        State::Restarting => larder_admin::State::Restarting,
        State::Stopped => larder_admin::State::Stopped,
    };
    Sample { state, restarts: health.restarts, last_failure: health.last_failure, ..Sample::running() }
}

/// The statistics and the certificate of the current cache server. Each restart creates a new server.
#[derive(Clone)]
pub(crate) struct CurrentStats(Arc<Mutex<Handles>>);

type Handles = (StatsHandle, Option<CertificateHandle>);

impl CurrentStats {
    pub(crate) fn new(server: &Server) -> Self {
        CurrentStats(Arc::new(Mutex::new(handles(server))))
    }

    pub(crate) fn replace(&self, server: &Server) {
        *self.0.lock().expect("nothing panics under this lock") = handles(server);
    }

    fn get(&self) -> Handles {
        self.0.lock().expect("nothing panics under this lock").clone()
    }
}

fn handles(server: &Server) -> Handles {
    (server.stats_handle(), server.certificate_handle())
}
