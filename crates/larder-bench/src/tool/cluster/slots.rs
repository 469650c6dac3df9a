//! Hash slots: which one a key has, who owns it at the start, and how one moves to another primary, step by step.

use super::{Cluster, expect_ok, id_of};
use anyhow::{Result, bail, ensure};
use redis::{Connection, Value, from_redis_value_ref};
use std::thread;
use std::time::{Duration, Instant};

const SLOTS: usize = 16_384;
/// More keys than a slot has here.
const ALL_KEYS: usize = 1_000;
/// How long all primaries must agree on the owner of a slot that has moved, and how long that may take.
const AGREED: Duration = Duration::from_millis(100);
const AGREEMENT: Duration = Duration::from_secs(10);

/// A slot on its way from one primary to another.
pub(crate) struct Move {
    slot: usize,
    from: usize,
    to: usize,
}

impl Cluster {
    /// The number of the server that owns the slot of a key when the cluster starts.
    pub(crate) fn owner_of(&self, key: &[u8]) -> Result<usize> {
        // The last slot of a server is the one before the first of the next.
        Ok(((self.slot_of(key)? + 1) * self.primaries - 1) / SLOTS)
    }

    /// The first and the last slot of a primary when the cluster starts.
    pub(super) fn slots_of(&self, primary: usize) -> (usize, usize) {
        let first = |number| number * SLOTS / self.primaries;
        (first(primary), first(primary + 1) - 1)
    }

    fn slot_of(&self, key: &[u8]) -> Result<usize> {
        Ok(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut self.connect(0)?)?)
    }

    /// Begins to move the slot of a key to the next primary. The former owner still answers for the keys that it has, and
    /// with ASK for all others.
    pub(crate) fn begin_move(&self, key: &[u8]) -> Result<Move> {
        let (slot, from) = (self.slot_of(key)?, self.owner_of(key)?);
        let to = (from + 1) % self.primaries;
        let [source, target] = [from, to].map(|number| &self.servers[number].0);
        expect_ok(target, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", id_of(source)?))?;
        expect_ok(source, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", id_of(target)?))?;
        Ok(Move { slot, from, to })
    }

    /// Moves the keys that the slot has now.
    pub(crate) fn move_keys(&self, Move { slot, from, to }: &Move) -> Result<()> {
        let (mut source, (_, port)) = (self.connect(*from)?, &self.servers[*to]);
        loop {
            let mut list = redis::cmd("CLUSTER");
            let keys: Vec<Vec<u8>> = list.arg("GETKEYSINSLOT").arg(slot).arg(ALL_KEYS).query(&mut source)?;
            if keys.is_empty() {
                return Ok(());
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(port).arg("").arg(0).arg(5_000).arg("KEYS").arg(keys);
            migrate.exec(&mut source)?;
        }
    }

    /// Ends the move of a slot without keys at its former owner: all primaries know the new one, which knows it first.
    ///
    /// A message of the former owner that was sent before may still claim the slot. If that owner has a higher epoch, the new
    /// one gives the slot up again, and no server owns it: that is told again, until all agree.
    pub(crate) fn end_move(&self, Move { slot, from, to }: &Move) -> Result<()> {
        let others = (0..self.primaries).filter(|number| ![from, to].contains(&number));
        let order: Vec<_> = [*to, *from].into_iter().chain(others).collect();
        let id = id_of(&self.servers[*to].0)?;
        let (begun, mut agreed_since) = (Instant::now(), None);
        while agreed_since.is_none_or(|since: Instant| since.elapsed() < AGREED) {
            ensure!(begun.elapsed() < AGREEMENT, "the primaries do not agree on the owner of slot {slot}");
            let mut is_agreed = true;
            for number in &order {
                if self.owner_as_told_by(*number, *slot)?.as_deref() != Some(&*id) {
                    is_agreed = false;
                    expect_ok(&self.servers[*number].0, &format!("CLUSTER SETSLOT {slot} NODE {id}"))?;
                }
            }
            agreed_since = if is_agreed { agreed_since.or_else(|| Some(Instant::now())) } else { None };
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The id of the owner of a slot, as this server knows it.
    fn owner_as_told_by(&self, server: usize, slot: usize) -> Result<Option<String>> {
        let ranges: Vec<Vec<Value>> = redis::cmd("CLUSTER").arg("SLOTS").query(&mut self.connect(server)?)?;
        for range in ranges {
            let [first, last, owner, ..] = &*range else { bail!("CLUSTER SLOTS was answered by {range:?}") };
            let (first, last): (usize, usize) = (from_redis_value_ref(first)?, from_redis_value_ref(last)?);
            if (first..=last).contains(&slot) {
                let owner: Vec<Value> = from_redis_value_ref(owner)?;
                return Ok(owner.get(2).map(from_redis_value_ref).transpose()?);
            }
        }
        Ok(None)
    }

    fn connect(&self, server: usize) -> Result<Connection> {
        Ok(redis::Client::open(self.servers[server].0.url())?.get_connection()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_that_moves_is_answered_for_by_the_next_primary() {
        let Some(program) = larder_testkit::program("redis-server") else { return };
        let cluster = Cluster::start(&program, 3).unwrap();
        let key = "moving";
        let owner = cluster.owner_of(key.as_bytes()).unwrap();
        let next = (owner + 1) % 3;
        let get = |server: usize| cluster.servers[server].0.command(&format!("GET {key}")).unwrap();
        assert_eq!(cluster.servers[owner].0.command(&format!("SET {key} value")).unwrap(), "+OK\r\n");
        let begun = cluster.begin_move(key.as_bytes()).unwrap();
        assert_eq!(get(owner), "$5\r\nvalue\r\n");
        cluster.move_keys(&begun).unwrap();
        assert!(get(owner).starts_with("-ASK "), "{}", get(owner));
        cluster.end_move(&begun).unwrap();
        assert!(get(owner).starts_with("-MOVED "), "{}", get(owner));
        assert_eq!(get(next), "$5\r\nvalue\r\n");
    }
}
