//! The experiments over a cluster of three primaries, each with a replica. Two nodes have the same values in memory; one
//! invalidates them, and the other reads them all the time, while slots move or a primary is lost.

use super::super::subject::OverCluster;
use super::experiments::{LAG, OLD, serves_old, unused_key};
use crate::tool::Cluster;
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The experiments, each with as many keys as [`KEYS`].
pub(super) const OVER_CLUSTER: [&str; 3] = [
    "cluster: the other invalidated 1 s ago, while the slots moved",
    "cluster: the other invalidated 1 s ago, during a failover",
    "cluster: a failover lost what the other invalidated",
];

const KEYS: usize = 30;
pub(super) const PRIMARIES: usize = 3;
/// Between two reads of a key, and between two attempts to invalidate it.
const PAUSE: Duration = Duration::from_millis(20);
/// How long reads are judged.
const JUDGED: Duration = Duration::from_millis(500);
/// How long after a failover a lost invalidation may be unknown to the servers.
const REPAIR: Duration = Duration::from_secs(5);

/// The share of the keys of which the old value was served too late, for each of [`OVER_CLUSTER`]. `lost` is the number of
/// the primary that is killed.
pub(super) async fn over_cluster<C: OverCluster>(program: &Path, lost: usize) -> Result<[f64; 3]> {
    let cluster = Cluster::start_with_replicas(program, PRIMARIES)?;
    let moved = Nodes::<C>::of(&cluster).invalidated_while_slots_move(&cluster).await?;
    // Another one: a replica that does not know yet which slots its primary has got would take over without them.
    let mut cluster = Cluster::start_with_replicas(program, PRIMARIES)?;
    let [during, before] = Nodes::<C>::of(&cluster).invalidated_at_a_failover(&mut cluster, lost).await?;
    Ok([moved, during, before])
}

struct Nodes<C> {
    /// The one that is judged.
    node: C,
    /// The one that invalidates.
    other: C,
}

impl<C: OverCluster> Nodes<C> {
    fn of(cluster: &Cluster) -> Self {
        Nodes { node: C::cluster_node(cluster), other: C::cluster_node(cluster) }
    }

    /// A third of the slots have begun to move, of a third the keys have moved, and a third have arrived. The node
    /// reads them meanwhile.
    async fn invalidated_while_slots_move(&self, cluster: &Cluster) -> Result<f64> {
        let keys: Vec<_> = (0..KEYS).map(|_| unused_key()).collect();
        self.fill_both_memories(&keys).await;
        let reading = Reading::start(&self.node, &keys);
        for (position, key) in keys.iter().enumerate() {
            let name = C::redis_key(*key).await;
            let begun = cluster.begin_move(&name)?;
            if position % 3 >= 1 {
                cluster.move_keys(&begun)?;
            }
            if position % 3 == 2 {
                cluster.end_move(&begun)?;
            }
        }
        invalidate(&self.other, &keys).await;
        let share = reading.share_after(Instant::now() + LAG).await;
        Ok(share)
    }

    /// A primary is killed, and its replica takes over. One half of the keys is invalidated while nobody owns their slots; each
    /// call is repeated until the cache reports success. The other half was invalidated before, which the replica did not hear.
    async fn invalidated_at_a_failover(&self, cluster: &mut Cluster, lost: usize) -> Result<[f64; 2]> {
        let during = keys_of::<C>(cluster, lost).await?;
        let before = keys_of::<C>(cluster, lost).await?;
        self.fill_both_memories(&during).await;
        self.fill_both_memories(&before).await;
        cluster.await_replication(lost)?;
        cluster.stop_replication(lost)?;
        invalidate(&self.other, &before).await;
        let [reading_during, reading_before] =
            [&during, &before].map(|keys| Reading::start(&self.node, keys));
        cluster.kill(lost)?;
        let invalidating = {
            let other = self.other.clone();
            tokio::spawn(async move { invalidate(&other, &during).await })
        };
        cluster.await_takeover(lost)?;
        let taken_over = Instant::now();
        invalidating.await?;
        let during = reading_during.share_after(Instant::now() + LAG).await;
        Ok([during, reading_before.share_after(taken_over + REPAIR + LAG).await])
    }

    async fn fill_both_memories(&self, keys: &[u64]) {
        for key in keys {
            self.other.write(*key, OLD).await;
        }
        for key in keys {
            assert!(serves_old(&self.node, *key).await, "{} has two tiers", C::NAME);
        }
    }
}

/// So many unused keys of one primary.
async fn keys_of<C: OverCluster>(cluster: &Cluster, primary: usize) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    while keys.len() < KEYS {
        let key = unused_key();
        if cluster.owner_of(&C::redis_key(key).await)? == primary {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Invalidates all keys at the same time, each until the cache reports that it is done.
async fn invalidate<C: OverCluster>(cache: &C, keys: &[u64]) {
    let each = keys.iter().map(|key| {
        let (cache, key) = (cache.clone(), *key);
        tokio::spawn(async move {
            while !cache.try_invalidate(key).await {
                tokio::time::sleep(PAUSE).await;
            }
        })
    });
    for task in each.collect::<Vec<_>>() {
        task.await.expect("no cache panics");
    }
}

/// Reads of all keys, one task for each.
struct Reading {
    /// When the last read began, and the last that served the old value.
    tasks: Vec<JoinHandle<(Instant, Option<Instant>)>>,
    is_over: Arc<AtomicBool>,
}

impl Reading {
    fn start<C: OverCluster>(node: &C, keys: &[u64]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let read = |key: u64| {
            let (node, is_over) = (node.clone(), is_over.clone());
            async move {
                let mut stale = None;
                loop {
                    let begun = Instant::now();
                    let is_last = is_over.load(Ordering::SeqCst);
                    if serves_old(&node, key).await {
                        stale = Some(begun);
                    }
                    if is_last {
                        return (begun, stale);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let tasks = keys.iter().map(|key| tokio::spawn(read(*key))).collect();
        Reading { tasks, is_over }
    }

    /// The share of the keys of which a read that began after this time served the old value.
    async fn share_after(self, limit: Instant) -> f64 {
        tokio::time::sleep_until((limit + JUDGED).into()).await;
        self.is_over.store(true, Ordering::SeqCst);
        let (mut stale, keys) = (0, self.tasks.len());
        for task in self.tasks {
            let (last, last_stale) = task.await.expect("no cache panics");
            assert!(last > limit, "the last read begins after the end");
            stale += usize::from(last_stale.is_some_and(|begun| begun > limit));
        }
        stale as f64 / keys as f64
    }
}
