//! Reads the keys of a Redis, and the news of their changes, on one connection.

use super::redis_source::RedisSource;
use redis::{Connection, FromRedisValue, PushInfo, PushKind, RedisResult, Value, cmd, pipe};
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, channel};
use std::time::{SystemTime, UNIX_EPOCH};

/// About how many keys a `SCAN` returns.
const SCANNED_AT_A_TIME: usize = 500;
/// The most values that are read in one pipeline.
const VALUES_AT_A_TIME: usize = 64;
/// After so many bytes in one pipeline, the next one has a single value.
const LARGE_BYTES: usize = 16 << 20;

/// What has changed in the Redis.
pub(super) enum News {
    /// Keys that were written, removed or lost, each of them in some database.
    Changed(HashSet<Vec<u8>>),
    /// All keys of a database were removed, or all keys.
    Flushed,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, News::Changed(names) if names.is_empty())
    }
}

/// A connection that is told of all changes.
pub(super) struct Reader {
    connection: Connection,
    pushes: Receiver<PushInfo>,
    /// The database that is selected.
    database: u64,
    /// Whether the Redis knows `PEXPIRETIME`, which version 7.0 has brought.
    tells_deadlines: bool,
    /// The values that are read in the next pipeline.
    at_a_time: usize,
}

impl Reader {
    /// Connects, and is told of all changes from now on.
    ///
    /// # Errors
    /// If the Redis does not allow what a copy needs, also.
    pub(super) fn connect(source: &RedisSource) -> RedisResult<Reader> {
        let mut connection = source.connect()?;
        let (sender, pushes) = channel();
        connection.set_push_sender(sender);
        cmd("CLIENT").arg("TRACKING").arg("ON").arg("BCAST").exec(&mut connection)?;
        let tells_deadlines = match cmd("PEXPIRETIME").arg("").exec(&mut connection) {
            Err(error) if error.code() == Some("ERR") => false,
            outcome => outcome.map(|()| true)?,
        };
        cmd("SELECT").arg(0).exec(&mut connection)?;
        let mut reader =
            Reader { connection, pushes, database: 0, tells_deadlines, at_a_time: VALUES_AT_A_TIME };
        // Now rather than halfway: a user may have no right to one of these.
        reader.databases()?;
        reader.scan(0, 0)?;
        reader.read(0, &[Vec::new()], |_, _| ())?;
        Ok(reader)
    }

    /// Lets news come that the Redis has sent already.
    pub(super) fn ping(&mut self) -> RedisResult<()> {
        cmd("PING").exec(&mut self.connection)
    }

    /// The news that has come with the replies so far.
    pub(super) fn take_news(&mut self) -> News {
        let mut names = HashSet::new();
        let mut is_flushed = false;
        for push in self.pushes.try_iter().filter(|push| push.kind == PushKind::Invalidate) {
            match <(Option<Vec<Vec<u8>>>,)>::from_redis_value(Value::Array(push.data)) {
                Ok((Some(changed),)) => names.extend(changed),
                // What cannot be read may be anything.
                Ok((None,)) | Err(_) => is_flushed = true,
            }
        }
        if is_flushed { News::Flushed } else { News::Changed(names) }
    }

    /// The databases that have keys, and how many.
    pub(super) fn databases(&mut self) -> RedisResult<Vec<(u64, u64)>> {
        let text: String = cmd("INFO").arg("keyspace").query(&mut self.connection)?;
        Ok(text.lines().filter_map(parse_database).collect())
    }

    /// How many times databases were swapped, of which there is no news. The count may be set back.
    pub(super) fn swaps(&mut self) -> RedisResult<u64> {
        let text: String = cmd("INFO").arg("commandstats").query(&mut self.connection)?;
        let calls = text.lines().find_map(|line| line.strip_prefix("cmdstat_swapdb:calls="));
        Ok(calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0))
    }

    /// The next keys of a database, and the cursor behind them.
    pub(super) fn scan(&mut self, database: u64, cursor: u64) -> RedisResult<(u64, Vec<Vec<u8>>)> {
        self.select(database)?;
        cmd("SCAN").arg(cursor).arg("COUNT").arg(SCANNED_AT_A_TIME).query(&mut self.connection)
    }

    /// Reads keys, and calls `each` with the name of each, its serialized value and its deadline in milliseconds of Unix time.
    pub(super) fn read(
        &mut self,
        database: u64,
        mut names: &[Vec<u8>],
        mut each: impl FnMut(&[u8], Option<(Vec<u8>, Option<i64>)>),
    ) -> RedisResult<()> {
        self.select(database)?;
        let deadline = if self.tells_deadlines { "PEXPIRETIME" } else { "PTTL" };
        while !names.is_empty() {
            let (some, rest) = names.split_at(names.len().min(self.at_a_time));
            names = rest;
            let mut pipe = pipe();
            for name in some {
                pipe.cmd("DUMP").arg(name).cmd(deadline).arg(name);
            }
            let values: Vec<(Option<Vec<u8>>, i64)> = pairs(pipe.query(&mut self.connection)?)?;
            let bytes: usize = values.iter().filter_map(|(payload, _)| payload.as_ref()).map(Vec::len).sum();
            self.at_a_time = if bytes > LARGE_BYTES { 1 } else { (2 * self.at_a_time).min(VALUES_AT_A_TIME) };
            for (name, (payload, time)) in some.iter().zip(values) {
                let deadline = (time >= 0).then(|| if self.tells_deadlines { time } else { now_ms() + time });
                // A key without a value is gone. So is one that went between both commands, whose time is -2.
                each(name, payload.filter(|_| time != -2).map(|payload| (payload, deadline)));
            }
        }
        Ok(())
    }

    fn select(&mut self, database: u64) -> RedisResult<()> {
        if database != self.database {
            cmd("SELECT").arg(database).exec(&mut self.connection)?;
            self.database = database;
        }
        Ok(())
    }
}

/// The replies to two commands for each key.
fn pairs(replies: Vec<Value>) -> RedisResult<Vec<(Option<Vec<u8>>, i64)>> {
    let mut pairs = Vec::with_capacity(replies.len() / 2);
    let mut replies = replies.into_iter();
    while let (Some(payload), Some(time)) = (replies.next(), replies.next()) {
        pairs.push((Option::from_redis_value(payload)?, i64::from_redis_value(time)?));
    }
    Ok(pairs)
}

/// A line such as `db0:keys=3,expires=0,avg_ttl=0`.
fn parse_database(line: &str) -> Option<(u64, u64)> {
    let (number, fields) = line.trim_end().strip_prefix("db")?.split_once(':')?;
    let keys = fields.split(',').find_map(|field| field.strip_prefix("keys="))?;
    Some((number.parse().ok()?, keys.parse().ok()?))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
