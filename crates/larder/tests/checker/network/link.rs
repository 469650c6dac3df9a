//! The connection by which a node listens: pushes and the answers to beats, in order, late or lost.

use super::{TIMEOUT, World, silent};
use crate::forgery::Forgery;
use crate::server::Said;
use larder::tier::{Push, PushHandler, ServerId, SubscribeOptions, Subscription, TierFuture};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

/// A listening connection as the server sees it.
pub(super) struct SimSubscription {
    world: Arc<World>,
    node: usize,
    server: ServerId,
    /// Under which prefix writes are told.
    tracking: Option<Vec<u8>>,
    line: Mutex<Line>,
    more: Notify,
}

/// What is on its way to the node, in order.
#[derive(Default)]
struct Line {
    queue: VecDeque<(Instant, Word)>,
    last: Option<Instant>,
    /// Writes that are told behind the next beat, as a server does it.
    tracked: Vec<Said>,
    /// By the server, or on the way.
    closed: bool,
    /// By the node.
    dropped: bool,
}

enum Word {
    Said(Said),
    Beat(oneshot::Sender<()>),
    Closed,
}

impl std::fmt::Debug for SimSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a link of node {}", self.node)
    }
}

impl SimSubscription {
    pub(super) fn open(
        world: &Arc<World>,
        node: usize,
        options: &SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> Arc<Self> {
        let link = Arc::new(SimSubscription {
            world: world.clone(),
            node,
            server: world.server().id(),
            tracking: options.tracking.clone(),
            line: Mutex::default(),
            more: Notify::new(),
        });
        world.ways()[node].links.push(Arc::downgrade(&link));
        tokio::spawn(link.clone().deliver(handler));
        link
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("nobody panics with it")
    }

    /// The server says something to everyone who listens.
    pub(super) fn say(&self, said: &Said) {
        match said {
            Said::Message(_) => self.send(Word::Said(said.clone())),
            Said::Written(key) => {
                if self.tracking.as_ref().is_some_and(|prefix| key.starts_with(prefix)) {
                    self.line().tracked.push(said.clone());
                }
            }
        }
    }

    fn send(&self, word: Word) {
        let rng = &self.world.rng;
        let weather = &self.world.weather;
        let late = if rng.chance(weather.late_pushes) { rng.ms(0..2_000) } else { Duration::ZERO };
        let arrives = self.world.arrival(self.node, rng.ms(0..weather.usual_ms + 1) + late);
        let overtakes =
            matches!(word, Word::Beat(_)) && self.world.server().forgery == Forgery::HeartbeatsOvertake;
        let mut line = self.line();
        if line.closed {
            return;
        }
        if overtakes {
            line.queue.push_front((Instant::now(), word));
        } else {
            let arrives = line.last.map_or(arrives, |last| arrives.max(last));
            line.last = Some(arrives);
            line.queue.push_back((arrives, word));
        }
        drop(line);
        self.more.notify_one();
    }

    /// Tells what was written since the last beat: behind its answer.
    fn tell_tracked(&self) {
        let tracked = std::mem::take(&mut self.line().tracked);
        tracked.into_iter().for_each(|said| self.send(Word::Said(said)));
    }

    /// The connection ends: what is on its way is lost, and the node learns of it when it learns of it.
    pub(super) fn close(&self) {
        let noticed = self.world.arrival(self.node, self.world.rng.ms(0..100));
        let mut line = self.line();
        line.queue.clear();
        line.closed = true;
        line.queue.push_back((noticed, Word::Closed));
        drop(line);
        self.more.notify_one();
    }

    /// The node's end: hands on what arrives, until the connection has ended or nobody listens any more.
    async fn deliver(self: Arc<Self>, handler: Arc<dyn PushHandler>) {
        loop {
            let next = {
                let line = self.line();
                if line.dropped {
                    return;
                }
                line.queue.front().map(|(arrives, _)| *arrives)
            };
            match next {
                None => self.more.notified().await,
                Some(arrives) if arrives > Instant::now() => {
                    tokio::select! {
                        biased;
                        () = self.more.notified() => {}
                        () = sleep_until(arrives) => {}
                    }
                }
                Some(_) => {
                    let word = self.line().queue.pop_front().map(|(_, word)| word);
                    match word {
                        Some(Word::Said(Said::Message(message))) => {
                            handler.handle(Push::Announcement(&message))
                        }
                        Some(Word::Said(Said::Written(key))) => handler.handle(Push::KeysWritten(vec![&key])),
                        // Whoever asked may be gone.
                        Some(Word::Beat(answer)) => _ = answer.send(()),
                        Some(Word::Closed) => return handler.handle(Push::Closed),
                        None => {}
                    }
                }
            }
        }
    }
}

/// The connection as the node holds it.
#[derive(Debug)]
pub(super) struct OpenSubscription(pub(super) Arc<SimSubscription>);

impl Subscription for OpenSubscription {
    fn server(&self) -> &ServerId {
        &self.0.server
    }

    fn heartbeat(&self) -> TierFuture<'_, ()> {
        Box::pin(async move {
            let link = &self.0;
            let (world, rng) = (&link.world, &link.world.rng);
            if world.server().forgery == Forgery::HeartbeatsAlways {
                sleep(rng.ms(0..world.weather.usual_ms + 1)).await;
                return Ok(());
            }
            let gives_up = Instant::now() + TIMEOUT;
            let asked = world.arrival(link.node, rng.ms(0..world.weather.usual_ms + 1));
            sleep_until(asked.min(gives_up)).await;
            if asked > gives_up || rng.chance(world.weather.lost) {
                return Err(silent("no answer to a beat"));
            }
            let (answer, answered) = oneshot::channel();
            link.send(Word::Beat(answer));
            link.tell_tracked();
            match tokio::time::timeout_at(gives_up, answered).await {
                Ok(Ok(())) => Ok(()),
                _ => Err(silent("no answer to a beat")),
            }
        })
    }
}

impl Drop for OpenSubscription {
    fn drop(&mut self) {
        self.0.line().dropped = true;
        self.0.more.notify_one();
    }
}
