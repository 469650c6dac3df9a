//! `larder server --from`: copies a Redis in use, and keeps the copy in step until a client ends it.
//!
//! ```text
//!  CLIENT TRACKING ON BCAST    from here on the Redis tells of every key that changes
//!  SCAN, DUMP, PEXPIRETIME     all keys that there are
//!  DUMP, PEXPIRETIME           the keys that it has told of, again and again, until REPLICAOF NO ONE
//! ```
//!
//! All of it is on one connection, where the news of a change comes behind the replies to the commands that were executed
//! before it. So a value that was read too early is read again. If the connection is lost, so is news: the copy begins anew.
//! It does so too if `SWAPDB` was executed, of which the Redis tells nobody: the number of its calls is looked at.

use super::redis_reader::{News, Reader};
use super::redis_source::RedisSource;
use crate::output::remark;
use larder_server::{CopyError, CopyHandle, CopyState};
use larder_terminal::grouped;
use redis::RedisResult;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two questions for news, once all keys are copied.
const PAUSE: Duration = Duration::from_millis(10);
/// The time between two looks whether databases were swapped.
const SWAP_LOOK: Duration = Duration::from_secs(1);
/// The time before the next attempt to connect.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two reports of a copy that takes long.
const REPORT: Duration = Duration::from_secs(10);

/// Starts the thread that copies.
///
/// # Errors
/// If the Redis cannot be reached, or does not allow what a copy needs. Later it is tried again and again.
pub(crate) fn start(source: RedisSource, handle: CopyHandle) -> anyhow::Result<()> {
    let reader = Reader::connect(&source)
        .map_err(|error| anyhow::anyhow!("cannot copy {}: {error}", source.address()))?;
    remark(&format!(
        "larder server: copying {}; writes are refused until REPLICAOF NO ONE",
        source.address()
    ));
    std::thread::Builder::new().name("copy".into()).spawn(move || run(&source, handle, reader))?;
    Ok(())
}

fn run(source: &RedisSource, handle: CopyHandle, first: Reader) {
    let mut reader = Some(first);
    loop {
        let connected = reader.take().map_or_else(|| Reader::connect(source), Ok);
        match connected.and_then(|reader| Copy::new(&handle, reader).run()) {
            Ok(Ended::ByClient) => break,
            Ok(Ended::WithServer) => return,
            Err(error) if handle.shall_end() => {
                remark(&format!("larder server: the copy ends without what has changed last: {error}"));
                break;
            }
            Err(error) => {
                handle.set_state(CopyState::Connecting);
                remark(&format!("larder server: the copy begins anew: {}: {error}", source.address()));
                sleep(RETRY);
            }
        }
    }
    remark(&format!("larder server: the copy has ended with {} keys", grouped(handle.keys() as u64)));
    handle.end();
}

/// Why a copy is over.
enum Ended {
    ByClient,
    WithServer,
}

/// One copy, over one connection.
struct Copy<'a> {
    handle: &'a CopyHandle,
    reader: Reader,
    /// Why keys could not be copied since that was said last: how many, and the first one.
    failures: BTreeMap<String, (u64, String)>,
    evicted_before: u64,
    next_report: Instant,
    /// The calls of `SWAPDB` before this copy.
    swaps: u64,
    next_swap_look: Instant,
}

impl<'a> Copy<'a> {
    fn new(handle: &'a CopyHandle, reader: Reader) -> Self {
        let now = Instant::now();
        Copy {
            handle,
            reader,
            failures: BTreeMap::new(),
            evicted_before: handle.evicted(),
            next_report: now + REPORT,
            swaps: 0,
            next_swap_look: now,
        }
    }

    fn run(mut self) -> RedisResult<Ended> {
        while !self.copy_all()? {}
        self.handle.set_state(CopyState::InStep);
        self.report_all();
        loop {
            if self.handle.is_over() {
                return Ok(Ended::WithServer);
            }
            // Whoever ends it has stopped those who write: what they have written was told before the reply to the second one.
            let shall_end = self.handle.shall_end();
            self.reader.ping()?;
            self.reader.ping()?;
            let news = self.reader.take_news();
            let is_quiet = news.is_empty();
            if !self.follow(news)? || self.has_swapped(shall_end)? {
                while !self.copy_all()? {}
                self.handle.set_state(CopyState::InStep);
            }
            match (shall_end, is_quiet) {
                (true, _) => {
                    self.report_losses();
                    return Ok(Ended::ByClient);
                }
                (false, true) => sleep(PAUSE),
                (false, false) => {}
            }
        }
    }

