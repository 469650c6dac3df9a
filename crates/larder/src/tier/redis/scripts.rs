//! The Lua scripts, which are called by their digest.
//!
//! A server loses its scripts when it restarts. It then refuses the call without executing anything, and the call is
//! sent again with the text of the script.

use redis::Pipeline;
use sha1::{Digest, Sha1};

/// A script with the digest under which a server knows it.
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        let digest = Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Script { text, digest }
    }

    /// Adds a call to a pipeline; its keys and arguments follow.
    pub(super) fn call<'p>(
        &self,
        pipeline: &'p mut Pipeline,
        by_text: bool,
        keys: usize,
    ) -> &'p mut Pipeline {
        if by_text {
            pipeline.cmd("EVAL").arg(self.text).arg(keys)
        } else {
            pipeline.cmd("EVALSHA").arg(&self.digest).arg(keys)
        }
    }
}

/// The scripts of the protocol.
pub(super) struct Scripts {
    pub(super) lookup: Script,
    pub(super) compare_and_set: Script,
    pub(super) increment: Script,
    pub(super) advance: Script,
    pub(super) repair: Script,
    pub(super) trim: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Scripts {
            lookup: Script::new(LOOKUP),
            compare_and_set: Script::new(COMPARE_AND_SET),
            increment: Script::new(INCREMENT),
            advance: Script::new(ADVANCE),
            repair: Script::new(REPAIR),
            trim: Script::new(TRIM),
        }
    }

    /// The texts of all.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'static str> {
        let Scripts { lookup, compare_and_set, increment, advance, repair, trim } = self;
        [lookup, compare_and_set, increment, advance, repair, trim].map(|script| script.text).into_iter()
    }
}

/// Returns for each key its content, or puts a lease if the key is absent, and returns nil: as `SET` with `NX` and `GET`,
/// which Redis has since 7.0. ARGV: the lifetime of the leases, then a lease for each key.
const LOOKUP: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  out[i] = redis.call('GET', key)
  if not out[i] then
    redis.call('SET', key, ARGV[1 + i], 'PX', ARGV[1])
  end
end
return out";

/// Puts, touches, renews, removes or releases each key that starts with the expected bytes. Returns 1 for each that did, otherwise 0.
/// ARGV: channel, message, then for each key the expected bytes, what to do, the new bytes, a time. What to do is an
/// option of SET, or a command; before PEXPIREAT the new bytes are the deadline in the value. RELEASE leaves what follows the
/// lease.
const COMPARE_AND_SET: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  local at = 4 * i - 1
  if redis.call('GETRANGE', key, 0, 19) == ARGV[at] then
    local what = ARGV[at + 1]
    if what == 'PX' or what == 'PXAT' then
      redis.call('SET', key, ARGV[at + 2], what, ARGV[at + 3])
    elseif what == 'UNLINK' then
      redis.call('UNLINK', key)
    elseif what == 'RELEASE' then
      local successor = redis.call('GETRANGE', key, 20, -1)
      if successor == '' then
        redis.call('UNLINK', key)
      else
        redis.call('SET', key, successor, 'PX', ARGV[at + 3])
      end
    else
      if what == 'PEXPIREAT' then
        redis.call('SETRANGE', key, 20, ARGV[at + 2])
      end
      redis.call(what, key, ARGV[at + 3])
    end
    if ARGV[1] ~= '' then
      redis.call('PUBLISH', ARGV[1], ARGV[2])
    end
    out[i] = 1
  else
    out[i] = 0
  end
end
return out";

/// Adds to a counter, gives a new one its time to live, and returns the sum as text: numbers of Lua have 53 bits.
/// ARGV: the number, the time.
const INCREMENT: &str = "\
redis.call('SET', KEYS[1], 0, 'NX', 'PX', ARGV[2])
redis.call('INCRBY', KEYS[1], ARGV[1])
return redis.call('GET', KEYS[1])";

