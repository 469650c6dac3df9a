//! The dashboard with simulated parts and load. Run `cargo run -p larder-admin --example dashboard` and open the
//! address that it prints. An argument sets the address; the default is `127.0.0.1:8081`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use larder_admin::{Admin, Degradation, Figure, Registry, Sample, State, Tier, Unit};
use larder_engine::stats::Histogram;

const MIB: u64 = 1 << 20;

/// A tier whose load varies in waves.
struct Load {
    per_second: f64,
    hit_ratio: f64,
    micros: f64,
    capacity: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    entries: AtomicU64,
    latency: Histogram,
}

impl Load {
    fn new(per_second: f64, hit_ratio: f64, micros: f64, capacity: u64) -> Arc<Load> {
        Arc::new(Load {
            per_second,
            hit_ratio,
            micros,
            capacity,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            latency: Histogram::new(),
        })
    }

    /// Simulates a fifth of a second of load.
    fn simulate(&self, time: f64) {
        let phase = self.micros.ln_1p();
        let wave = 1.0
            + 0.3 * (time / 17.0 + phase).sin()
            + 0.12 * (time / 3.1).sin()
            + 0.1 * (rand::random::<f64>() - 0.5);
        let lookups = self.per_second * wave / 5.0;
        let ratio = self.hit_ratio + 0.03 * (time / 23.0 + phase).sin() + 0.01 * rand::random::<f64>();
        let hits = lookups * ratio.min(1.0);
        self.hits.fetch_add(hits as u64, Relaxed);
        self.stale.fetch_add((lookups * 0.004) as u64, Relaxed);
        self.misses.fetch_add((lookups - hits).max(0.0) as u64, Relaxed);
        for _ in 0..200 {
            let tail: f64 = rand::random::<f64>();
            let micros =
                self.micros * (0.6 + wave * 0.5 + tail.powi(24) * 18.0 + 0.3 * rand::random::<f64>());
            self.latency
                .record_n(Duration::from_nanos((micros * 1e3) as u64), (lookups / 200.0).ceil() as u64);
        }
        let entries = self.entries.load(Relaxed) as f64;
        let full = self.capacity as f64 / 620.0;
        self.entries.store((entries + (full * 0.93 - entries) * 0.004) as u64, Relaxed);
    }

    fn tier(&self, name: &'static str) -> Tier {
        let (hits, misses, stale) =
            (self.hits.load(Relaxed), self.misses.load(Relaxed), self.stale.load(Relaxed));
        let entries = self.entries.load(Relaxed);
        Tier::new(name)
            .lookups([("hit", hits), ("stale", stale), ("miss", misses)])
            .operations([("get", hits + misses + stale), ("set", misses), ("delete", misses / 9)])
            .latency(self.latency.snapshot())
            .entries(entries)
            .bytes(entries * 620, self.capacity)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let resp = Load::new(184_000.0, 0.962, 0.9, 512 * MIB);
    let http = Load::new(41_300.0, 0.905, 1.1, 256 * MIB);
    let memory = Load::new(12_800.0, 0.874, 0.4, 64 * MIB);
    let redis = Load::new(1_640.0, 0.71, 310.0, 1024 * MIB);
    let started = Instant::now();

    let registry = Registry::new();
    let load = resp.clone();
    registry.register("server", "redis protocol", move || {
        Sample::running()
            .tier(load.tier("memory"))
            .figure(Figure::current("connections", Unit::Count, 312.0, "Connected clients."))
            .figure(Figure::current(
                "blocked_clients",
                Unit::Count,
                4.0,
                "Clients that wait for a list element.",
            ))
            .figure(Figure::current(
                "output_buffers",
                Unit::Bytes,
                1_300_000.0,
                "Replies that clients have not read yet.",
            ))
    });
    let load = http.clone();
    registry.register("http", "response cache", move || {
        let n = load.misses.load(Relaxed);
        Sample::running()
            .tier(load.tier("http"))
            .reasons(
                "bypass",
                [
                    ("cookie", n / 3),
                    ("method", n / 4),
                    ("authorization", n / 11),
                    ("hit-for-miss", n / 14),
                    ("set-cookie", n / 40),
                ],
            )
            .figure(Figure::total("not_modified", Unit::Count, n / 2, "Responses with status 304."))
            .figure(Figure::total("purges", Unit::Count, started.elapsed().as_secs() / 7, "Purge requests."))
    });
    let (one, two) = (memory.clone(), redis.clone());
    registry.register("links", "url shortener", move || {
        // Restarts and lacks Redis now and then, to show how that looks.
        let seconds = started.elapsed().as_secs();
        let state = if seconds % 90 > 82 { State::Restarting } else { State::Running };
        let mut sample = Sample { state, restarts: (seconds + 7) / 90, ..Sample::default() };
        if (30..60).contains(&(seconds % 90)) {
            let meaning =
                "Redis does not answer: memory is served for a while, then every fetch loads from the origin";
            sample = sample.degraded(Degradation::new("redis", meaning));
        }
        sample
            .tier(one.tier("memory"))
            .tier(two.tier("redis"))
            .figure(Figure::current(
                "visit_queue",
                Unit::Count,
                (seconds % 13 * 21) as f64,
                "Visits that are not written yet.",
            ))
            .figure(Figure::current(
                "queue_wait",
                Unit::Seconds,
                0.0042,
                "Age of the oldest visit in the queue.",
            ))
    });
    registry.register("analytics", "background writer", || {
        Sample::running().figure(Figure::total(
            "rows_written",
            Unit::Count,
            1_204_311,
            "Rows written to the database.",
        ))
    });

    std::thread::spawn(move || {
        loop {
            let time = started.elapsed().as_secs_f64();
            [&resp, &http, &memory, &redis].into_iter().for_each(|load| load.simulate(time));
            std::thread::sleep(Duration::from_millis(200));
        }
    });

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8081".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, Admin::new(registry).router()).await?;
    Ok(())
}
