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

/// Returns for each key its content, or puts a lease if the key is absent, and returns 1.
/// ARGV: the lifetime of the leases, then a lease for each key.
pub(super) const LOOKUP: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  local bytes = redis.call('GET', key)
  if bytes then
    out[i] = bytes
  else
    redis.call('SET', key, ARGV[1 + i], 'PX', ARGV[1])
    out[i] = 1
  end
end
return out";

/// Puts, touches, renews, removes or releases each key that starts with the expected bytes. Returns 1 for each that did, otherwise 0.
/// ARGV: channel, message, then for each key the expected bytes, what to do, the new bytes, a time. What to do is an
/// option of SET, or a command; before PEXPIREAT the new bytes are the deadline in the value. RELEASE leaves what follows the
/// lease.
pub(super) const COMPARE_AND_SET: &str = "\
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

/// Removes keys and announces it, on a server that is too full to queue a transaction. Returns for each its first bytes,
/// and whether it was there. ARGV: channel and message, or nothing.
pub(super) const REMOVE: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  local head = redis.pcall('GETRANGE', key, 0, 19)
  if type(head) == 'table' then
    if not string.find(head.err, 'WRONGTYPE', 1, true) then
      return head
    end
    head = ''
  end
  out[2 * i - 1] = head
  out[2 * i] = redis.call('UNLINK', key)
end
if ARGV[1] then
  redis.call('PUBLISH', ARGV[1], ARGV[2])
end
return out";

/// Advances the clock and stamps members with it, and soft ones with the time beside it. A ledger whose clock is no stamp is a lost one, as in `values::stamp`.
/// ARGV: the lowest new clock, its margin for a new or another ledger, the message about the floor of another one or nothing,
/// channel, message, members.
pub(super) const ADVANCE: &str = "\
local ledger = KEYS[1]
local clock = redis.call('ZSCORE', ledger, 'clock')
local number = clock and tonumber(clock)
if clock and not (number and number >= 1 and number < 9007199254740992) then
  redis.call('UNLINK', ledger)
  clock = false
end
if not clock then
  local time = redis.call('TIME')
  clock = string.format('%.0f', math.max(time[1] * 1000000 + time[2], ARGV[1] + ARGV[2]))
  redis.call('ZADD', ledger, 'NX', clock, 'clock', clock, 'floor')
end
local other = ARGV[3] ~= '' and tonumber(clock) < tonumber(ARGV[1])
local least = other and ARGV[1] + ARGV[2] or tonumber(ARGV[1])
clock = string.format('%.0f', math.max(tonumber(clock), least) + 1)
redis.call('ZADD', ledger, clock, 'clock')
if other then
  redis.call('ZADD', ledger, 'GT', clock, 'floor')
  redis.call('PUBLISH', ARGV[4], ARGV[3] .. clock)
end
for i = 6, #ARGV do
  redis.call('ZADD', ledger, 'GT', clock, ARGV[i])
  if ARGV[i] == 'expire' or string.sub(ARGV[i], 1, 1) == '~' then
    local time = redis.call('TIME')
    redis.call('ZADD', ledger, time[1] * 1000 + math.floor(time[2] / 1000), '@' .. ARGV[i])
  end
end
redis.call('PUBLISH', ARGV[4], ARGV[5] .. clock)
return {clock, redis.call('ZCARD', ledger), other and 1 or 0}";

#[cfg(test)]
mod tests {
    use super::*;

    /// As `SCRIPT LOAD` names it.
    #[test]
    fn digest_is_hexadecimal_sha1() {
        assert_eq!(Script::new("abc").digest, "a9993e364706816aba3e25717850c26c9cd0d89d");
    }
}
