//! Tags and clear: one round trip invalidates everything that has a tag, on every node, in both tiers.

use crate::mutation::Mutation;
use crate::{cached, fetched, in_memory, over, pair};
use larder::{Cache, CoherenceMode, Invalidation, LoadCx, Policy, Source, View, WriteOptions};
use larder_testkit::{Gate, RedisServer, eventually};
use std::time::Duration;

async fn tagged(view: &View<str, u32>, key: &str, tag: &str, value: u32) -> u32 {
    let tag = tag.to_owned();
    let loader = move |cx: LoadCx<u32>| async move {
        cx.tag(&tag);
        Ok(value)
    };
    *view.fetch(key).load(loader).await.expect("loads")
}

#[tokio::test]
async fn tag_invalidation_removes_tagged_entries_only() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        assert_eq!(tagged(&view, "red", "colour", 1).await, 1);
        assert_eq!(fetched(&view, "seven", 7).await, 7);
        view.write_with("blue", 2, &WriteOptions::new().tag("colour").tag("cold")).await.everywhere();
        assert_eq!((cached(&view, "red").await, cached(&view, "blue").await), (1, 2));
        cache.invalidate_tags(["colour"], Invalidation::Hard).await.everywhere();
        assert!(view.read("red").await.is_none() && view.read("blue").await.is_none());
        assert_eq!(cached(&view, "seven").await, 7);
        assert_eq!(tagged(&view, "red", "colour", 3).await, 3);
        assert_eq!(cached(&view, "red").await, 3, "what is loaded afterwards is valid");
    }
}

/// The second of two nodes that found the ledger too long removed nearly all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_shorten_the_ledger_at_once_keep_its_newer_half() {
    let Some(server) = RedisServer::start() else { return };
    let nodes: Vec<Cache> = (0..4).map(|_| over(server.url())).collect();
    nodes[0].invalidate_tags(["first"], Invalidation::Hard).await.everywhere();
    let view: View<str, u32> = nodes[0].view("n");
    assert_eq!(tagged(&view, "k", "new", 1).await, 1);
    for round in 0..5 {
        for thousand in 0..100 {
            let old = (1..=1_000).map(|n| thousand * 1_000 + n).map(|n| format!("{n} old:{n}"));
            server.command(&format!("ZADD test::ledger {}", old.collect::<Vec<_>>().join(" ")));
        }
        let invalidations = (0..16).map(|n| {
            let (node, tag) = (nodes[n % 4].clone(), format!("late {round} {n}"));
            tokio::spawn(async move { node.invalidate_tags([tag], Invalidation::Hard).await.everywhere() })
        });
        for invalidation in invalidations.collect::<Vec<_>>() {
            invalidation.await.expect("no panic");
        }
        let members = server.command("ZCARD test::ledger");
        let members: u32 = members.trim_matches([':', '\r', '\n']).parse().expect("a number");
        assert!((50_000..50_050).contains(&members), "{members}");
    }
    assert_eq!(cached(&view, "k").await, 1, "its tag was invalidated by nobody");
}

#[tokio::test]
async fn tag_invalidation_reaches_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.delete("k").await.everywhere();
    assert_eq!(tagged(&a, "k", "t", 1).await, 1);
    assert_eq!(cached(&b, "k").await, 1);
    assert_eq!(cached(&b, "k").await, 1);
    a.delete("other").await.everywhere();
    one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    assert!(a.read("k").await.is_none());
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
    one.invalidate_tags(["u"], Invalidation::Hard).await.everywhere();
    assert_eq!(tagged(&b, "k", "t", 2).await, 2);
    assert_eq!(cached(&a, "k").await, 2);
}

