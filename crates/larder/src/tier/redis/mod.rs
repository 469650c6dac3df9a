//! The Redis tier: the protocol's exchanges over a few connections. The client library appears nowhere else.
//!
//! ```text
//! look, heads, commit    four connections, by the hash of the key
//! mutate, bump, …        one connection: of two changes of a key the later one comes later
//! commit without scripts four more, checked out: WATCH … EXEC is one caller's affair
//! listen                 one of its own, for pushes
//! ```
//!
//! No command is sent twice: what became of one whose connection broke is not known. A commit needs no order, because
//! it compares.

mod commit;
mod connect;
mod ledger;
mod listen;
mod scripts;
mod values;

use crate::tier::{
    Announcement, Bump, Capabilities, Change, Changed, Commit, Ear, Found, Heads, LedgerAsk, Link, Listen,
    Look, Looked, ServerId, Stamps, Tier, TierError, TierFuture,
};
use connect::{Address, Slot};
use redis::{Pipeline, Value};
use scripts::Script;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use values::{array, bytes, checked, int, left, px};
use xxhash_rust::xxh3::xxh3_64;

/// One busy connection saturates before one core does; more than a few only cost wake-ups.
const CONNECTIONS: usize = 4;

pub(crate) struct RedisTier {
    address: Arc<Address>,
    /// Reads and commits, by key.
    readers: [Slot; CONNECTIONS],
    /// Changes.
    writer: Slot,
    /// Commits where there are no scripts; each is one caller's at a time.
    watchers: [tokio::sync::Mutex<Slot>; CONNECTIONS],
    capabilities: OnceLock<Capabilities>,
    /// Whether scripts may be used where there are some.
    scripts_allowed: bool,
    probe: Probe,
    look: Script,
    commit: Script,
    bump: Script,
    remove: Script,
}

impl RedisTier {
    /// `timeout` bounds the wait for a connection and for each answer.
    pub(crate) fn new(
        url: &str,
        timeout: Duration,
        scripts_allowed: bool,
        probe: Probe,
    ) -> Result<Self, String> {
        Ok(RedisTier {
            address: Arc::new(Address::new(url, timeout)?),
            readers: Default::default(),
            writer: Slot::default(),
            watchers: Default::default(),
            capabilities: OnceLock::new(),
            scripts_allowed,
            probe,
            look: Script::new(scripts::LOOK),
            commit: Script::new(scripts::COMMIT),
            bump: Script::new(scripts::BUMP),
            remove: Script::new(scripts::REMOVE),
        })
    }

    fn reader(&self, key: &[u8]) -> &Slot {
        &self.readers[xxh3_64(key) as usize % CONNECTIONS]
    }

    /// What the server can do; asked once, by trying.
    async fn can(&self) -> Result<Capabilities, TierError> {
        if let Some(known) = self.capabilities.get() {
            return Ok(*known);
        }
        let mut pipeline = Pipeline::with_capacity(5);
        pipeline.cmd("EVAL").arg("return 1").arg(0).cmd("MULTI").cmd("EXEC");
        let Probe { announcement, ledger } = &self.probe;
        let channel = [&announcement.channel[..], self.address.database().to_string().as_bytes()].concat();
        pipeline.cmd("PUBLISH").arg(channel).arg(&announcement.message);
        pipeline.cmd("ZSCORE").arg(ledger).arg("clock");
        let answers = self.writer.send(&self.address, &pipeline).await?;
        let works = answers.into_iter().map(can_do).collect::<Result<Vec<bool>, TierError>>()?;
        let mut works = works.into_iter();
        let mut next = || works.next().unwrap_or(false);
        let (scripts, multi, exec, announcements, ledger) = (next(), next(), next(), next(), next());
        let scripts = scripts && self.scripts_allowed;
        let found = Capabilities { scripts, transactions: multi && exec, announcements, ledger };
        Ok(*self.capabilities.get_or_init(|| found))
    }

