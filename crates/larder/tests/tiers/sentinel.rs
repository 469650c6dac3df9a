//! A primary behind sentinels: finding it, following a failover, and trusting nothing that a majority does not confirm.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with};
use futures_util::future::join_all;
use larder::{Cache, CoherenceProblem, View};
use larder_testkit::{RedisServer, Sentinels, eventually, within};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata};

/// A node with a short `max_lag`.
fn behind(url: String) -> Cache {
    node_with(url, |options| options.max_lag(Duration::from_millis(400)).ttl(Duration::from_secs(600)))
}

/// Waits until the node writes to the primary that the sentinels name.
async fn follows(cache: &Cache, primary: &RedisServer) {
    let view: View<str, u32> = cache.view("probe");
    eventually("the node writes to the next primary", async || {
        let reached = view.write("k", 1).await.is_ok_and(|reach| reach.is_everywhere());
        reached && primary.command("EXISTS test:probe:k") == ":1\r\n"
    })
    .await;
}

#[tokio::test]
async fn node_follows_the_sentinels_to_the_next_primary() {
    let Some(mut sentinels) = Sentinels::start() else { return };
    let (one, other) = (behind(sentinels.url()), behind(sentinels.url()));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    assert_eq!((fetched(&a, "k", 1).await, cached(&b, "k").await), (1, 1));
    assert!(sentinels.fail_over(Duration::ZERO), "there is another primary");
    follows(&one, sentinels.primary()).await;
    follows(&other, sentinels.primary()).await;
    a.delete("k").await.everywhere();
    eventually("the other node has heard it", async || b.read("k").await.is_none()).await;
    let trusted = || one.coherence().memory_trusted && other.coherence().memory_trusted;
    eventually("both are confirmed", async || trusted()).await;
}

/// The replica may not have what the primary acknowledged last. Who made or heard an invalidation repeats it.
#[tokio::test]
async fn invalidations_survive_a_killed_primary() {
    let Some(mut sentinels) = Sentinels::start() else { return };
    let (one, other) = (behind(sentinels.url()), behind(sentinels.url()));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    for key in ["before", "meanwhile"] {
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
    }
    a.delete("before").await.everywhere();
    sentinels.primary().kill();
    a.delete("meanwhile").await.queued();
    assert_eq!(fetched(&b, "new", 7).await, 7, "a fetch loads while there is no primary");
    follows(&one, sentinels.primary_once_up()).await;
    follows(&other, sentinels.primary_once_up()).await;
    eventually("nothing is pending", async || one.coherence().pending_invalidations == 0).await;
    for key in ["before", "meanwhile"] {
        eventually("it is gone everywhere", async || b.read(key).await.is_none()).await;
        let new: View<str, u32> = behind(sentinels.url()).view("n");
        assert!(new.read(key).await.is_none(), "{key}");
    }
}

#[tokio::test]
async fn nothing_is_proved_without_a_majority_of_sentinels() {
    let Some(sentinels) = Sentinels::start() else { return };
    let cache = behind(sentinels.url());
    let open = node_with(sentinels.url(), |options| {
        options.max_lag(Duration::from_millis(400)).sentinel_fence(false).ttl(Duration::from_secs(600))
    });
    let (view, unfenced): (View<str, u32>, View<str, u32>) = (cache.view("n"), open.view("n"));
    assert_eq!((fetched(&view, "k", 1).await, cached(&unfenced, "k").await), (1, 1));
    eventually("a majority confirms", async || cache.coherence().memory_trusted).await;
    sentinels.pause(2);
    eventually("memory alone is not served any more", async || !cache.coherence().memory_trusted).await;
    let problem = cache.coherence().problem.expect("there is no proof").to_string();
    // On a slow machine the last one is late too.
    let is_meant = problem.starts_with("sentinels that confirm the primary: ")
        && problem.ends_with("; the fence needs 2");
    assert!(is_meant, "{problem}");
    assert_eq!(view.read("k").await.as_deref(), Some(&1), "within `disconnected`");
    assert!(open.coherence().memory_trusted, "this one asks nobody");
    view.delete("k").await.queued();
    sentinels.pause(0);
    eventually("the deletion is repeated", async || cache.coherence().pending_invalidations == 0).await;
    eventually("a majority confirms again", async || cache.coherence().memory_trusted).await;
    eventually("the other node has heard it", async || unfenced.read("k").await.is_none()).await;
}

