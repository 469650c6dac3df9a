//! The nodes of a run: what each of them is, and how its successor starts when it is lost.

use crate::children::child::Child;
use crate::children::{Kind, words};
use crate::ground::Ground;
use crate::languages::node::AnyNode;
use crate::languages::remote::RemoteNode;
use crate::promise::node::{Layout, Node};
use crate::promise::rng::Rng;
use crate::run::{KEYS, MAX_LAG};
use larder::{Cache, Format};
use std::sync::Arc;
use std::time::Duration;

/// So many nodes are in a run of Rust alone.
pub(crate) const NODES: usize = 3;
/// The memory of each. The first has room for few keys, so it reads what the others stored in Redis.
const MEMORY_BYTES: [u64; NODES] = [1 << 10, 1 << 20, 1 << 20];
/// The memory of each node in a run with other languages.
const ROOM: u64 = 1 << 20;
const NAMESPACE: &str = "chaos";
/// So many nodes out of a thousand let the server tell them what other programs write.
const TRACKING: u64 = 300;

/// What a node is.
#[derive(Clone, Debug)]
pub(crate) enum Member {
    /// A cache of this process.
    Rust,
    /// A process in another language.
    Child(Kind),
    /// A process that one in another language has forked. All of a run are of the same parent.
    Fork(Kind),
}

/// The nodes of a run, each with the address of the server for it.
#[derive(Debug)]
pub(crate) struct Team {
    layout: Layout,
    members: Vec<(Member, u64, String)>,
    tracking: u64,
}

/// What is the same for all nodes that run at one place, one after the other.
#[derive(Debug)]
pub(crate) struct Place {
    layout: Layout,
    source: Source,
    url: String,
    memory_bytes: u64,
    disconnected: Duration,
    tracking: u64,
}

/// Where the node of a place comes from.
#[derive(Debug)]
enum Source {
    Rust,
    Child(Kind),
    /// It is forked by a process that has used its cache before, and goes on.
    Fork(Arc<Child>),
}

impl Team {
    /// Nodes in Rust alone.
    pub(crate) fn of_rust(ground: &Ground) -> Self {
        let members = MEMORY_BYTES.into_iter().enumerate();
        let members = members.map(|(node, memory_bytes)| (Member::Rust, memory_bytes, ground.url(node)));
        Team { layout: Layout::Spaces, members: members.collect(), tracking: TRACKING }
    }

    /// Nodes in several languages.
    pub(crate) fn of_languages(members: impl IntoIterator<Item = (Member, String)>) -> Self {
        let members = members.into_iter().map(|(member, url)| (member, ROOM, url));
        Team { layout: Layout::OneView, members: members.collect(), tracking: TRACKING }
    }

    /// The same nodes, none of which learns from the server what is written: announcements alone tell them.
    pub(crate) fn without_tracking(self) -> Self {
        Team { tracking: 0, ..self }
    }

    pub(crate) async fn places(self, disconnected: Duration, rng: &Rng) -> Vec<Place> {
        let (mut places, mut parent) = (Vec::new(), None);
        for (member, memory_bytes, url) in self.members {
            let (layout, tracking, source) = (self.layout, self.tracking, Source::Rust);
            let mut place = Place { layout, source, url, memory_bytes, disconnected, tracking };
            match member {
                Member::Rust => {}
                Member::Child(kind) => place.source = Source::Child(kind),
                Member::Fork(kind) => {
                    if parent.is_none() {
                        let child = place.start_child(&kind, rng).await;
                        use_before_forks(&child).await;
                        parent = Some(child);
                    }
                    place.source = Source::Fork(parent.clone().expect("it was started"));
                }
            }
            places.push(place);
        }
        places
    }
}

/// Uses a cache as a program does that prepares something for its forks. The value is that of the origin.
async fn use_before_forks(parent: &Child) {
    let value = ["0".to_owned(), "v1.0".to_owned(), words::option("tag", &Node::tag(0))];
    parent.call("write", value).await.expect("a write");
    parent.call("read", ["0".to_owned()]).await.expect("a read");
}

impl Place {
    pub(crate) fn disconnected(&self) -> Duration {
        self.disconnected
    }

    /// Whether its node is a process of its own.
    pub(crate) fn is_process(&self) -> bool {
        !matches!(self.source, Source::Rust)
    }

    pub(crate) async fn start_node(&self, rng: &Arc<Rng>) -> AnyNode {
        let child = match &self.source {
            Source::Rust => {
                let builder = Cache::builder(NAMESPACE)
                    .memory_bytes(self.memory_bytes)
                    .redis(&self.url)
                    .max_lag(MAX_LAG)
                    .disconnected(self.disconnected)
                    .foreign_writers(rng.chance(self.tracking));
                let builder = match self.layout {
                    Layout::Spaces => builder,
                    Layout::OneView => builder.format(Format::MessagePack),
                };
                return AnyNode::Rust(Box::new(Node::start(
                    builder,
                    self.layout,
                    KEYS,
                    rng,
                    &Arc::default(),
                )));
            }
            Source::Child(kind) => self.start_child(kind, rng).await,
            Source::Fork(parent) => {
                // A load is under way in the parent, which never returns.
                parent.call_and_forget("fetch", [rng.below(0..KEYS as u64).to_string()]);
                parent.fork().await
            }
        };
        AnyNode::Child(RemoteNode::new(child, KEYS, rng.clone()))
    }

    /// A child with an open cache, whose other options are random as those of a node in Rust are.
    async fn start_child(&self, kind: &Kind, rng: &Rng) -> Arc<Child> {
        let child = Child::start(kind);
        let ms = |name: &str, ms: u64| words::time(name, Duration::from_millis(ms));
        let sometimes = |option: String| rng.chance(300).then_some(option);
        let fixed = [
            words::word(&self.url),
            NAMESPACE.to_owned(),
            format!("memory_bytes={}", self.memory_bytes),
            words::time("max_lag", MAX_LAG),
            words::time("disconnected", self.disconnected),
            ms("ttl", if rng.chance(300) { 700 } else { 60_000 }),
            ms("grace", if rng.chance(500) { 30_000 } else { 0 }),
            ms("retry_after", 300),
            // A loader that never returns must not keep all callers.
            ms("hard_timeout", 1_000),
            ms("lease_wait", rng.below(1..300)),
        ];
        let drawn = [
            rng.chance(self.tracking).then(|| words::option("foreign_writers", "true")),
            sometimes(ms("soft_timeout", 20)),
            sometimes("jitter=0.5".to_owned()),
        ];
        child
            .call("open", fixed.into_iter().chain(drawn.into_iter().flatten()))
            .await
            .expect("it opens a cache");
        child
    }
}