    /// Sends a pipeline whose first command is a call of a script, again with the text if the server has lost it.
    async fn send_script(
        &self,
        slot: &Slot,
        build: impl Fn(bool) -> Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        let answers = slot.send(&self.address, &build(false)).await?;
        match answers.first() {
            Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
                slot.send(&self.address, &build(true)).await
            }
            _ => Ok(answers),
        }
    }

    async fn do_look(&self, look: &Look<'_>) -> Result<Looked, TierError> {
        let can = self.can().await?;
        let Some(first) = look.keys.first() else { return Ok(Looked { found: Vec::new(), stamps: None }) };
        let slot = self.reader(first);
        let ledger = look.ledger.as_ref().filter(|_| can.ledger);
        let keys = look.keys.len();
        let (found, scores) = match look.lease.filter(|_| can.scripts) {
            Some((leases, ttl)) => {
                let build = |by_text| {
                    let mut pipeline = Pipeline::with_capacity(2);
                    self.look.call(&mut pipeline, by_text, keys);
                    look.keys.iter().for_each(|key| _ = pipeline.arg(key));
                    pipeline.arg(px(ttl));
                    leases.iter().for_each(|lease| _ = pipeline.arg(&lease[..]));
                    ledger.inspect(|ask| ledger::ask(&mut pipeline, ask));
                    pipeline
                };
                let mut answers = self.send_script(slot, build).await?.into_iter();
                let mut fields = array(answers.next().unwrap_or_default())?.into_iter();
                let mut found = Vec::with_capacity(keys);
                while let (Some(stored), Some(more)) = (fields.next(), fields.next()) {
                    found.push(match (bytes(stored)?, int(more)?) {
                        (Some(bytes), pttl) => Found::Bytes { bytes, left: left(pttl) },
                        (None, 1) => Found::Leased,
                        (None, _) => Found::Absent,
                    });
                }
                (found, answers.next())
            }
            None => self.plain_look(slot, look, ledger).await?,
        };
        if found.len() != keys {
            return Err(TierError::Refused(format!("{} answers for {keys} keys", found.len())));
        }
        let stamps = match (ledger, scores) {
            (Some(ask), Some(scores)) => Some(self.read_stamps(slot, ask, scores).await?),
            _ => None,
        };
        Ok(Looked { found, stamps })
    }

    /// A look without scripts. A key that gets a lease, or a value, between its GET and its SET is read again.
    async fn plain_look(
        &self,
        slot: &Slot,
        look: &Look<'_>,
        ledger: Option<&LedgerAsk<'_>>,
    ) -> Result<(Vec<Found>, Option<Value>), TierError> {
        let keys = look.keys;
        let mut pipeline = Pipeline::with_capacity(2 * keys.len() + 2);
        pipeline.cmd("MGET");
        keys.iter().for_each(|key| _ = pipeline.arg(key));
        if let Some((leases, ttl)) = look.lease {
            for (key, lease) in keys.iter().zip(leases) {
                pipeline.cmd("SET").arg(key).arg(&lease[..]).arg("NX").arg("PX").arg(px(ttl));
            }
        }
        keys.iter().for_each(|key| _ = pipeline.cmd("PTTL").arg(key));
        ledger.inspect(|ask| ledger::ask(&mut pipeline, ask));
        let mut answers = slot.send(&self.address, &pipeline).await?.into_iter();
        let stored = array(answers.next().unwrap_or_default())?;
        let leased: Vec<bool> = match look.lease {
            Some(_) => answers
                .by_ref()
                .take(keys.len())
                .map(|set| Ok(bytes(set)?.is_some()))
                .collect::<Result<_, TierError>>()?,
            None => vec![false; keys.len()],
        };
        let mut found = Vec::with_capacity(keys.len());
        for (stored, leased) in stored.into_iter().zip(leased) {
            let pttl = int(answers.next().unwrap_or_default())?;
            found.push(match (bytes(stored)?, leased) {
                (_, true) => Found::Leased,
                (Some(bytes), false) => Found::Bytes { bytes, left: left(pttl) },
                (None, false) => Found::Absent,
            });
        }
        Ok((found, answers.next()))
    }

    async fn do_heads(&self, keys: &[Vec<u8>], ledger: Option<&LedgerAsk<'_>>) -> Result<Heads, TierError> {
        let can = self.can().await?;
        let slot = match (keys.first(), ledger) {
            (Some(key), _) => self.reader(key),
            (None, Some(ask)) => self.reader(ask.key),
            (None, None) => return Ok(Heads { heads: Vec::new(), stamps: None }),
        };
        let ledger = ledger.filter(|_| can.ledger);
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        for key in keys {
            pipeline.cmd("GETRANGE").arg(key).arg(0).arg(super::HEAD_BYTES - 1);
        }
        ledger.inspect(|ask| ledger::ask(&mut pipeline, ask));
        let mut answers = slot.send(&self.address, &pipeline).await?.into_iter();
        let heads = answers.by_ref().take(keys.len()).map(|head| Ok(bytes(head)?.unwrap_or_default()));
        let heads = heads.collect::<Result<_, TierError>>()?;
        let stamps = match (ledger, answers.next()) {
            (Some(ask), Some(scores)) => Some(self.read_stamps(slot, ask, scores).await?),
            _ => None,
        };
        Ok(Heads { heads, stamps })
    }

    async fn do_mutate(
        &self,
        changes: &[Change],
        announce: Option<&Announcement>,
    ) -> Result<Vec<Changed>, TierError> {
        let can = self.can().await?;
        let changed = self.transact(can, changes, announce).await;
        match (&changed, announce) {
            (Err(TierError::Refused(reason)), Some(announce)) if can.scripts && reason.contains("OOM") => {
                // A full server queues nothing, not even what would make room.
                let removals = changes.iter().map(|change| match change {
                    Change::Remove(key) => Some(&key[..]),
                    Change::Take(_) | Change::Put(..) => None,
                });
                match removals.collect::<Option<Vec<_>>>() {
                    Some(keys) => self.remove_by_script(&keys, announce).await,
                    None => changed,
                }
            }
            _ => changed,
        }
    }

    async fn remove_by_script(
        &self,
        keys: &[&[u8]],
        Announcement { channel, message }: &Announcement,
    ) -> Result<Vec<Changed>, TierError> {
        let build = |by_text| {
            let mut pipeline = Pipeline::with_capacity(1);
            self.remove.call(&mut pipeline, by_text, keys.len());
            keys.iter().for_each(|key| _ = pipeline.arg(key));
            pipeline.arg(channel).arg(message);
            pipeline
        };
        let heads = array(self.send_script(&self.writer, build).await?.pop().unwrap_or_default())?;
        heads.into_iter().map(|head| Ok(Changed::Removed(bytes(head)?.unwrap_or_default()))).collect()
    }

    async fn transact(
        &self,
        can: Capabilities,
        changes: &[Change],
        announce: Option<&Announcement>,
    ) -> Result<Vec<Changed>, TierError> {
        let mut pipeline = Pipeline::with_capacity(2 * changes.len() + 3);
        if can.transactions {
            pipeline.cmd("MULTI");
        }
        for change in changes {
            match change {
                Change::Remove(key) => {
                    pipeline.cmd("GETRANGE").arg(key).arg(0).arg(super::HEAD_BYTES - 1);
                    pipeline.cmd("UNLINK").arg(key);
                }
                Change::Take(key) => _ = pipeline.cmd("GETDEL").arg(key),
                Change::Put(key, bytes, ttl) => {
                    pipeline.cmd("SET").arg(key).arg(bytes).arg("PX").arg(px(*ttl));
                }
            }
        }
        if let Some(Announcement { channel, message }) = announce.filter(|_| can.announcements) {
            pipeline.cmd("PUBLISH").arg(channel).arg(message);
        }
        if can.transactions {
            pipeline.cmd("EXEC");
        }
        let mut answers = self.writer.send(&self.address, &pipeline).await?;
        if can.transactions {
            answers = executed(answers)?;
        }
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let mut changed = Vec::with_capacity(changes.len());
        for change in changes {
            changed.push(match change {
                Change::Remove(_) => {
                    let head = bytes(next())?.unwrap_or_default();
                    int(next())?;
                    Changed::Removed(head)
                }
                Change::Take(_) => Changed::Taken(bytes(next())?),
                Change::Put(..) => {
                    checked(next())?;
                    Changed::Stored
                }
            });
        }
        if announce.is_some() && can.announcements {
            int(next())?;
        }
        Ok(changed)
    }

    async fn do_increment(&self, key: &[u8], by: i64, ttl: Duration) -> Result<i64, TierError> {
        let can = self.can().await?;
        let mut pipeline = Pipeline::with_capacity(4);
        if can.transactions {
            pipeline.cmd("MULTI");
        }
        pipeline.cmd("SET").arg(key).arg(0).arg("NX").arg("PX").arg(px(ttl)).cmd("INCRBY").arg(key).arg(by);
        if can.transactions {
            pipeline.cmd("EXEC");
        }
        let mut answers = self.writer.send(&self.address, &pipeline).await?;
        if can.transactions {
            answers = executed(answers)?;
        }
        int(answers.pop().unwrap_or_default())
    }

    async fn do_touch(&self, keys: &[(Vec<u8>, Duration)]) -> Result<(), TierError> {
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for (key, ttl) in keys {
            pipeline.cmd("PEXPIRE").arg(key).arg(px(*ttl));
        }
        let answers = self.writer.send(&self.address, &pipeline).await?;
        answers.into_iter().try_for_each(|answer| int(answer).map(drop))
    }

    async fn do_scan(
        &self,
        cursor: u64,
        prefix: &[u8],
        pattern: &str,
    ) -> Result<(u64, Vec<Vec<u8>>), TierError> {
        let mut glob = Vec::with_capacity(prefix.len() + pattern.len());
        for byte in prefix {
            if b"*?[]\\^".contains(byte) {
                glob.push(b'\\');
            }
            glob.push(*byte);
        }
        glob.extend_from_slice(pattern.as_bytes());
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("SCAN").arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(SCAN_STEP);
        let mut answers = self.writer.send(&self.address, &pipeline).await?;
        let mut fields = array(answers.pop().unwrap_or_default())?.into_iter();
        let cursor = values::text(fields.next().unwrap_or_default())?;
        let keys = array(fields.next().unwrap_or_default())?.into_iter();
        let keys = keys.map(|key| Ok(bytes(key)?.unwrap_or_default())).collect::<Result<_, TierError>>()?;
        let cursor = cursor.parse().map_err(|_| TierError::Refused(format!("{cursor:?} is no cursor")))?;
        Ok((cursor, keys))
    }
}

