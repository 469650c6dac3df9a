//! What a trace shows of a fetch: where its value came from, and which load it waited for.

use crate::{cached, gated, node_with, over};
use larder::{Cache, View};
use larder_testkit::{Deadline, Gate, PATIENCE, RedisServer, eventually};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::time::Duration;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;

/// Collects the spans of this thread: the tests run on one.
struct Trace {
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _collects: DefaultGuard,
}

impl Trace {
    fn start() -> Trace {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let filter = tracing_subscriber::filter::Targets::new().with_target("larder", tracing::Level::DEBUG);
        let subscriber = tracing_subscriber::registry().with(filter).with(layer);
        Trace { exporter, _provider: provider, _collects: tracing::subscriber::set_default(subscriber) }
    }

    /// The ended spans of a name, in the order of their ends.
    fn named(&self, name: &str) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().expect("exported");
        spans.into_iter().filter(|span| span.name == name).collect()
    }

    /// The tier and the outcome of each fetch that ended.
    fn fetches(&self) -> Vec<(String, String)> {
        let fetches = self.named("larder.fetch");
        fetches.iter().map(|span| (attribute(span, "tier"), attribute(span, "outcome"))).collect()
    }
}

fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|own| own.key.as_str() == name);
    found.map_or_else(|| format!("no {name}"), |own| own.value.as_str().into_owned())
}

fn pair(tier: &str, outcome: &str) -> (String, String) {
    (tier.to_owned(), outcome.to_owned())
}

#[tokio::test]
async fn fetch_is_a_span_with_its_tier_and_outcome_and_a_hit_is_none() {
    let Some(server) = RedisServer::start() else { return };
    let trace = Trace::start();
    let before: View<str, u32> = over(server.url()).view("n");
    crate::fetched(&before, "k", 1).await;
    cached(&before, "k").await;
    let after: View<str, u32> = over(server.url()).view("n");
    cached(&after, "k").await;
    let failing: View<str, u32, &str> = over(server.url()).view("n");
    assert!(failing.fetch("none").load(|_| async { Err("down") }).await.is_err());
    // A load that has failed releases its lease after the answer, and its span is below that of the fetch.
    eventually("the fetches have ended", async || trace.fetches().len() >= 3).await;
    let expected = [pair("loader", "loaded"), pair("redis", "hit"), pair("none", "error")];
    assert_eq!(trace.fetches(), expected, "and none for the hit");
    let fetch = &trace.named("larder.fetch")[0];
    assert_eq!((attribute(fetch, "cache"), attribute(fetch, "view")), ("test".to_owned(), "n".to_owned()));
    eventually("the loads have ended", async || trace.named("larder.load").len() == 3).await;
    let load = &trace.named("larder.load")[0];
    assert_eq!(load.parent_span_id, fetch.span_context.span_id(), "its loader's spans belong to the fetch");
    assert_eq!(attribute(load, "lease").len(), 32);
}

#[tokio::test]
async fn wait_for_the_load_of_another_caller_links_to_that_load() {
    let _deadline = Deadline::start();
    let trace = Trace::start();
    let cache = Cache::builder("test").ttl(Duration::from_secs(60)).build().expect("valid options");
    let view: View<str, u32> = cache.view("n");
    let (gate, first, second) = crate::leader_and_follower(&cache, &view).await;
    gate.open(1);
    assert_eq!((first.await.expect("no panic"), second.await.expect("no panic")), (1, 1));
    eventually("the load has ended", async || trace.named("larder.load").len() == 1).await;
    let [load] = &trace.named("larder.load")[..] else { panic!("one load") };
    let [wait] = &trace.named("larder.wait")[..] else { panic!("one wait") };
    let links: Vec<_> = wait.links.iter().map(|link| link.span_context.span_id()).collect();
    assert_eq!(links, [load.span_context.span_id()]);
    let mut fetches = trace.fetches();
    fetches.sort_unstable();
    assert_eq!(fetches, [pair("loader", "loaded"), pair("memory", "coalesced")]);
}

#[tokio::test]
async fn wait_for_another_node_names_the_lease_of_its_load() {
    let Some(server) = RedisServer::start() else { return };
    let trace = Trace::start();
    let nodes: [Cache; 2] = std::array::from_fn(|_| {
        node_with(server.url(), |options| options.redis_timeout(PATIENCE).lease_wait(PATIENCE))
    });
    let [a, b]: [View<str, u32>; 2] = std::array::from_fn(|node| nodes[node].view("n"));
    assert!(b.read("other").await.is_none(), "it is connected");
    let (gate, loading) = crate::begun(&a, 1).await;
    let asked = || nodes[1].stats().redis.expect("a redis tier").latency.count();
    let before = asked();
    let waiting = gated(&b, &Gate::closed(), 2);
    eventually("the other node looks again", async || asked() >= before + 2).await;
    gate.open(1);
    assert_eq!((loading.await.expect("no panic"), waiting.await.expect("no panic")), (1, 1));
    eventually("both have ended", async || trace.named("larder.load").len() == 2).await;
    let leases: Vec<String> =
        trace.named("larder.load").iter().map(|load| attribute(load, "lease")).collect();
    let waits = trace.named("larder.lease_wait");
    assert_eq!(waits.len(), 1);
    assert!(leases.contains(&attribute(&waits[0], "lease")), "{leases:?}");
}
