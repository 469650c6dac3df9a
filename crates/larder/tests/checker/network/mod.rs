//! The simulated network between one node and the server: each message takes time, and any message may be lost.
//!
//! A node has several connections, as the real tier has. Commands of one connection arrive in the order in which they
//! were sent; those of different connections arrive in any order. The key selects the connection of reads and commits,
//! mutations have one of their own, and pushes and heartbeats share one. A command without a reply in time ends as
//! `NoReply`. It may still arrive, until the next command on its connection has arrived.

mod link;

use crate::forgery::Forgery;
use crate::promise::rng::Rng;
use crate::promise::trace::Trace;
use crate::server::Server;
use larder::tier::{
    Announcement, CompareAndSet, Expiry, HeadsReply, LedgerAdvance, LedgerAdvanced, LedgerQuery, Lookup,
    LookupReply, Mutation, MutationReply, PushHandler, Scan, ServerId, ServerTime, Stamps, SubscribeOptions,
    Subscription, Tier, TierError, TierFuture,
};
use link::{OpenSubscription, SimSubscription};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a node waits for a reply.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(250);

const READERS: usize = 4;
const WRITER: usize = READERS;

/// The weather: how often messages are delayed or lost in one history, in messages out of a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// A message usually takes up to so many milliseconds.
    pub(crate) usual_ms: u64,
    /// Commands that take up to twice the timeout.
    pub(crate) slow: u64,
    /// Commands that never arrive.
    pub(crate) lost: u64,
    /// Commands that are executed and whose replies are lost.
    pub(crate) unanswered: u64,
    /// Pushes that take up to two seconds longer.
    pub(crate) late_pushes: u64,
}

/// The server and the paths of the nodes to it.
#[derive(Debug)]
pub(crate) struct World {
    server: Mutex<Server>,
    paths: Mutex<Vec<Path>>,
    pub(crate) rng: Arc<Rng>,
    pub(crate) trace: Arc<Trace>,
    weather: Weather,
}

/// The path of one node to the server.
#[derive(Debug, Default)]
struct Path {
    /// Until when no message arrives and new connections are refused.
    cut_until: Option<Instant>,
    /// Until when every message is delayed, as if the node was stopped.
    delayed_until: Option<Instant>,
    /// How many nodes have died here. Their connections are dead.
    deaths: u32,
    links: Vec<Weak<SimSubscription>>,
}

impl World {
    pub(crate) fn new(
        nodes: usize,
        weather: Weather,
        forgery: Forgery,
        rng: Arc<Rng>,
        trace: Arc<Trace>,
    ) -> Arc<Self> {
        let paths = (0..nodes).map(|_| Path::default()).collect();
        Arc::new(World {
            server: Mutex::new(Server::new(forgery)),
            paths: Mutex::new(paths),
            rng,
            trace,
            weather,
        })
    }

    pub(crate) fn tier(self: &Arc<Self>, node: usize) -> Arc<dyn Tier> {
        let pipes = std::array::from_fn(|_| Mutex::new(Pipe::default()));
        let death = self.deaths(node);
        Arc::new(SimTier { world: self.clone(), node, death, accepted: Mutex::new(None), pipes })
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("nobody panics with it")
    }

