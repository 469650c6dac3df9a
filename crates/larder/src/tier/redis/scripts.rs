//! The Lua scripts, which are called by their digest.
//!
//! A server loses its scripts when it restarts. It then refuses the call without executing anything, and the call is
//! sent again with the text of the script.

use redis::Pipeline;
use std::fmt::Write;

/// A script with the digest under which a server knows it.
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        let mut digest = String::with_capacity(40);
        for byte in sha1(text.as_bytes()) {
            write!(digest, "{byte:02x}").expect("writing to a string cannot fail");
        }
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

/// Returns for each key its content and its time to live, or puts a lease if the key is absent.
/// ARGV: the lifetime of the leases, then a lease for each key; without ARGV it only reads.
pub(super) const LOOKUP: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  local bytes = redis.call('GET', key)
  if bytes then
    out[2 * i - 1] = bytes
    out[2 * i] = redis.call('PTTL', key)
  else
    out[2 * i - 1] = false
    out[2 * i] = 0
    if ARGV[1] then
      redis.call('SET', key, ARGV[1 + i], 'PX', ARGV[1])
      out[2 * i] = 1
    end
  end
end
return out";

/// Puts, touches or removes each key that starts with the expected bytes. Returns 1 for each that did, otherwise 0.
/// ARGV: channel, message, then for each key the expected bytes, the action, the new bytes, their time to live.
pub(super) const COMPARE_AND_SET: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  local at = 4 * i - 1
  if redis.call('GETRANGE', key, 0, 19) == ARGV[at] then
    local what = ARGV[at + 1]
    if what == 'put' then
      redis.call('SET', key, ARGV[at + 2], 'PX', ARGV[at + 3])
    elseif what == 'touch' then
      redis.call('PEXPIRE', key, ARGV[at + 3])
    else
      redis.call('UNLINK', key)
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

/// Removes keys and announces it, on a server that is too full to queue a transaction. ARGV: channel, message.
pub(super) const REMOVE: &str = "\
local out = {}
for i, key in ipairs(KEYS) do
  out[i] = redis.call('GETRANGE', key, 0, 19)
  redis.call('UNLINK', key)
end
redis.call('PUBLISH', ARGV[1], ARGV[2])
return out";

/// Advances the clock and stamps members with it.
/// ARGV: the lowest new clock, channel, message, members.
pub(super) const ADVANCE: &str = "\
local ledger = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local clock = redis.call('ZSCORE', ledger, 'clock')
if not clock then
  redis.call('ZADD', ledger, 'NX', now, 'clock', now, 'floor')
  clock = now
end
clock = string.format('%.0f', math.max(tonumber(clock), tonumber(ARGV[1])) + 1)
redis.call('ZADD', ledger, clock, 'clock')
for i = 4, #ARGV do
  redis.call('ZADD', ledger, 'GT', clock, ARGV[i])
end
redis.call('PUBLISH', ARGV[2], ARGV[3] .. clock)
return {clock, redis.call('ZCARD', ledger)}";

/// The digest by which servers name scripts (FIPS 180-4). No security depends on it.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64) + if padded.len() % 64 > 56 { 64 } else { 0 } - 8, 0);
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().expect("chunks of four"));
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in words.iter().enumerate() {
            let (mixed, constant) = match round {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc_u32),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_equals_standard() {
        let digest = |text| Script::new(text).digest;
        assert_eq!(digest(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(digest("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        );
    }
}
