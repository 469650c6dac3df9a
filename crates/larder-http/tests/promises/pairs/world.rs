//! A site in one of the places where responses are stored, and the model of it: which responses may still be served.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use larder::{Invalidation, Validity, WriteOptions};
use larder_http::{Access, Clock, Coding, HttpCache, HttpCacheService, ManualClock, Scope, SharedHttpCache};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use super::drawn::{Drawn, Random, Resource};
use super::feature::Feature::{self, *};
use super::feature::HARD_PURGES;
use super::origin::{Origin, TTL};
use crate::support::*;

const SEED: u64 = 20;

enum Store {
    Alone(HttpCache),
    /// With or without Redis.
    Shared(SharedHttpCache, larder::Cache),
}

/// A site in one of the places where responses are stored, and the model of it.
pub(super) struct World {
    pub(super) place: Option<Feature>,
    random: Random,
    store: Store,
    service: HttpCacheService<BoxCloneSyncService<http::Request<String>, Reply, Infallible>>,
    clock: ManualClock,
    pub(super) origin: Arc<Origin>,
    /// The last stored response of each version, as far as it was seen.
    pub(super) stored: HashMap<String, usize>,
    /// The oldest call whose response may still be served, of a path and of a principal.
    pub(super) oldest: HashMap<String, usize>,
    /// Responses that were purged while they were fresh: the next request of that version proves it.
    pub(super) purged: Vec<(String, usize, Feature)>,
    /// The calls whose refresh has failed.
    pub(super) refresh_failed: BTreeSet<usize>,
    pub(super) etags: HashMap<String, usize>,
    pub(super) etag_list: Vec<String>,
    last: Option<Drawn>,
}

impl World {
    pub(super) async fn new(place: Option<Feature>) -> World {
        let (clock, manual) = Clock::manual();
        let gate = |head: &http::request::Parts| {
            let user = head.headers.get("user").map_or("", |user| user.to_str().unwrap()).to_owned();
            std::future::ready(match &*user {
                "ann" | "bob" => Access::AllowedAs(user),
                _ => Access::Denied,
            })
        };
        let options = HttpCache::builder().clock(clock.clone()).codings([Coding::Gzip]).gate(gate);
        let store = match place {
            None => Store::Alone(options.build().unwrap()),
            Some(place) => {
                let redis = larder::Cache::builder("pairs").ttl(MINUTE).clock(clock);
                let redis = match place {
                    Shared => redis,
                    _ => redis.redis(closed_address()).disconnected(match place {
                        Lost => Duration::ZERO,
                        _ => MINUTE * 60 * 24 * 365,
                    }),
                };
                let redis = redis.build().unwrap();
                Store::Shared(options.shared(redis.shared("http")).build().unwrap(), redis)
            }
        };
        let origin = Arc::new(Origin::default());
        let of_handler = origin.clone();
        let handler = service_fn(move |request| {
            let answer = of_handler.clone().answer(request);
            async move { Ok(answer.await) }
        });
        let layer = match &store {
            Store::Alone(cache) => cache.layer(),
            Store::Shared(cache, _) => cache.layer(),
        };
        let mut world = World {
            place,
            random: Random(SEED),
            service: layer.layer(BoxCloneSyncService::new(handler)),
            store,
            clock: manual,
            origin,
            stored: HashMap::new(),
            oldest: HashMap::new(),
            purged: Vec::new(),
            refresh_failed: BTreeSet::new(),
            etags: HashMap::new(),
            etag_list: Vec::new(),
            last: None,
        };
        world.lose_redis().await;
        world
    }