    fn paths(&self) -> MutexGuard<'_, Vec<Path>> {
        self.paths.lock().expect("nobody panics with it")
    }

    /// Runs a command on the server, and sends its messages to the subscribers.
    fn on_server<T>(&self, act: impl FnOnce(&mut Server) -> T) -> T {
        let (result, messages) = {
            let mut server = self.server();
            let result = act(&mut server);
            (result, server.take_messages())
        };
        if !messages.is_empty() {
            let links: Vec<_> = self.paths().iter().flat_map(|path| path.links.clone()).collect();
            for link in links.iter().filter_map(Weak::upgrade) {
                messages.iter().for_each(|message| link.publish(message));
            }
        }
        result
    }

    /// Disconnects a node for a time.
    pub(crate) fn cut(&self, node: usize, time: Duration) {
        let links = {
            let mut paths = self.paths();
            paths[node].cut_until = Some(Instant::now() + time);
            std::mem::take(&mut paths[node].links)
        };
        links.iter().filter_map(Weak::upgrade).for_each(|link| link.close());
    }

    /// The node at this end has died.
    pub(crate) fn kill(&self, node: usize) {
        self.paths()[node].deaths += 1;
        self.cut(node, Duration::ZERO);
    }

    fn deaths(&self, node: usize) -> u32 {
        self.paths()[node].deaths
    }

    /// The server's clock goes back, and its ledgers are evicted.
    pub(crate) fn lose_ledger(&self) {
        let seconds = self.rng.below(0..60);
        self.server().lose_ledger(Duration::from_secs(seconds));
        self.trace.note(|| format!("server: loses its ledgers, and its clock goes back by {seconds} s"));
    }

    pub(crate) fn turn_clock_back(&self, by: Duration) {
        self.server().turn_clock_back(by);
    }

    /// Delays every message from and to a node for a time.
    pub(crate) fn delay(&self, node: usize, time: Duration) {
        self.paths()[node].delayed_until = Some(Instant::now() + time);
    }

    /// Writes bytes that no node can read, without an announcement: only nodes with tracking notice.
    pub(crate) fn write_foreign(&self, key: &[u8]) {
        self.on_server(|server| server.put(key, b"foreign".to_vec(), Expiry::After(Duration::from_secs(60))));
        self.trace.note(|| format!("a program writes {}", text(key)));
    }

    pub(crate) fn evict(&self) {
        let number = self.rng.next();
        let evicted = self.on_server(|server| server.evict(number));
        self.trace.note(|| format!("server: evicts {}", evicted.map_or("nothing".into(), |key| text(&key))));
    }

    /// The first bytes under a key, which change with each store.
    pub(crate) fn head(&self, key: &[u8]) -> Vec<u8> {
        self.server().head(key)
    }

    pub(crate) fn clock_went_back(&self) -> bool {
        self.server().clock_went_back()
    }

    pub(crate) fn take_snapshot(&self) {
        self.server().take_snapshot();
        self.trace.note(|| "server: takes a snapshot".into());
    }

    pub(crate) fn restart(&self, from_snapshot: bool) {
        self.server().restart(from_snapshot);
        let how = if from_snapshot { "from its snapshot" } else { "empty" };
        self.trace.note(|| format!("server: restarts {how}"));
        let links: Vec<_> =
            self.paths().iter_mut().flat_map(|path| std::mem::take(&mut path.links)).collect();
        links.iter().filter_map(Weak::upgrade).for_each(|link| link.close());
    }

    fn is_cut(&self, node: usize) -> bool {
        self.paths()[node].cut_until.is_some_and(|until| until > Instant::now())
    }

    /// When something that is sent now arrives.
    fn arrival(&self, node: usize, took: Duration) -> Instant {
        let delayed = self.paths()[node].delayed_until;
        let arrives = Instant::now() + took;
        delayed.map_or(arrives, |delayed| arrives.max(delayed))
    }
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

/// One connection.
#[derive(Debug, Default)]
struct Pipe {
    /// When the last command arrives.
    last: Option<Instant>,
    /// Commands whose callers have given up: the next command that arrives on this connection cancels them.
    abandoned: Vec<Arc<AtomicBool>>,
}

/// A query for stamps that outlives its request.
struct OwnedQuery {
    key: Vec<u8>,
    at_least: u64,
    members: Vec<Vec<u8>>,
}

impl OwnedQuery {
    fn of(query: &LedgerQuery<'_>) -> Self {
        OwnedQuery { key: query.key.to_vec(), at_least: query.at_least, members: query.members.to_vec() }
    }

    fn query(&self) -> LedgerQuery<'_> {
        LedgerQuery { key: &self.key, at_least: self.at_least, members: &self.members }
    }
}

/// The tier of one node.
struct SimTier {
    world: Arc<World>,
    node: usize,
    /// How many nodes had died here when this one started.
    death: u32,
    accepted: Mutex<Option<u64>>,
    pipes: [Mutex<Pipe>; READERS + 1],
}

impl std::fmt::Debug for SimTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the tier of node {}", self.node)
    }
}

fn no_reply(why: &str) -> TierError {
    TierError::NoReply(why.to_owned())
}