    /// Copies all keys. Returns `false` if they were all removed meanwhile, so that it has to begin again.
    fn copy_all(&mut self) -> RedisResult<bool> {
        self.handle.set_state(CopyState::Copying);
        self.handle.clear();
        self.failures.clear();
        self.swaps = self.reader.swaps()?;
        let databases = self.reader.databases()?;
        let all: u64 = databases.iter().map(|(_, keys)| keys).sum();
        let mut seen = 0;
        for (database, keys) in databases {
            if database >= u64::from(CopyHandle::DATABASES) {
                let failure = (keys, format!("database {database}"));
                self.failures.insert(CopyError::Database.to_string(), failure);
                continue;
            }
            let mut cursor = 0;
            loop {
                let (next, names) = self.reader.scan(database, cursor)?;
                seen += names.len() as u64;
                self.copy(database, &names)?;
                let news = self.reader.take_news();
                if !self.follow(news)? {
                    return Ok(false);
                }
                self.report(seen, all);
                cursor = next;
                if cursor == 0 || self.handle.is_over() {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Copies the keys that have changed, in all databases, since the Redis does not tell in which one. Returns `false` if all
    /// keys were removed.
    fn follow(&mut self, news: News) -> RedisResult<bool> {
        match news {
            News::Flushed => return Ok(false),
            News::Changed(names) if names.is_empty() => {}
            News::Changed(names) => {
                let names: Vec<Vec<u8>> = names.into_iter().collect();
                let used = self.reader.databases()?;
                for database in 0..u64::from(CopyHandle::DATABASES) {
                    match used.iter().any(|(number, _)| *number == database) {
                        true => self.copy(database, &names)?,
                        false => names.iter().for_each(|name| self.handle.remove(database as u8, name)),
                    }
                }
            }
        }
        Ok(true)
    }

    /// Whether databases were swapped since this copy began: looks from time to time, or now.
    fn has_swapped(&mut self, now: bool) -> RedisResult<bool> {
        if !now && Instant::now() < self.next_swap_look {
            return Ok(false);
        }
        self.next_swap_look = Instant::now() + SWAP_LOOK;
        let has_swapped = self.reader.swaps()? != self.swaps;
        if has_swapped {
            remark("larder server: the copy begins anew: SWAPDB was executed");
        }
        Ok(has_swapped)
    }

    fn copy(&mut self, database: u64, names: &[Vec<u8>]) -> RedisResult<()> {
        let database_here = database as u8;
        self.reader.read(database, names, |name, value| {
            let Some((payload, deadline)) = value else { return self.handle.remove(database_here, name) };
            if let Err(error) = self.handle.store(database_here, name, &payload, deadline) {
                let name = || String::from_utf8_lossy(name).into_owned();
                self.failures.entry(error.to_string()).or_insert_with(|| (0, name())).0 += 1;
            }
        })
    }

    fn report(&mut self, seen: u64, all: u64) {
        if Instant::now() >= self.next_report {
            self.next_report = Instant::now() + REPORT;
            remark(&format!("larder server: copied {} of about {} keys", grouped(seen), grouped(all)));
        }
    }

    /// Says that all keys are copied, and which are not.
    fn report_all(&mut self) {
        let keys = grouped(self.handle.keys() as u64);
        remark(&format!("larder server: {keys} keys are copied, and those that change are copied again"));
        self.report_losses();
    }

    /// Says what could not be copied, or was evicted, since it was said last.
    fn report_losses(&mut self) {
        for (reason, (count, first)) in std::mem::take(&mut self.failures) {
            let count = grouped(count);
            remark(&format!("larder server: {count} keys are not copied, {first:?} first: {reason}"));
        }
        let before = std::mem::replace(&mut self.evicted_before, self.handle.evicted());
        let evicted = self.evicted_before - before;
        if evicted > 0 {
            let evicted = grouped(evicted);
            remark(&format!("larder server: {evicted} keys were evicted: max_memory is less than they need"));
        }
    }
}
