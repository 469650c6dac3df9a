//! An entry is softly invalidated while Redis is asked about it, and Redis then gives no reply: `read` serves valid
//! entries only, `fetch` serves the stale entry only if its loader fails, and only within the grace period.

use crate::mutation::Mutation;
use crate::node_with;
use larder::{Event, Invalidation, Policy, Source, View, WriteOptions};
use larder_testkit::{RedisServer, ScriptedProxy};
use std::time::Duration;

/// The calls wait so long for the reply that is lost, and for one more.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The calls under test; each may serve another judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read,
    FetchLoads,
    FetchFails,
}

/// Why the entry must be compared with Redis before its next use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    /// The write was reported by tracking. This node knows all stamps of the ledger.
    TrackedWrite,
    /// Announcements may have been missed. The stamps must be read again.
    Gap,
}

/// What the call returns: the value and its source, or nothing.
type Answer = Option<(u64, Source)>;

/// A call while the comparison with Redis is held: the entry's tag is invalidated softly, and the reply is lost.
async fn invalidated_during_comparison(
    server: &RedisServer,
    call: Call,
    suspect: Suspect,
    grace: Duration,
) -> Answer {
    let key = format!("{call:?}-{suspect:?}-{grace:?}");
    let proxy = ScriptedProxy::before(server);
    let (cache, _) = node_with(proxy.url(), |options| {
        let options = options.redis_timeout(TIMEOUT).disconnected(Duration::from_secs(600));
        options.foreign_writers(suspect == Suspect::TrackedWrite)
    });
    let view: View<str, u64, String> = cache.view("soft").with_policy(Policy::new().grace(grace));
    let name = key.clone();
    let pushes = proxy.hold(move |frame| frame.is_push(&name));
    view.write_with(&key, 1, &WriteOptions::new().tag(key.clone())).await.everywhere();
    match suspect {
        Suspect::TrackedWrite => {
            pushes.arrival().await;
            let heartbeats = proxy.hold(|frame| frame.is_reply("HELLO"));
            drop(pushes);
            // The second heartbeat is sent after the reply to the first, which follows the push.
            heartbeats.arrival().await;
            heartbeats.release_one();
            heartbeats.arrival().await;
        }
        Suspect::Gap => {
            drop(pushes);
            let mut events = cache.events();
            // Only a heartbeat sends HELLO on an open connection.
            let heartbeats = proxy.hold(|frame| frame.is_request("HELLO"));
            let subscription = heartbeats.arrival().await.connection;
            proxy.cut(subscription);
            drop(heartbeats);
            while events.recv().await != Ok(Event::Connected) {}
        }
    }

    let comparisons = proxy.hold(|frame| frame.is_reply("GETRANGE"));
    let (calling_view, calling_key) = (view.clone(), key.clone());
    let calling = tokio::spawn(async move {
        let fetch = calling_view.fetch(&calling_key);
        match call {
            Call::Read => calling_view.read(&calling_key).await,
            Call::FetchLoads => fetch.load(|_| async { Ok(2) }).await.ok(),
            Call::FetchFails => fetch.load(|_| async { Err("origin".to_owned()) }).await.ok(),
        }
        .map(|fetched| (*fetched, fetched.source()))
    });
    comparisons.arrival().await;
    cache.invalidate_tags([key.clone()], Invalidation::Soft).await.everywhere();
    comparisons.lose_one();
    calling.await.expect("the call ends")
}

#[test]
fn soft_invalidated_entry_without_redis_is_served_only_within_grace_of_failed_load() {
    let Some(server) = RedisServer::start() else { return };
    let (none, hour) = (Duration::ZERO, Duration::from_secs(3_600));
    let cases = [
        (Call::Read, none, None),
        (Call::Read, hour, None),
        (Call::FetchLoads, none, Some((2, Source::Loader))),
        (Call::FetchLoads, hour, Some((2, Source::Loader))),
        (Call::FetchFails, none, None),
        (Call::FetchFails, hour, Some((1, Source::Stale))),
    ];
    let server = &server;
    // At the same time: they mostly wait.
    std::thread::scope(|scope| {
        for suspect in [Suspect::TrackedWrite, Suspect::Gap] {
            for (call, grace, expected) in cases {
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    let answer = runtime
                        .expect("a runtime")
                        .block_on(invalidated_during_comparison(server, call, suspect, grace));
                    assert_eq!(answer, expected, "{call:?}, {suspect:?}, grace {grace:?}");
                });
            }
        }
    });
}