impl SimTier {
    fn reader(key: Option<&Vec<u8>>) -> usize {
        let bytes = key.map_or(&b""[..], |key| key);
        bytes.iter().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into())) % READERS
    }

    /// Sends a command: it arrives after those that were sent before it on its connection, runs, and gets a reply; or not.
    async fn send<T: Send + 'static>(
        &self,
        pipe: usize,
        name: impl Fn() -> String,
        act: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Result<T, TierError> {
        self.lives().await;
        let (world, rng) = (&self.world, &self.world.rng);
        let sent = Instant::now();
        if world.is_cut(self.node) {
            world.trace.note(|| format!("node {}: {} is refused", self.node, name()));
            // Sometimes the refusal is a timeout.
            if rng.chance(300) {
                sleep(TIMEOUT).await;
            }
            return Err(no_reply("connection refused"));
        }
        let weather = &world.weather;
        if rng.chance(weather.lost) {
            world.trace.note(|| format!("node {}: {} is lost", self.node, name()));
            sleep(rng.ms(0..TIMEOUT.as_millis() as u64)).await;
            return Err(TierError::Disconnected("connection reset".into()));
        }
        let most_ms =
            if rng.chance(weather.slow) { 2 * TIMEOUT.as_millis() as u64 } else { weather.usual_ms };
        let (there, back) = (rng.ms(0..most_ms + 1), rng.ms(0..most_ms + 1));
        let arrives = {
            let mut pipe = self.pipes[pipe].lock().expect("nobody panics with it");
            let arrives = world.arrival(self.node, there);
            let arrives = pipe.last.map_or(arrives, |last| arrives.max(last + Duration::from_millis(1)));
            pipe.last = Some(arrives);
            arrives
        };
        let gives_up = sent + TIMEOUT;
        let run = world.server().run();
        if arrives > gives_up {
            self.abandon(pipe, arrives, run, act);
            sleep_until(gives_up).await;
            world.trace.note(|| format!("node {}: {} has no reply in time", self.node, name()));
            return Err(no_reply("timed out"));
        }
        sleep_until(arrives).await;
        self.pipes[pipe].lock().expect("nobody panics with it").cancel_abandoned();
        if world.is_cut(self.node) || world.server().run() != run {
            world.trace.note(|| format!("node {}: {} is disconnected", self.node, name()));
            return Err(TierError::Disconnected("connection reset".into()));
        }
        self.identify(run)?;
        world.trace.note(|| format!("node {}: {}", self.node, name()));
        let reply = world.on_server(act);
        let is_lost = rng.chance(weather.unanswered);
        let replied = world.arrival(self.node, back);
        if is_lost || replied > gives_up {
            world.trace.note(|| format!("node {}: the reply to {} is lost", self.node, name()));
            sleep_until(gives_up.min(replied)).await;
            return Err(no_reply("no reply"));
        }
        sleep_until(replied).await;
        self.lives().await;
        Ok(reply)
    }

    /// Nothing happens any more in a node that has died.
    async fn lives(&self) {
        if self.world.deaths(self.node) != self.death {
            std::future::pending::<()>().await;
        }
    }

    /// The command may arrive although its caller has given up.
    fn abandon<T>(
        &self,
        pipe: usize,
        arrives: Instant,
        run: u64,
        act: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) {
        let ended = Arc::new(AtomicBool::new(false));
        {
            let mut pipe = self.pipes[pipe].lock().expect("nobody panics with it");
            pipe.abandoned.push(ended.clone());
            // Later commands use a new connection.
            pipe.last = None;
        }
        let (world, node) = (self.world.clone(), self.node);
        let accepted = *self.accepted.lock().expect("nobody panics with it");
        tokio::spawn(async move {
            sleep_until(arrives).await;
            let same = world.server().run() == run && accepted == Some(run);
            if same && !ended.load(Ordering::SeqCst) && !world.is_cut(node) {
                world.trace.note(|| format!("node {node}: an abandoned command arrives"));
                world.on_server(|server| _ = act(server));
            }
        });
    }

    /// Checks the identity of the server, as a connection does when it is opened.
    fn identify(&self, run: u64) -> Result<(), TierError> {
        let mut accepted = self.accepted.lock().expect("nobody panics with it");
        let server = self.world.server();
        match *accepted {
            None => Err(no_reply("the server has not been checked yet")),
            Some(known) if known != run && server.forgery != Forgery::HidesRestarts => {
                Err(TierError::ServerChanged(server.id()))
            }
            Some(_) => {
                *accepted = Some(run);
                Ok(())
            }
        }
    }

    async fn open(
        &self,
        options: &SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> Result<Box<dyn Subscription>, TierError> {
        self.lives().await;
        let (world, rng) = (&self.world, &self.world.rng);
        if world.is_cut(self.node) || rng.chance(world.weather.lost) {
            sleep(rng.ms(0..TIMEOUT.as_millis() as u64)).await;
            return Err(no_reply("connection refused"));
        }
        sleep_until(world.arrival(self.node, rng.ms(0..world.weather.usual_ms + 1))).await;
        if world.is_cut(self.node) {
            return Err(no_reply("connection refused"));
        }
        let link = SimSubscription::open(world, self.node, options, handler);
        world.trace.note(|| format!("node {}: subscribes", self.node));
        sleep_until(world.arrival(self.node, rng.ms(0..world.weather.usual_ms + 1))).await;
        Ok(Box::new(OpenSubscription(link)))
    }
}