/// Advances the clock and stamps members with it, and soft ones with the time beside it. A ledger whose clock is no stamp is a
/// lost one, as in `values::stamp`. A ledger that was advanced last on another server, or before this one was restored or took
/// over, may lack advances: values on other primaries of a cluster have their clocks. So it goes on later than any of these, as
/// a new one does. `UNKNOWN_ADVANCES` says by what margin; the microseconds of the time are its random part. The score of
/// `server` is the start of the replication ID, which Redis changes then.
/// ARGV: the lowest new clock, the message about the floor of another ledger or nothing, channel, message, members.
const ADVANCE: &str = "\
local ledger = KEYS[1]
local known = tonumber(ARGV[1])
local clock, last = unpack(redis.call('ZMSCORE', ledger, 'clock', 'server'))
local former = tonumber(clock)
if clock and not (former and former >= 1 and former < 9007199254740992) then
  redis.call('UNLINK', ledger)
  former = nil
end
local other = former and former < known and ARGV[2] ~= ''
local info = redis.pcall('INFO', 'replication')
local id = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
local server = id and tonumber(string.sub(id, 1, 11), 16) or 1
local least = math.max(former or 0, known)
if not former or other or tonumber(last) ~= server then
  local time = redis.call('TIME')
  least = math.max(time[1] * 1000000 + time[2], least + 1000000 + time[2])
end
clock = string.format('%.0f', least + 1)
redis.call('ZADD', ledger, clock, 'clock', string.format('%.0f', server), 'server')
if not former or other then
  redis.call('ZADD', ledger, 'GT', clock, 'floor')
end
if other then
  redis.call('PUBLISH', ARGV[3], ARGV[2] .. clock)
end
for i = 5, #ARGV do
  redis.call('ZADD', ledger, 'GT', clock, ARGV[i])
  if ARGV[i] == 'expire' or string.sub(ARGV[i], 1, 1) == '~' then
    local time = redis.call('TIME')
    redis.call('ZADD', ledger, time[1] * 1000 + math.floor(time[2] / 1000), '@' .. ARGV[i])
  end
end
redis.call('PUBLISH', ARGV[3], ARGV[4] .. clock)
return {clock, redis.call('ZCARD', ledger), other and 1 or 0}";

/// Makes a ledger out of a key that another program has overwritten. What is left of stamps stays: another node may have
/// repaired it just before. The floor takes the place of those that are gone. ARGV: the clock, what every stamp is less than.
const REPAIR: &str = "\
local ledger = KEYS[1]
if redis.call('TYPE', ledger).ok == 'zset' then
  redis.call('ZREMRANGEBYSCORE', ledger, '-inf', '(1')
  redis.call('ZREMRANGEBYSCORE', ledger, ARGV[2], '+inf')
else
  redis.call('UNLINK', ledger)
end
return redis.call('ZADD', ledger, 'GT', ARGV[1], 'clock', ARGV[1], 'floor')";

/// Removes the oldest members but for the newest half, and those that judge every entry, and raises the floor of tags in
/// their place. Counted from the newest: another node may have done so just before. ARGV: the position of the oldest member
/// that stays, then the members that are never removed.
const TRIM: &str = "\
local ledger = KEYS[1]
local floor = redis.call('ZRANGE', ledger, ARGV[1], ARGV[1], 'WITHSCORES')[2]
if not floor then
  return 0
end
local scores = {}
for i = 2, #ARGV do
  scores[i] = redis.call('ZSCORE', ledger, ARGV[i])
end
redis.call('ZADD', ledger, 'GT', floor, 'tags')
redis.call('ZREMRANGEBYSCORE', ledger, '-inf', '(' .. floor)
for i = 2, #ARGV do
  if scores[i] then
    redis.call('ZADD', ledger, 'GT', scores[i], ARGV[i])
  end
end
return 1";

#[cfg(test)]
mod tests {
    use super::*;

    /// As `SCRIPT LOAD` names it.
    #[test]
    fn digest_is_hexadecimal_sha1() {
        assert_eq!(Script::new("abc").digest, "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