#[tokio::test]
async fn load_before_tag_invalidation_is_not_kept() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.delete("k").await.everywhere();
    let gate = Gate::closed();
    let loading = {
        let (a, gate) = (a.clone(), gate.clone());
        tokio::spawn(async move {
            let loader = move |cx: LoadCx<u32>| async move {
                gate.pass().await;
                // Named late: after the invalidation.
                cx.tag("t");
                Ok(1)
            };
            *a.fetch("k").load(loader).await.expect("loads")
        })
    };
    gate.arrival().await;
    other.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert!(b.read("k").await.is_none());
    eventually("nor in memory", async || a.read("k").await.is_none()).await;
}

/// A stamp that is no whole number below 2^53 orders nothing, and neither does a key of another type.
#[tokio::test]
async fn ledger_overwritten_by_another_program_is_replaced() {
    let Some(server) = RedisServer::start() else { return };
    let mut faults = vec!["SET test::ledger text"];
    let stamps =
        ["inf clock", "-inf clock", "-5 clock", "1e300 clock", "9007199254740992 clock", "inf floor"];
    let stamps: Vec<_> = stamps.iter().map(|stamp| format!("ZADD test::ledger {stamp}")).collect();
    faults.extend(stamps.iter().map(|fault| &fault[..]));
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    assert!(b.read("before").await.is_none(), "both are connected now");
    for (fault, loads_first) in faults.iter().flat_map(|fault| [(fault, true), (fault, false)]) {
        for key in ["before", "after"] {
            a.delete(key).await.everywhere();
        }
        assert_eq!(tagged(&a, "before", "t", 1).await, 1, "{fault}");
        server.command(fault);
        if loads_first {
            assert_eq!(tagged(&a, "after", "t", 2).await, 2, "{fault}");
        }
        let reach = one.invalidate_tags(["t"], Invalidation::Hard).await.expect("done here");
        for key in ["before", "after"] {
            assert!(a.read(key).await.is_none(), "{fault}: {key}, {reach:?}");
        }
        let is_full = async || {
            let modes = [&one, &other].map(|cache| cache.coherence());
            modes.iter().all(|now| now.mode == CoherenceMode::Full && now.pending_invalidations == 0)
        };
        eventually(&format!("{fault}, {loads_first}: the promise holds again"), is_full).await;
        for key in ["before", "after"] {
            let loaded = tagged(&b, key, "t", 3).await;
            assert_eq!(loaded, 3, "{fault}: {key} on the other node");
        }
        one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        assert!(a.read("after").await.is_none(), "{fault}: a later invalidation");
        eventually("the other node forgets", async || b.read("after").await.is_none()).await;
        let clock = server.command("ZSCORE test::ledger clock");
        let clock = clock.lines().nth(1).and_then(|clock| clock.parse::<f64>().ok());
        assert!(clock.is_some_and(|clock| (1e15..9e15).contains(&clock)), "{fault}: {clock:?}");
    }
}

#[tokio::test]
async fn clear_of_space_keeps_rest_of_cache() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let (all, part): (View<str, u32>, View<str, u32>) = (cache.view("n"), cache.space("eu").view("n"));
        all.write("k", 1).await.everywhere();
        part.write("k", 2).await.everywhere();
        assert_eq!((cached(&all, "k").await, cached(&part, "k").await), (1, 2));
        cache.space("eu").clear().await.everywhere();
        assert!(part.read("k").await.is_none());
        assert_eq!(cached(&all, "k").await, 1);
        part.write("k", 3).await.everywhere();
        cache.clear().await.everywhere();
        assert!(all.read("k").await.is_none() && part.read("k").await.is_none());
        assert_eq!(fetched(&all, "k", 4).await, 4);
    }
}

#[tokio::test]
async fn clear_reaches_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    one.clear().await.everywhere();
    assert!(a.read("k").await.is_none());
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
}

#[tokio::test]
async fn lost_ledger_causes_misses_only() {
    let Some(server) = RedisServer::start() else { return };
    let old = over(server.url());
    let view: View<str, u32> = old.view("n");
    assert_eq!(tagged(&view, "k", "t", 1).await, 1);
    old.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    server.command("DEL test::ledger");
    let new: View<str, u32> = over(server.url()).view("n");
    assert_eq!(fetched(&new, "k", 2).await, 2);
    assert_eq!(cached(&new, "k").await, 2);
}

