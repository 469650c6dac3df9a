//! Parts of a namespace: their names are separate, and a clear reaches the parts below.

use crate::mutation::Mutation;
use crate::{cached, fetched, in_memory, over};
use larder::{Cache, View};
use larder_testkit::{Gate, RedisServer, eventually};

/// A cache in memory, and one over the server.
pub(crate) fn every_kind(server: &RedisServer) -> [Cache; 2] {
    [in_memory(), over(server.url())]
}

#[tokio::test]
async fn clear_of_space_reaches_spaces_below() {
    let Some(server) = RedisServer::start() else { return };
    for cache in every_kind(&server) {
        let (eu, de) = (cache.space("eu"), cache.space("eu").space("de"));
        let (above, below): (View<str, u32>, View<str, u32>) = (eu.view("n"), de.view("n"));
        let beside: View<str, u32> = cache.space("us").view("n");
        for (view, value) in [(&above, 1), (&below, 2), (&beside, 3)] {
            assert_eq!(fetched(view, "k", value).await, value);
        }
        de.clear().await.everywhere();
        assert!(below.read("k").await.is_none());
        assert_eq!(cached(&above, "k").await, 1, "a clear does not reach the space above");
        assert_eq!(fetched(&below, "k", 4).await, 4);
        eu.clear().await.everywhere();
        assert!(above.read("k").await.is_none() && below.read("k").await.is_none());
        assert_eq!(cached(&beside, "k").await, 3);
    }
}

#[tokio::test]
async fn clear_of_space_above_voids_running_load_below() {
    let Some(server) = RedisServer::start() else { return };
    for cache in every_kind(&server) {
        let below: View<str, u32> = cache.space("eu").space("de").view("n");
        let gate = Gate::closed();
        let loading = crate::gated(&below, &gate, 1);
        gate.arrival().await;
        cache.space("eu").clear().await.everywhere();
        gate.open(1);
        assert_eq!(loading.await.expect("no panic"), 1, "its caller asked before the clear");
        assert!(below.read("k").await.is_none());
    }
}

#[tokio::test]
async fn clear_of_space_above_reaches_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = crate::pair(&server);
    let of = |cache: &Cache| -> View<str, u32> { cache.space("eu").space("de").view("n") };
    let (a, b) = (of(&one), of(&other));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    one.space("eu").clear().await.everywhere();
    assert!(a.read("k").await.is_none());
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
}

#[tokio::test]
async fn paths_and_dotted_names_are_separate() {
    let Some(server) = RedisServer::start() else { return };
    for cache in every_kind(&server) {
        let views: [View<str, u32>; 5] = [
            cache.space("eu").space("de").view("n"),
            cache.space("eu.de").view("n"),
            cache.space("eu").view("de.n"),
            cache.view("eu.de.n"),
            cache.view("n"),
        ];
        for (view, value) in views.iter().zip(1..) {
            assert!(view.read("k").await.is_none(), "view {value}");
            view.write("k", value).await.everywhere();
        }
        for (view, value) in views.iter().zip(1..) {
            assert_eq!(cached(view, "k").await, value);
        }
        cache.space("eu.de").clear().await.everywhere();
        assert!(views[1].read("k").await.is_none());
        assert_eq!(cached(&views[0], "k").await, 1);
    }
}

#[tokio::test]
async fn delete_matched_in_space_takes_its_name_literally() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let (star, other): (View<str, u32>, View<str, u32>) =
            (cache.space("e*").view("n"), cache.space("eu").view("n"));
        star.write("k", 1).await.everywhere();
        other.write("k", 2).await.everywhere();
        assert_eq!(cache.space("e*").delete_matched("n:*").await.everywhere(), 1);
        assert!(star.read("k").await.is_none());
        assert_eq!(cached(&other, "k").await, 2);
    }
}

#[tokio::test]
async fn longest_path_of_space_stores_values() {
    let cache = in_memory();
    let longest = cache.space("above").space(&"n".repeat(249 - "above/".len()));
    let view: View<str, u32> = longest.view("n");
    view.write("k", 1).await.everywhere();
    assert_eq!(cached(&view, "k").await, 1);
}

#[test]
#[should_panic(expected = "the path of a space has 250 bytes; it must be from 1 to 249")]
fn too_long_path_of_space_is_refused() {
    in_memory().space("above").space(&"n".repeat(250 - "above/".len()));
}
