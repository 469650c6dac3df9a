//! The connection on which a node subscribes: pushes and the replies to heartbeats, in order, delayed or lost.

use super::{TIMEOUT, World, no_reply};
use crate::forgery::Forgery;
use crate::server::Message;
use larder::tier::{Marker, Pulse, Push, PushHandler, ServerId, SubscribeOptions, Subscription, TierFuture};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

/// A subscription as the server sees it.
pub(super) struct SimSubscription {
    world: Arc<World>,
    node: usize,
    server: ServerId,
    /// What it is subscribed to.
    options: SubscribeOptions,
    line: Mutex<Line>,
    more: Notify,
}

/// The messages that are sent and have not arrived, in order.
#[derive(Default)]
struct Line {
    queue: VecDeque<(Instant, Item)>,
    last: Option<Instant>,
    /// Writes that are pushed after the reply to the next heartbeat, as a server does it.
    tracked: Vec<Message>,
    /// By the server or by the network.
    closed: bool,
    /// By the node.
    dropped: bool,
}

enum Item {
    Message(Message),
    Heartbeat(Pulse, oneshot::Sender<Pulse>),
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
            options: options.clone(),
            line: Mutex::default(),
            more: Notify::new(),
        });
        world.paths()[node].links.push(Arc::downgrade(&link));
        tokio::spawn(link.clone().deliver(handler));
        link
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("nobody panics with it")
    }

    /// The server sends a message to every subscriber.
    pub(super) fn publish(&self, message: &Message) {
        match message {
            Message::Announced(_) => self.send(Item::Message(message.clone())),
            Message::Written(key) => {
                if self.options.tracking.as_ref().is_some_and(|prefix| key.starts_with(prefix)) {
                    self.line().tracked.push(message.clone());
                }
            }
        }
    }

    fn send(&self, item: Item) {
        let rng = &self.world.rng;
        let weather = &self.world.weather;
        let late = if rng.chance(weather.late_pushes) { rng.ms(0..2_000) } else { Duration::ZERO };
        let arrives = self.world.arrival(self.node, rng.ms(0..weather.usual_ms + 1) + late);
        let overtakes =
            matches!(item, Item::Heartbeat(..)) && self.world.server().forgery == Forgery::HeartbeatsOvertake;
        let mut line = self.line();
        if line.closed {
            return;
        }
        if overtakes {
            line.queue.push_front((Instant::now(), item));
        } else {
            let arrives = line.last.map_or(arrives, |last| arrives.max(last));
            line.last = Some(arrives);
            line.queue.push_back((arrives, item));
        }
        drop(line);
        self.more.notify_one();
    }

    /// Pushes the keys that were written since the last heartbeat: after the reply to it.
    fn push_tracked(&self) {
        let tracked = std::mem::take(&mut self.line().tracked);
        tracked.into_iter().for_each(|message| self.send(Item::Message(message)));
    }

    /// The connection ends: messages that have not arrived are lost, and the node notices some time later.
    pub(super) fn close(&self) {
        let noticed = self.world.arrival(self.node, self.world.rng.ms(0..100));
        let mut line = self.line();
        line.queue.clear();
        line.closed = true;
        line.queue.push_back((noticed, Item::Closed));
        drop(line);
        self.more.notify_one();
    }

    /// The node's end: passes on what arrives, until the connection has ended or the node has dropped it.
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
                    let item = self.line().queue.pop_front().map(|(_, item)| item);
                    match item {
                        Some(Item::Message(Message::Announced(message))) => {
                            handler.handle(Push::Announcement(&message))
                        }
                        Some(Item::Message(Message::Written(key))) => {
                            handler.handle(Push::KeysWritten(vec![&key]))
                        }
                        // The caller may have given up.
                        Some(Item::Heartbeat(pulse, reply)) => _ = reply.send(pulse),
                        Some(Item::Closed) => return handler.handle(Push::Closed),
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

    fn heartbeat<'a>(&'a self, marker: Marker<'a>) -> TierFuture<'a, Pulse> {
        Box::pin(async move {
            let link = &self.0;
            let (world, rng) = (&link.world, &link.world.rng);
            if world.server().forgery == Forgery::HeartbeatsAlways {
                sleep(rng.ms(0..world.weather.usual_ms + 1)).await;
                return Ok(Pulse { doubt: None, time: None, marker: None, ledger_clock: None });
            }
            let gives_up = Instant::now() + TIMEOUT;
            let asked = world.arrival(link.node, rng.ms(0..world.weather.usual_ms + 1));
            sleep_until(asked.min(gives_up)).await;
            if asked > gives_up || link.line().closed || rng.chance(world.weather.lost) {
                return Err(no_reply("no reply to a heartbeat"));
            }
            let (reply, replied) = oneshot::channel();
            let pulse = world.server().pulse(&link.options, &link.server, marker);
            link.send(Item::Heartbeat(pulse, reply));
            link.push_tracked();
            match tokio::time::timeout_at(gives_up, replied).await {
                Ok(Ok(pulse)) => Ok(pulse),
                _ => Err(no_reply("no reply to a heartbeat")),
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