/// What a server is asked to find out what it can do. The names are those that the cache uses, for users may be confined
/// to them.
pub(crate) struct Probe {
    /// One that tells nobody anything; the database is put behind the channel.
    pub(crate) announcement: Announcement,
    pub(crate) ledger: Vec<u8>,
}

/// Whether a server knows a command and this user may use it. Any other trouble says nothing: it may be starting.
fn can_do(answer: Value) -> Result<bool, TierError> {
    match answer {
        Value::ServerError(error) if matches!(error.code(), "ERR" | "NOPERM" | "EXECABORT") => Ok(false),
        Value::ServerError(error) if error.code() == "WRONGTYPE" => Ok(true),
        Value::ServerError(error) => Err(TierError::Silent(redis::RedisError::from(error).to_string())),
        _ => Ok(true),
    }
}

/// How many keys a step of a walk looks at.
const SCAN_STEP: usize = 1_000;

/// The answers of a transaction that was queued command by command.
fn executed(mut answers: Vec<Value>) -> Result<Vec<Value>, TierError> {
    let exec = answers.pop().unwrap_or_default();
    match exec {
        // One of the commands was refused: its own reason says more than that the whole was not done.
        Value::ServerError(_) => {
            answers.into_iter().try_for_each(|answer| checked(answer).map(drop))?;
            checked(exec).map(|_| Vec::new())
        }
        exec => array(exec),
    }
}