impl Pipe {
    fn cancel_abandoned(&mut self) {
        self.abandoned.drain(..).for_each(|command| command.store(true, Ordering::SeqCst));
    }
}

impl Tier for SimTier {
    fn lookup<'a>(&'a self, lookup: &'a Lookup<'a>) -> TierFuture<'a, LookupReply> {
        let keys = lookup.keys.to_vec();
        let lease = lookup.lease.map(|(leases, ttl)| (leases.to_vec(), ttl));
        let ledger = lookup.ledger.as_ref().map(|ask| OwnedQuery::of(ask));
        let act = move |server: &mut Server| {
            let lease = |at: usize| lease.as_ref().map(|(leases, ttl)| (&leases[at], *ttl));
            let contents = keys.iter().enumerate().map(|(at, key)| server.lookup(key, lease(at))).collect();
            let stamps = ledger.map(|ledger| server.stamps(&ledger.query()));
            LookupReply { keys: contents, stamps }
        };
        let leases: Vec<String> =
            lookup.lease.iter().flat_map(|(heads, _)| heads.iter().map(|head| hex(head))).collect();
        let name = move || match leases.is_empty() {
            true => format!("looks up {}", names(lookup.keys)),
            false => format!("looks up {} with leases {}", names(lookup.keys), leases.join(", ")),
        };
        Box::pin(self.send(Self::reader(lookup.keys.first()), name, act))
    }

    fn read_heads<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
        ledger: Option<&'a LedgerQuery<'a>>,
    ) -> TierFuture<'a, HeadsReply> {
        let asked = keys.to_vec();
        let ledger = ledger.map(|ask| OwnedQuery::of(ask));
        let act = move |server: &mut Server| {
            let heads = asked.iter().map(|key| server.head(key)).collect();
            let stamps = ledger.map(|ledger| server.stamps(&ledger.query()));
            HeadsReply { heads, stamps }
        };
        Box::pin(self.send(
            Self::reader(keys.first()),
            move || format!("reads the heads of {}", names(keys)),
            act,
        ))
    }

    fn compare_and_set<'a>(
        &'a self,
        commits: &'a [CompareAndSet],
        announce: Option<&'a Announcement>,
    ) -> TierFuture<'a, Vec<bool>> {
        let (asked, message) = (commits.to_vec(), announce.map(|announce| announce.message.clone()));
        let act = move |server: &mut Server| {
            let mut accepted = Vec::with_capacity(asked.len());
            for commit in &asked {
                accepted.push(server.compare_and_set(commit));
                if let Some(message) = message.clone().filter(|_| accepted.last() == Some(&true)) {
                    server.publish(message);
                }
            }
            accepted
        };
        let pipe =
            if announce.is_some() { WRITER } else { Self::reader(commits.first().map(|first| &first.key)) };
        let name = || {
            let commit =
                |commit: &CompareAndSet| format!("{} over {}", text(&commit.key), hex(&commit.expected));
            format!("commits {}", commits.iter().map(commit).collect::<Vec<_>>().join(", "))
        };
        Box::pin(self.send(pipe, name, act))
    }

    /// The announcement is a message of its own: commands of other nodes come in between, or the connection breaks there,
    /// or between two operations.
    fn mutate<'a>(&'a self, mutation: &'a Mutation<'a>) -> TierFuture<'a, MutationReply> {
        let rng = &self.world.rng;
        let breaks = mutation.operations.len() > 1 && rng.chance(self.world.weather.unanswered);
        let executed =
            if breaks { rng.below(0..mutation.operations.len() as u64) as usize } else { usize::MAX };
        let asked: Vec<_> = mutation.operations.iter().take(executed).cloned().collect();
        let ledger = mutation.ledger.as_ref().map(|ask| OwnedQuery::of(ask));
        let act = move |server: &mut Server| {
            let results = asked.iter().map(|operation| server.apply(operation)).collect();
            let stamps = ledger.map(|ledger| server.stamps(&ledger.query()));
            MutationReply { results, stamps }
        };
        let name = move || {
            let keys: Vec<_> = mutation.operations.iter().map(|operation| operation.key().to_vec()).collect();
            format!("mutates {}{}", names(&keys), if breaks { " in part" } else { "" })
        };
        Box::pin(async move {
            let reply = match mutation.operations.is_empty() && mutation.ledger.is_none() {
                true => MutationReply { results: Vec::new(), stamps: None },
                false => self.send(WRITER, name, act).await?,
            };
            if breaks {
                return Err(no_reply("the connection broke"));
            }
            if let Some(Announcement { message, .. }) = mutation.announce.cloned() {
                self.send(WRITER, || "announces".into(), |server| server.publish(message)).await?;
            }
            Ok(reply)
        })
    }

    fn time(&self) -> TierFuture<'_, ServerTime> {
        let act = |server: &mut Server| server.micros().into();
        Box::pin(self.send(0, || "asks for the time".into(), act))
    }

    fn read_stamps<'a>(&'a self, ask: &'a LedgerQuery<'a>) -> TierFuture<'a, Stamps> {
        let ledger = OwnedQuery::of(ask);
        let pipe = Self::reader(Some(&ledger.key));
        let act = move |server: &mut Server| server.stamps(&ledger.query());
        Box::pin(self.send(pipe, || "reads the ledger".into(), act))
    }

    fn advance_ledger<'a>(&'a self, advance: &'a LedgerAdvance<'a>) -> TierFuture<'a, LedgerAdvanced> {
        let (key, members) = (advance.key.to_vec(), advance.members.to_vec());
        let (floor, at_least, announce) = (advance.floor, advance.at_least, advance.announce.clone());
        let floor_message = advance.floor_message.map(<[u8]>::to_vec);
        let act = move |server: &mut Server| {
            server.advance_ledger(&LedgerAdvance {
                key: &key,
                members: &members,
                floor,
                at_least,
                floor_message: floor_message.as_deref(),
                announce: &announce,
            })
        };
        Box::pin(self.send(WRITER, || format!("stamps {}", names(advance.members)), act))
    }

    fn increment<'a>(&'a self, key: &'a [u8], by: i64, ttl: Duration) -> TierFuture<'a, i64> {
        let asked = key.to_vec();
        let act = move |server: &mut Server| server.increment(&asked, by, ttl);
        Box::pin(async move {
            let sum = self.send(WRITER, || format!("increments {}", text(key)), act).await?;
            sum.ok_or_else(|| TierError::Refused("not an integer".into()))
        })
    }

    fn scan<'a>(&'a self, glob: &'a [u8]) -> Box<dyn Scan + 'a> {
        Box::new(OneStep { tier: self, glob, has_ended: false })
    }

    fn subscribe<'a>(
        &'a self,
        options: &'a SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> TierFuture<'a, Box<dyn Subscription>> {
        Box::pin(self.open(options, handler))
    }

    fn accepted(&self) -> Option<ServerId> {
        let accepted = *self.accepted.lock().expect("nobody panics with it");
        accepted.map(|run| ServerId(format!("run-{run}")))
    }

    fn accept(&self, server: &ServerId) {
        let mut accepted = self.accepted.lock().expect("nobody panics with it");
        let run = server.0.trim_start_matches("run-").parse().expect("an identity of this simulation");
        self.world.trace.note(|| format!("node {}: accepts {}", self.node, server.0));
        *accepted = Some(run);
    }
}

/// A scan in one step, and with every pattern: only this simulation may return more than was asked for.
struct OneStep<'a> {
    tier: &'a SimTier,
    glob: &'a [u8],
    has_ended: bool,
}

impl Scan for OneStep<'_> {
    fn next(&mut self) -> TierFuture<'_, Option<Vec<Vec<u8>>>> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Box::pin(async { Ok(None) });
        }
        let glob = self.glob;
        let act = |server: &mut Server| Some(server.keys());
        Box::pin(self.tier.send(WRITER, move || format!("scans for {}", text(glob)), act))
    }
}

/// The id in the first bytes of a lease or a value, in short.
fn hex(head: &[u8]) -> String {
    head.iter().skip(4).take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn names(keys: &[Vec<u8>]) -> String {
    keys.iter().map(|key| text(key)).collect::<Vec<_>>().join(", ")
}