    /// Waits until Redis counts as lost, if it is to be.
    async fn lose_redis(&mut self) {
        let Store::Shared(_, redis) = &self.store else { return };
        if self.place == Some(Shared) {
            return;
        }
        // Longer than the lag: what is not proved is not trusted.
        self.advance_by(MINUTE);
        let view = redis.shared("probe");
        let copy = view.unleased(b"probe").await.copy(&WriteOptions::new());
        let is_lost = || match self.place {
            Some(Lost) => !view.serves_copies(),
            _ => view.validity(&copy) == Validity::Valid,
        };
        let deadline = Instant::now() + MINUTE;
        while !is_lost() {
            assert!(Instant::now() < deadline, "redis is not lost");
            _ = view.read(b"probe").await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) async fn step(&mut self) {
        match self.random.below(12) {
            0 => self.advance(),
            1 | 2 => self.purge().await,
            3 => self.decay().await,
            4 => {
                let fails = self.random.one_in(3);
                self.origin.fails.store(fails, Ordering::SeqCst);
            }
            _ => {
                let drawn = Drawn::draw(&mut self.random, &self.etag_list);
                let count = self.random.pick(&[1, 1, 1, 3]);
                self.send(&drawn, count).await;
                self.last = Some(drawn.clone());
                if self.random.one_in(2) {
                    // A stored response is used more than once.
                    let (is_head, is_part) = (self.random.one_in(3), self.random.one_in(3));
                    let range = is_part.then_some("bytes=100-199");
                    self.send(&Drawn { is_head, range, if_range: None, ..drawn }, 1).await;
                }
            }
        }
    }

    fn advance(&mut self) {
        let seconds = self.random.pick(&[1, 2, 4, 9]);
        self.advance_by(SECOND * seconds);
    }

    fn advance_by(&self, time: Duration) {
        self.clock.advance(time);
        self.origin.now_ms.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// Sends equal requests at the same time.
    async fn send(&mut self, drawn: &Drawn, count: usize) {
        let before = self.origin.calls.load(Ordering::SeqCst);
        let started: Vec<_> =
            (0..count).map(|_| tokio::spawn(self.service.clone().oneshot(drawn.request()))).collect();
        let mut makes_sibling = false;
        for response in started {
            let response = CollectedResponse::read(response.await.unwrap().unwrap()).await.unwrap();
            self.check(drawn, &response, before);
            makes_sibling |= drawn.makes_sibling(&response);
        }
        let deadline = Instant::now() + MINUTE;
        while makes_sibling {
            // On another thread: what is drawn next must not depend on its speed.
            assert!(Instant::now() < deadline, "no sibling is made: {drawn:?}");
            tokio::task::yield_now().await;
            let again = drawn.plain();
            let before = self.origin.calls.load(Ordering::SeqCst);
            let response = self.service.clone().oneshot(again.request()).await.unwrap();
            let response = CollectedResponse::read(response).await.unwrap();
            self.check(&again, &response, before);
            makes_sibling = again.makes_sibling(&response);
        }
        // Refreshes end.
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
    }

    /// Purges, mostly what was requested last, which is requested again.
    async fn purge(&mut self) {
        let again = self.last.clone().filter(|_| !self.random.one_in(4));
        let resource =
            again.as_ref().map_or_else(|| Resource::draw(&mut self.random), |again| again.resource);
        let user = again.as_ref().map_or("ann", |again| again.user);
        loop {
            let purge = match self.random.below(HARD_PURGES.len() + 1) {
                0 => PurgeSoft,
                hard => HARD_PURGES[hard - 1],
            };
            self.purge_one(purge, resource, user).await;
            let Some(again) = &again else { break };
            if purge != PurgeSoft {
                // The next response proves it.
                self.origin.fails.store(false, Ordering::SeqCst);
            }
            let again = again.plain();
            self.send(&again, 1).await;
            self.send(&again, 1).await;
            if self.random.one_in(2) {
                break;
            }
        }
    }

    /// Makes the last response stale by its age or softly, lets its refresh fail, and purges it.
    async fn decay(&mut self) {
        let Some(last) = self.last.clone() else { return };
        let scope = last.resource.scope.filter(|scope| *scope == Scope::Public);
        let resource = Resource { scope, has_grace: true, ..last.resource };
        let last = Drawn { resource, ..last.plain() };
        self.origin.fails.store(false, Ordering::SeqCst);
        self.send(&last, 1).await;
        match self.random.one_in(2) {
            true => self.advance_by(TTL),
            false => self.purge_one(PurgeSoft, resource, last.user).await,
        }
        self.origin.fails.store(true, Ordering::SeqCst);
        self.send(&last, 1).await;
        self.send(&last, 1).await;
        self.last = Some(last);
        self.purge().await;
    }

    async fn purge_one(&mut self, purge: Feature, resource: Resource, user: &'static str) {
        let (uri, tag, prefix) = (resource.uri(), resource.path(), resource.prefix());
        match &self.store {
            Store::Alone(cache) => match purge {
                PurgeUri => _ = cache.purge_uri(&uri).unwrap(),
                PurgeTag => cache.purge_tag(&tag),
                PurgePrefix => cache.purge_prefix(&prefix).unwrap(),
                PurgeAll => cache.purge_all(),
                PurgePrincipal => cache.purge_principal(user),
                _ => return,
            },
            Store::Shared(cache, redis) => {
                // Not everywhere: where Redis is lost, it is in effect here.
                _ = match purge {
                    PurgeUri => cache.purge_uri(&uri).await.unwrap(),
                    PurgeTag => cache.purge_tag(&tag).await,
                    PurgePrefix => cache.purge_prefix(&prefix).await.unwrap(),
                    PurgeAll => cache.purge_all().await,
                    PurgePrincipal => cache.purge_principal(user).await,
                    _ => redis.invalidate_tags([&*tag], Invalidation::Soft).await.unwrap(),
                };
            }
        }
        let path_of = |version: &str| version.split('?').next().unwrap().to_owned();
        let covers = |version: &str| match purge {
            PurgeUri | PurgeTag | PurgeSoft => path_of(version) == tag,
            PurgePrefix => format!("http://site.example{}", path_of(version)).starts_with(&prefix),
            PurgePrincipal => version.starts_with("/Private") && version.ends_with(&format!("&{user}")),
            _ => true,
        };
        let oldest = self.origin.calls.load(Ordering::SeqCst) + 1;
        for (version, call) in self.stored.extract_if(|version, _| covers(version)) {
            self.purged.push((version, call, purge));
        }
        match purge {
            PurgeSoft => {}
            PurgePrincipal => _ = self.oldest.insert(format!("principal {user}"), oldest),
            PurgeAll => {
                for scope in [None, Some(Scope::Public), Some(Scope::Gated), Some(Scope::Private)] {
                    for shape in 0..8 {
                        let (varies, has_grace, number) = (shape & 1 == 1, shape & 2 == 2, shape >> 2);
                        let resource = Resource { scope, varies, has_grace, number };
                        self.oldest.insert(resource.path(), oldest);
                    }
                }
            }
            PurgePrefix => {
                for number in 0..2 {
                    self.oldest.insert(Resource { number, ..resource }.path(), oldest);
                }
            }
            _ => _ = self.oldest.insert(tag, oldest),
        }
    }
}