#[tokio::test]
async fn one_hung_sentinel_delays_nothing() {
    let Some(sentinels) = Sentinels::start() else { return };
    let cache = node_with(sentinels.url(), |options| options.redis_timeout(Duration::from_secs(30)));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    sentinels.pause(1);
    let written = within(Duration::from_secs(10), "the others are a majority", view.write("k", 2)).await;
    written.everywhere();
}

#[tokio::test]
async fn concurrent_calls_wait_together_for_hung_sentinels() {
    let Some(sentinels) = Sentinels::start() else { return };
    let cache = node_with(sentinels.url(), |options| options.redis_timeout(Duration::from_secs(2)));
    let view: View<u32, u32> = cache.view("n");
    view.write(&0, 1).await.everywhere();
    sentinels.pause(2);
    let deletions = join_all((0..20).map(async |key| view.delete(&key).await.queued()));
    within(Duration::from_secs(20), "half of what they would wait one after the other", deletions).await;
    sentinels.pause(0);
}

#[tokio::test]
async fn server_that_tells_no_identity_is_not_confirmed() {
    let Some(mut sentinels) = Sentinels::start() else { return };
    for server in sentinels.servers() {
        assert_eq!(server.command("ACL SETUSER app on >secret ~* &* +@all -info"), "+OK\r\n");
    }
    let cache = behind(sentinels.url().replace("//", "//app:secret@"));
    let view: View<str, u32> = cache.view("n");
    view.delete("k").await.queued();
    eventually("the node says why", async || {
        let problem = cache.coherence().problem.map(|problem| problem.to_string());
        problem.is_some_and(|problem| problem.starts_with("the user may not send INFO: "))
    })
    .await;
    assert_eq!(fetched(&view, "k", 1).await, 1, "loaded");
    eventually("memory, which was empty, needs a proof", async || !cache.coherence().memory_trusted).await;
    assert_eq!(
        sentinels.primary().command("EXISTS test:n:k"),
        ":0\r\n",
        "the value is not stored for others"
    );
}

#[tokio::test]
async fn shutdown_closes_the_connections_to_sentinels() {
    let Some(sentinels) = Sentinels::start() else { return };
    for sentinel in 0..3 {
        let user = "ACL SETUSER app on >two ~* &* +@all";
        assert_eq!(sentinels.ask(sentinel, user), "+OK\r\n");
    }
    let cache = behind(format!("{}?sentinel_user=app&sentinel_pass=two", sentinels.url()));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    let connections = || {
        (0..3)
            .map(|sentinel| sentinels.ask(sentinel, "CLIENT LIST").matches("user=app").count())
            .sum::<usize>()
    };
    assert!(connections() >= 2, "a majority is asked");
    assert_eq!(cache.shutdown(Duration::from_secs(10)).await, 0);
    eventually("no connection is left", async || connections() == 0).await;
}

/// A primary that was cut off from the sentinels and goes on answering this node.
#[tokio::test]
async fn former_primary_that_goes_on_is_left() {
    let Some(mut sentinels) = Sentinels::start() else { return };
    for server in sentinels.servers() {
        assert_eq!(server.command("ACL SETUSER app on >secret ~* &* +@all"), "+OK\r\n");
    }
    let url = sentinels.url().replace("//", "//app:secret@");
    let fenced = behind(url);
    let view: View<str, u32> = fenced.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    let before = sentinels.primary().socket();
    // The sentinels, which are this user, find it down.
    sentinels.primary().command("ACL SETUSER default -ping");
    eventually("there is another primary", async || sentinels.primary().socket() != before).await;
    follows(&fenced, sentinels.primary()).await;
    view.delete("k").await.everywhere();
    assert_eq!(sentinels.primary().command("EXISTS test:n:k"), ":0\r\n", "deleted at the next primary");
}

