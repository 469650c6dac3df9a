//! Random operations and restarts, compared with a model of which versions of each response may be served.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_http::Profile;

use super::*;

const TARGETS: usize = 12;
const STEPS: usize = 400;

/// A small generator of numbers, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The versions of each target: that of the origin, and the oldest that may still be served.
struct Model {
    current: Arc<Vec<AtomicU64>>,
    oldest: Vec<u64>,
}

impl Model {
    /// A cache over the folder. Each response has its version, tags, and an hour of freshness.
    fn site(&self, folder: &Folder) -> Site {
        let current = self.current.clone();
        // A quarter of the responses fits the memory.
        let options = |builder: Builder| builder.profile(Profile::Rfc).max_bytes(16 << 10);
        folder.site_with(options, move |request, _| {
            let target: usize = request.uri().path().rsplit('/').next().unwrap().parse().unwrap();
            let version = current[target].load(Ordering::SeqCst);
            let body = format!("{version} {}", "x".repeat(target * 600));
            let reply = field(plain(body), "cache-control", "max-age=3600");
            let reply = field(reply, "etag", &format!("\"{target} {version}\""));
            // Some vary, and some by one field or another.
            let fields =
                ["", "x-variant", "", if version.is_multiple_of(3) { "x-variant" } else { "x-other" }];
            let vary = fields[target % fields.len()];
            let reply = if vary.is_empty() { reply } else { field(reply, "vary", vary) };
            ready(with_cached(
                reply,
                larder_http::Cached::ttl(MINUTE * 60).tag(format!("tag-{}", target % 3)),
            ))
        })
    }

    fn target(target: usize) -> String {
        format!("/{}/{target}", target % 2)
    }

    /// What is stored now may not be served any more.
    fn purge(&mut self, is_covered: impl Fn(usize) -> bool) {
        for target in (0..TARGETS).filter(|target| is_covered(*target)) {
            self.current[target].fetch_add(1, Ordering::SeqCst);
            self.oldest[target] = self.current[target].load(Ordering::SeqCst);
        }
    }
}

async fn run(seed: u64) {
    let mut random = Random(seed);
    let current = Arc::new((0..TARGETS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
    let mut model = Model { current, oldest: vec![0; TARGETS] };
    let mut folder = Folder::new();
    let mut site = model.site(&folder);
    let (mut from_disk, mut restarts) = (0, 0);
    for step in 0..STEPS {
        let target = random.below(TARGETS as u64) as usize;
        let path = Model::target(target);
        match random.below(40) {
            0..20 => {
                let found = site.send(get(&path, &[("x-variant", "1")])).await;
                let version: u64 = found.body.split(|byte| *byte == b' ').next().map_or(0, parse);
                let range = model.oldest[target]..=model.current[target].load(Ordering::SeqCst);
                assert!(
                    range.contains(&version),
                    "seed {seed}, step {step}: {version} of {path}, not {range:?}"
                );
                // What a client has seen replaced may never be served again.
                model.oldest[target] = version;
                from_disk += u64::from(matches!(found.outcome, larder_http::Outcome::Disk { .. }));
            }
            20..26 => _ = model.current[target].fetch_add(1, Ordering::SeqCst),
            26..30 => {
                let found = site.send(get(&path, &[("x-variant", "1"), ("cache-control", "no-cache")])).await;
                let version: u64 = found.body.split(|byte| *byte == b' ').next().map_or(0, parse);
                assert_eq!(version, model.current[target].load(Ordering::SeqCst), "seed {seed}, step {step}");
                model.oldest[target] = version;
            }
            30 => {
                // The origin changes with it: so the model sees what is served after it from before.
                model.purge(|other| other == target);
                assert!(site.cache.purge_uri(&format!("http://site.example{path}")).is_ok());
            }
            31 => {
                model.purge(|other| other % 3 == target % 3);
                site.cache.purge_tag(&format!("tag-{}", target % 3));
            }
            32 => {
                model.purge(|other| other % 2 == target % 2);
                site.cache.purge_prefix(&format!("http://site.example/{}/", target % 2)).unwrap();
            }
            33 if random.below(4) == 0 => {
                model.purge(|_| true);
                site.cache.purge_all();
            }
            33 | 34 => {
                model.purge(|other| other == target);
                site.send(request("POST", &path, &[])).await;
            }
            35 | 36 => {
                tokio::time::sleep(Duration::from_millis(random.below(4))).await;
            }
            37 => {
                drop(site);
                site = model.site(&folder);
                restarts += 1;
            }
            _ => {
                let killed = folder.copy();
                drop(site);
                folder = killed;
                site = model.site(&folder);
                restarts += 1;
            }
        }
    }
    assert!(
        from_disk > 5 && restarts > 5,
        "seed {seed}: {from_disk} responses from disk, {restarts} restarts"
    );
}

fn parse(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).parse().unwrap()
}

#[tokio::test]
async fn random_operations_serve_what_the_model_allows() {
    let first = std::env::var("DISK_MODEL_SEED").ok().map(|seed| seed.parse().unwrap());
    let seeds = first.map_or(1..=8, |seed: u64| seed..=seed);
    for seed in seeds {
        run(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).await;
    }
}