#[tokio::test]
async fn soft_invalidation_makes_value_stale() {
    let Some(server) = RedisServer::start() else { return };
    let grace = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(60));
    let redis = Cache::builder("test").policy(grace).redis(server.url()).build().expect("valid options");
    let memory = Cache::builder("test").policy(grace).build().expect("valid options");
    for cache in [memory, redis] {
        let view: View<str, u32, &str> = cache.view("n");
        let tagged = view.fetch("k").tag("t").load(|_| async { Ok(1) });
        assert_eq!(tagged.await.map(|f| *f).ok(), Some(1));
        cache.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
        assert!(view.read("k").await.is_none(), "not fresh");
        let failing = view.fetch("k").load(|_| async { Err("down") }).await.expect("stale");
        assert_eq!((*failing, failing.source()), (1, Source::Stale));
        cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        assert!(view.fetch("k").load(|_| async { Err("down") }).await.is_err(), "hard is never served again");
    }
}

#[tokio::test]
async fn trimmed_ledger_revives_no_value_and_ends_none_without_tags() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    assert_eq!(tagged(&view, "k", "t0", 1).await, 1);
    assert_eq!(tagged(&view, "expired", "t1", 1).await, 1);
    assert_eq!(fetched(&view, "untagged", 1).await, 1);
    cache.invalidate_tags(["t0"], Invalidation::Hard).await.everywhere();
    // As many tags as a ledger may have, each invalidated after that.
    let fill = "local clock = redis.call('ZSCORE', KEYS[1], 'clock') \
                for n = 1, 100000 do redis.call('ZADD', KEYS[1], clock + n, '!' .. n) end \
                redis.call('ZADD', KEYS[1], clock + 100000, 'clock')";
    server.command(&format!("EVAL \"{fill}\" 1 test::ledger"));
    cache.invalidate_tags(["next"], Invalidation::Hard).await.everywhere();
    assert_eq!(tagged(&view, "new", "t2", 1).await, 1);
    cache.invalidate_tags(["last"], Invalidation::Hard).await.everywhere();
    let members: u64 =
        server.command("ZCARD test::ledger").trim_matches([':', '\r', '\n']).parse().expect("a number");
    assert!((50_000..51_000).contains(&members), "{members} members");
    let new: View<str, u32> = over(server.url()).view("n");
    assert!(new.read("k").await.is_none(), "its stamp is gone");
    assert!(new.read("expired").await.is_none(), "nothing proves that its tag was not invalidated");
    assert_eq!(new.read("untagged").await.as_deref(), Some(&1));
    assert_eq!(new.read("new").await.as_deref(), Some(&1), "newer than the floor");
    cache.clear().await.everywhere();
    eventually("the other node has heard it", async || new.read("untagged").await.is_none()).await;
}

#[tokio::test]
async fn soft_invalidation_without_grace_removes_value() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32, &str> = cache.view("n");
        let tagged = view.fetch("k").tag("t").load(|_| async { Ok(1) });
        assert_eq!(tagged.await.map(|f| *f).ok(), Some(1));
        cache.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
        assert!(view.fetch("k").load(|_| async { Err("down") }).await.is_err());
        assert!(view.read("k").await.is_none());
    }
}

#[tokio::test]
async fn hits_in_memory_are_counted_by_tag() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    tagged(&view, "red", "colour", 1).await;
    fetched(&view, "seven", 7).await;
    assert!(cache.stats().top_tags.is_empty(), "loads are no hits");
    for _ in 0..4_000 {
        assert_eq!((cached(&view, "red").await, cached(&view, "seven").await), (1, 7));
    }
    let top = cache.stats().top_tags;
    let [colour] = &top[..] else { panic!("{top:?}") };
    assert_eq!(&*colour.key, b"colour");
    assert!(colour.count.abs_diff(4_000) <= 3 * colour.error, "{colour:?}");
}