/// A primary that was cut off from the sentinels together with this node.
#[tokio::test]
async fn former_primary_is_not_read_by_a_node_without_sentinels() {
    let Some(mut sentinels) = Sentinels::start_with("user app on >two ~* &* +@all\n") else { return };
    for server in sentinels.servers() {
        assert_eq!(server.command("ACL SETUSER app on >secret ~* &* +@all"), "+OK\r\n");
    }
    let with_user = sentinels.url().replace("//", "//app:secret@");
    let cut_off = node_with(format!("{with_user}?sentinel_user=app&sentinel_pass=two"), |options| {
        options.max_lag(Duration::from_millis(400)).disconnected(Duration::ZERO).redis_connections(1)
    });
    let other = behind(with_user);
    let (view, elsewhere): (View<str, u32>, View<str, u32>) = (cut_off.view("n"), other.view("n"));
    view.write("k", 1).await.everywhere();
    assert_eq!(cached(&elsewhere, "k").await, 1);
    // Without sentinels no connection is opened: this opens the one of lookups.
    assert_eq!(view.read("other").await.as_deref(), None);
    let before = sentinels.primary().socket();
    for sentinel in 0..3 {
        assert_eq!(sentinels.ask(sentinel, "ACL DELUSER app"), ":1\r\n");
    }
    // The sentinels, which are this user, find it down, and cannot make it a replica.
    sentinels.primary().command("ACL SETUSER default -ping -slaveof -replicaof");
    eventually("there is another primary", async || sentinels.primary().socket() != before).await;
    follows(&other, sentinels.primary()).await;
    elsewhere.delete("k").await.everywhere();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(view.read("k").await.as_deref(), None, "the former primary has it, and answers");
}

#[tokio::test]
async fn unknown_name_of_a_primary_is_an_error_and_fetches_load() {
    let Some(sentinels) = Sentinels::start() else { return };
    let cache = behind(sentinels.url().replace("/shop", "/shopp"));
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    let problem = cache.coherence().problem;
    assert!(
        matches!(problem, Some(CoherenceProblem::Refused(reason)) if reason.contains("the name \"shopp\""))
    );
    let error = cache.counters::<str>("c").increment("k", 1).await.expect_err("there is no server");
    assert!(error.to_string().contains("the sentinels watch no server with the name \"shopp\""), "{error}");
}

#[tokio::test]
async fn password_of_sentinels_is_another_one() {
    let Some(mut sentinels) = Sentinels::start_with("user app on >two ~* &* +@all\n") else { return };
    let url = |pass| format!("{}?sentinel_user=app&sentinel_pass={pass}", sentinels.url());
    let (right, wrong) = (behind(url("two")), behind(url("one")));
    let counted = wrong.counters::<str>("c").increment("k", 1).await;
    assert!(
        counted.is_err_and(|error| !error.to_string().contains("one@")),
        "a wrong password reaches nobody"
    );
    follows(&right, sentinels.primary()).await;
}

/// Keeps the warnings that are logged on a thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut lines = self.0.lock().expect("no panic");
        event.record(&mut |_: &Field, value: &dyn Debug| lines.push(format!("{value:?}")));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Then a minority promotes another server while a majority finds the primary up.
#[tokio::test]
async fn quorum_below_a_majority_confirms_nothing_and_the_log_says_so() {
    let Some(sentinels) = Sentinels::start() else { return };
    let set_quorum = |quorum| {
        for sentinel in 0..3 {
            assert_eq!(sentinels.ask(sentinel, &format!("SENTINEL SET shop quorum {quorum}")), "+OK\r\n");
        }
    };
    set_quorum(1);
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let cache = behind(sentinels.url());
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    let reason = "the quorum of the sentinels is 1; the fence needs 2, a majority: \
                  the server is not read, and no invalidation is confirmed";
    let is_about_it = |line: &String| line.contains(reason);
    let count = || warnings.0.lock().expect("no panic").iter().filter(|line| is_about_it(line)).count();
    view.delete("k").await.queued();
    eventually("memory, which was empty, needs a proof", async || !cache.coherence().memory_trusted).await;
    for _ in 0..3 {
        view.delete("k").await.queued();
        let coherence = cache.coherence();
        assert!(!coherence.memory_trusted && coherence.pending_invalidations > 0, "{coherence:?}");
    }
    assert_eq!(count(), 1, "once: {:?}", warnings.0);
    set_quorum(2);
    eventually("the deletion is confirmed", async || cache.coherence().pending_invalidations == 0).await;
    eventually("memory is trusted", async || cache.coherence().memory_trusted).await;
}