impl Tier for RedisTier {
    fn capabilities(&self) -> Option<Capabilities> {
        self.capabilities.get().copied()
    }

    fn scope(&self) -> String {
        self.address.database().to_string()
    }

    fn look<'a>(&'a self, look: &'a Look<'a>) -> TierFuture<'a, Looked> {
        Box::pin(self.do_look(look))
    }

    fn heads<'a>(&'a self, keys: &'a [Vec<u8>], ledger: Option<&'a LedgerAsk<'a>>) -> TierFuture<'a, Heads> {
        Box::pin(self.do_heads(keys, ledger))
    }

    fn commit<'a>(
        &'a self,
        commits: &'a [Commit],
        announce: Option<&'a Announcement>,
    ) -> TierFuture<'a, Vec<bool>> {
        Box::pin(self.do_commit(commits, announce))
    }

    fn mutate<'a>(
        &'a self,
        changes: &'a [Change],
        announce: Option<&'a Announcement>,
    ) -> TierFuture<'a, Vec<Changed>> {
        Box::pin(self.do_mutate(changes, announce))
    }

    fn stamps<'a>(&'a self, ask: &'a LedgerAsk<'a>) -> TierFuture<'a, Stamps> {
        Box::pin(self.do_stamps(ask))
    }

    fn bump<'a>(&'a self, bump: &'a Bump<'a>) -> TierFuture<'a, u64> {
        Box::pin(self.do_bump(bump))
    }

    fn increment<'a>(&'a self, key: &'a [u8], by: i64, ttl: Duration) -> TierFuture<'a, i64> {
        Box::pin(self.do_increment(key, by, ttl))
    }

    fn touch<'a>(&'a self, keys: &'a [(Vec<u8>, Duration)]) -> TierFuture<'a, ()> {
        Box::pin(self.do_touch(keys))
    }

    fn scan<'a>(
        &'a self,
        cursor: u64,
        prefix: &'a [u8],
        pattern: &'a str,
    ) -> TierFuture<'a, (u64, Vec<Vec<u8>>)> {
        Box::pin(self.do_scan(cursor, prefix, pattern))
    }

    fn listen<'a>(&'a self, listen: &'a Listen, ear: Arc<dyn Ear>) -> TierFuture<'a, Box<dyn Link>> {
        Box::pin(self.do_listen(listen, ear))
    }

    fn accept(&self, server: &ServerId) {
        self.address.accept(server);
        self.readers.iter().chain([&self.writer]).for_each(|slot| slot.keep_only(server));
    }
}

impl std::fmt::Debug for RedisTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisTier").field("capabilities", &self.capabilities.get()).finish_non_exhaustive()
    }
}
