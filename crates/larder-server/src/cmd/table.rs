//! The table of commands, and its index by name.

use super::admin::{command, config, function, server};
use super::atomic::{script, transaction};
use super::connection::{basic, client, handshake, pubsub};
use super::keys::{dump, expire, key, object, rename, scan};
use super::spec::{CommandSpec as C, Flags};
use super::strings::{bitfield, bitop, bits, counter, edit, get, hyperloglog, multi_key, set};
use super::zset;

/// All commands, sorted by name.
#[rustfmt::skip]
pub(super) static TABLE: [C; 126] = [
    C::new("append", 3, "2.0.0", edit::append, "Appends to a value; creates it if needed.").writes_string().fast().one_key(),
    C::new("auth", -2, "1.0.0", handshake::auth, "Authenticates the connection.").connection().fast().loading().flag(Flags::NO_AUTH).no_script(),
    C::new("bitcount", -2, "2.6.0", bits::bitcount, "Counts the bits that are set.").reads_string().bitmap().one_key(),
    C::new("bitfield", -2, "3.2.0", bitfield::bitfield, "Reads and changes integers of any width in a string.").writes_string().bitmap().one_key(),
    C::new("bitfield_ro", -2, "6.0.0", bitfield::bitfield_ro, "Reads integers of any width in a string.").reads_string().bitmap().fast().one_key(),
    C::new("bitop", -4, "2.6.0", bitop::bitop, "Combines strings bit by bit and stores the result.").writes_string().bitmap().keys(2, -1, 1),
    C::new("bitpos", -3, "2.8.7", bits::bitpos, "Finds the first bit that is set or not set.").reads_string().bitmap().one_key(),
    C::new("client", -2, "2.4.0", client::client, "Names, describes and lists connections.").connection().no_script(),
    C::new("command", -1, "2.8.13", command::command, "Describes the commands.").server().loading(),
    C::new("config", -2, "2.0.0", config::config, "Reads and changes settings.").server().flag(Flags::NO_MULTI).no_script(),
    C::new("copy", -3, "6.2.0", rename::copy, "Copies a value and its deadline to another key.").writes_key().flag(Flags::DENYOOM).keys(1, 2, 1).flag(Flags::ANY_KEYS),
    C::new("dbsize", 1, "1.0.0", server::dbsize, "Returns the number of keys in the database.").server().fast().flag(Flags::READONLY).flag(Flags::ANY_KEYS),
    C::new("decr", 2, "1.0.0", counter::decr, "Subtracts one from an integer; a missing key counts as 0.").writes_string().fast().one_key(),
    C::new("decrby", 3, "1.0.0", counter::decrby, "Subtracts from an integer; a missing key counts as 0.").writes_string().fast().one_key(),
    C::new("del", -2, "1.0.0", multi_key::del, "Removes keys.").writes_key().keys(1, -1, 1),
    C::new("delifeq", 3, "9.0.0", key::delifeq, "Removes a key if it has the given value.").updates_string().fast().one_key(),
    C::new("discard", 1, "2.0.0", transaction::discard, "Discards the commands that were queued.").transaction().fast().loading().no_script(),
    C::new("dump", 2, "2.6.0", dump::dump, "Returns a string in serialized form.").reads_key().one_key(),
    C::new("echo", 2, "1.0.0", basic::echo, "Returns its argument.").connection().fast().loading(),
    C::new("eval", -3, "2.6.0", script::eval, "Runs a script in Lua.").runs_script().flag(Flags::MAY_WRITE),
    C::new("eval_ro", -3, "7.0.0", script::eval_ro, "Runs a script in Lua that must not write.").runs_script().flag(Flags::READONLY),
    C::new("evalsha", -3, "2.6.0", script::evalsha, "Runs a script by its SHA-1.").runs_script().flag(Flags::MAY_WRITE),
    C::new("evalsha_ro", -3, "7.0.0", script::evalsha_ro, "Runs a script by its SHA-1 that must not write.").runs_script().flag(Flags::READONLY),
    C::new("exec", 1, "1.2.0", transaction::exec, "Executes the queued commands in one atomic step.").transaction().loading().no_script(),
    C::new("exists", -2, "1.0.0", multi_key::exists, "Counts the keys that exist.").reads_key().fast().keys(1, -1, 1),
    C::new("expire", -3, "1.0.0", expire::expire, "Sets the time to live of a key in seconds.").writes_key().fast().one_key(),
    C::new("expireat", -3, "1.2.0", expire::expireat, "Sets the deadline of a key in seconds of Unix time.").writes_key().fast().one_key(),
    C::new("expiretime", 2, "7.0.0", expire::expiretime, "Returns the deadline of a key in seconds of Unix time.").reads_key().fast().one_key(),
    C::new("flushall", -1, "1.0.0", server::flushall, "Removes all keys of all databases.").server().flag(Flags::WRITE).flag(Flags::DANGEROUS).flag(Flags::ANY_KEYS),
    C::new("flushdb", -1, "1.0.0", server::flushdb, "Removes all keys of the database.").server().flag(Flags::WRITE).flag(Flags::DANGEROUS).flag(Flags::ANY_KEYS),
    C::new("function", -2, "7.0.0", function::function, "A library without functions.").scripting().no_script(),
    C::new("get", 2, "1.0.0", get::get, "Returns a value.").reads_string().fast().one_key(),
    C::new("getbit", 3, "2.2.0", bits::getbit, "Returns a bit of a string.").reads_string().bitmap().fast().one_key(),
    C::new("getdel", 2, "6.2.0", get::getdel, "Returns a value and removes its key.").updates_string().fast().one_key(),
    C::new("getex", -2, "6.2.0", get::getex, "Returns a value and sets or removes its deadline.").updates_string().fast().one_key(),
    C::new("getrange", 4, "2.4.0", get::getrange, "Returns part of a value.").reads_string().one_key(),
    C::new("getset", 3, "1.0.0", set::getset, "Stores a value and returns the former value.").writes_string().fast().one_key(),
    C::new("hello", -1, "6.0.0", handshake::hello, "Chooses the protocol version; may authenticate and name the connection.").connection().fast().loading().flag(Flags::NO_AUTH).no_script(),
    C::new("incr", 2, "1.0.0", counter::incr, "Adds one to an integer; a missing key counts as 0.").writes_string().fast().one_key(),
    C::new("incrby", 3, "1.0.0", counter::incrby, "Adds to an integer; a missing key counts as 0.").writes_string().fast().one_key(),
    C::new("incrbyfloat", 3, "2.6.0", counter::incrbyfloat, "Adds to a number; a missing key counts as 0.").writes_string().fast().one_key(),
    C::new("info", -1, "1.0.0", server::info, "Returns statistics of the server as text.").server().loading().flag(Flags::ANY_KEYS),
    C::new("keys", 2, "1.0.0", scan::keys, "Returns all keys that match a pattern.").reads_key().flag(Flags::DANGEROUS).flag(Flags::ANY_KEYS),
    C::new("memory", -2, "4.0.0", object::memory, "Returns the memory that an entry needs.").server().flag(Flags::ANY_KEYS),
    C::new("mget", -2, "1.0.0", multi_key::mget, "Returns several values.").reads_string().fast().keys(1, -1, 1),
    C::new("move", 3, "1.0.0", rename::move_key, "Moves a key to another database.").writes_key().fast().one_key().flag(Flags::ANY_KEYS),
    C::new("mset", -3, "1.0.1", multi_key::mset, "Stores several values.").writes_string().keys(1, -1, 2),
    C::new("msetnx", -3, "1.0.1", multi_key::msetnx, "Stores several values if none of the keys exists.").writes_string().keys(1, -1, 2),
    C::new("multi", 1, "1.2.0", transaction::multi, "Starts a transaction: further commands are queued.").transaction().fast().loading().no_script(),
    C::new("object", -2, "2.2.3", object::object, "Describes the representation of a value.").generic().flag(Flags::ANY_KEYS),
    C::new("persist", 2, "2.2.0", expire::persist, "Removes the deadline of a key.").writes_key().fast().one_key(),
    C::new("pexpire", -3, "2.6.0", expire::pexpire, "Sets the time to live of a key in milliseconds.").writes_key().fast().one_key(),
    C::new("pexpireat", -3, "2.6.0", expire::pexpireat, "Sets the deadline of a key in milliseconds of Unix time.").writes_key().fast().one_key(),
    C::new("pexpiretime", 2, "7.0.0", expire::pexpiretime, "Returns the deadline of a key in milliseconds of Unix time.").reads_key().fast().one_key(),
    C::new("pfadd", -2, "2.8.9", hyperloglog::pfadd, "Adds elements to a HyperLogLog.").writes_string().hyperloglog().fast().one_key(),
    C::new("pfcount", -2, "2.8.9", hyperloglog::pfcount, "Estimates the number of different elements of HyperLogLogs.").reads_string().hyperloglog().keys(1, -1, 1).flag(Flags::MAY_WRITE),
    C::new("pfmerge", -2, "2.8.9", hyperloglog::pfmerge, "Merges HyperLogLogs into one.").writes_string().hyperloglog().keys(1, -1, 1),
    C::new("ping", -1, "1.0.0", basic::ping, "Returns PONG, or its argument.").connection().fast(),
    C::new("psetex", 4, "2.6.0", set::psetex, "Stores a value with a time to live in milliseconds.").writes_string().one_key(),
    C::new("psubscribe", -2, "2.0.0", pubsub::psubscribe, "Subscribes to channels that match patterns.").pubsub().loading().flag(Flags::NO_MULTI).no_script(),
    C::new("pttl", 2, "2.6.0", expire::pttl, "Returns the time to live of a key in milliseconds.").reads_key().fast().one_key(),
    C::new("publish", 3, "2.0.0", pubsub::publish, "Sends a message to a channel.").pubsub().fast().loading().flag(Flags::MAY_WRITE),
    C::new("pubsub", -2, "2.8.0", pubsub::pubsub, "Describes the subscriptions of all connections.").pubsub(),
    C::new("punsubscribe", -1, "2.0.0", pubsub::punsubscribe, "Ends subscriptions of patterns.").pubsub().loading().flag(Flags::NO_MULTI).no_script(),
    C::new("quit", -1, "1.0.0", basic::quit, "Closes the connection.").connection().fast().loading().flag(Flags::NO_AUTH).flag(Flags::NOT_QUEUED).no_script(),
    C::new("randomkey", 1, "1.0.0", object::randomkey, "Returns any key.").reads_key().flag(Flags::ANY_KEYS),
    C::new("rename", 3, "1.0.0", rename::rename, "Renames a key, and replaces the key of that name.").writes_key().keys(1, 2, 1),
    C::new("renamenx", 3, "1.0.0", rename::renamenx, "Renames a key if the new name is free.").writes_key().fast().keys(1, 2, 1),
    C::new("reset", 1, "6.2.0", basic::reset, "Resets the connection to its initial state.").connection().fast().loading().flag(Flags::NO_AUTH).flag(Flags::NOT_QUEUED).no_script(),
    C::new("restore", -4, "2.6.0", dump::restore, "Stores a string that DUMP has serialized.").writes_key().flag(Flags::DENYOOM).flag(Flags::DANGEROUS).one_key(),
    C::new("role", 1, "2.8.12", server::role, "Returns the replication role: always master, without replicas.").server().fast().loading().no_script(),
    C::new("scan", -2, "2.8.0", scan::scan, "Iterates over the keys in batches.").reads_key().flag(Flags::ANY_KEYS),
    C::new("script", -2, "2.6.0", script::script, "Loads, lists and removes scripts.").scripting().no_script(),
    C::new("select", 2, "1.0.0", basic::select, "Selects the database.").connection().fast().loading(),
    C::new("set", -3, "1.0.0", set::set, "Stores a value.").writes_string().one_key(),
    C::new("setbit", 4, "2.2.0", bits::setbit, "Sets a bit of a string, and returns its former value.").writes_string().bitmap().one_key(),
    C::new("setex", 4, "2.0.0", set::setex, "Stores a value with a time to live in seconds.").writes_string().one_key(),
    C::new("setnx", 3, "1.0.0", set::setnx, "Stores a value if the key does not exist.").writes_string().fast().one_key(),
    C::new("setrange", 4, "2.2.0", edit::setrange, "Overwrites part of a value; pads with zero bytes.").writes_string().one_key(),
    C::new("spublish", 3, "7.0.0", pubsub::spublish, "Sends a message to a channel of a shard.").pubsub().fast().loading().one_key().flag(Flags::MAY_WRITE),
    C::new("ssubscribe", -2, "7.0.0", pubsub::ssubscribe, "Subscribes to channels of shards.").pubsub().loading().flag(Flags::NO_MULTI).keys(1, -1, 1).no_script(),
    C::new("strlen", 2, "2.2.0", get::strlen, "Returns the length of a value in bytes.").reads_string().fast().one_key(),
    C::new("subscribe", -2, "2.0.0", pubsub::subscribe, "Subscribes to channels.").pubsub().loading().flag(Flags::NO_MULTI).no_script(),
    C::new("substr", 4, "1.0.0", get::getrange, "Returns part of a value: the old name of GETRANGE.").reads_string().one_key(),
    C::new("sunsubscribe", -1, "7.0.0", pubsub::sunsubscribe, "Ends subscriptions of channels of shards.").pubsub().loading().flag(Flags::NO_MULTI).keys(1, -1, 1).no_script(),
    C::new("time", 1, "2.6.0", server::time, "Returns Unix time in seconds and microseconds.").server().fast().loading(),
    C::new("touch", -2, "3.2.1", multi_key::touch, "Counts the keys that exist; this counts as a use of them.").reads_key().fast().keys(1, -1, 1),
    C::new("ttl", 2, "1.0.0", expire::ttl, "Returns the time to live of a key in seconds.").reads_key().fast().one_key(),
    C::new("type", 2, "1.0.0", key::type_of, "Returns the type of a value.").reads_key().fast().one_key(),
    C::new("unlink", -2, "4.0.0", multi_key::del, "Removes keys.").writes_key().fast().keys(1, -1, 1),
    C::new("unsubscribe", -1, "2.0.0", pubsub::unsubscribe, "Ends subscriptions of channels.").pubsub().loading().flag(Flags::NO_MULTI).no_script(),
    C::new("unwatch", 1, "2.2.0", transaction::unwatch, "Unwatches all keys.").transaction_queued().fast().loading().no_script(),
    C::new("wait", 3, "3.0.0", server::wait, "Returns 0: there are no replicas to wait for.").generic().no_script(),
    C::new("watch", -2, "2.2.0", transaction::watch, "Makes the next transaction fail if these keys change before it.").transaction().fast().loading().keys(1, -1, 1).no_script(),
    C::new("zadd", -4, "1.2.0", zset::add::zadd, "Adds members to a sorted set, or changes their scores.").writes_zset().fast().one_key(),
    C::new("zcard", 2, "1.2.0", zset::read::zcard, "Returns the number of members of a sorted set.").reads_zset().fast().one_key(),
    C::new("zcount", 4, "2.0.0", zset::read::zcount, "Counts the members with scores in a range.").reads_zset().fast().one_key(),
    C::new("zdiff", -3, "6.2.0", zset::combine::zdiff, "Returns the members of the first sorted set that are in no other one.").reads_zset().numkeys(1),
    C::new("zdiffstore", -4, "6.2.0", zset::combine::zdiffstore, "Stores the members of the first sorted set that are in no other one.").writes_zset().one_key().numkeys(2),
    C::new("zincrby", 4, "1.2.0", zset::add::zincrby, "Adds to the score of a member; a missing one counts as 0.").writes_zset().fast().one_key(),
    C::new("zinter", -3, "6.2.0", zset::combine::zinter, "Returns the members that are in all sorted sets.").reads_zset().numkeys(1),
    C::new("zintercard", -3, "7.0.0", zset::combine::zintercard, "Counts the members that are in all sorted sets.").reads_zset().numkeys(1),
    C::new("zinterstore", -4, "2.0.0", zset::combine::zinterstore, "Stores the members that are in all sorted sets.").writes_zset().one_key().numkeys(2),
    C::new("zlexcount", 4, "2.8.9", zset::read::zlexcount, "Counts the members with names in a range.").reads_zset().fast().one_key(),
    C::new("zmpop", -4, "7.0.0", zset::pop::zmpop, "Removes and returns members of the first sorted set that has any.").updates_zset().numkeys(1),
    C::new("zmscore", -3, "6.2.0", zset::read::zmscore, "Returns the scores of members.").reads_zset().fast().one_key(),
    C::new("zpopmax", -2, "5.0.0", zset::pop::zpopmax, "Removes and returns the members with the highest scores.").updates_zset().fast().one_key(),
    C::new("zpopmin", -2, "5.0.0", zset::pop::zpopmin, "Removes and returns the members with the lowest scores.").updates_zset().fast().one_key(),
    C::new("zrandmember", -2, "6.2.0", zset::sample::zrandmember, "Returns random members of a sorted set.").reads_zset().one_key(),
    C::new("zrange", -4, "1.2.0", zset::range::zrange, "Returns the members in a range of ranks, scores or names.").reads_zset().one_key(),
    C::new("zrangebylex", -4, "2.8.9", zset::range::zrangebylex, "Returns the members with names in a range.").reads_zset().one_key(),
    C::new("zrangebyscore", -4, "1.0.5", zset::range::zrangebyscore, "Returns the members with scores in a range.").reads_zset().one_key(),
    C::new("zrangestore", -5, "6.2.0", zset::range::zrangestore, "Stores the members in a range of ranks, scores or names.").writes_zset().keys(1, 2, 1),
    C::new("zrank", -3, "2.0.0", zset::read::zrank, "Returns the rank of a member from the lowest score.").reads_zset().fast().one_key(),
    C::new("zrem", -3, "1.2.0", zset::pop::zrem, "Removes members from a sorted set.").updates_zset().fast().one_key(),
    C::new("zremrangebylex", 4, "2.8.9", zset::range::zremrangebylex, "Removes the members with names in a range.").updates_zset().one_key(),
    C::new("zremrangebyrank", 4, "2.0.0", zset::range::zremrangebyrank, "Removes the members with ranks in a range.").updates_zset().one_key(),
    C::new("zremrangebyscore", 4, "1.2.0", zset::range::zremrangebyscore, "Removes the members with scores in a range.").updates_zset().one_key(),
    C::new("zrevrange", -4, "1.2.0", zset::range::zrevrange, "Returns the members in a range of ranks from the highest score.").reads_zset().one_key(),
    C::new("zrevrangebylex", -4, "2.8.9", zset::range::zrevrangebylex, "Returns the members with names in a range, the last one first.").reads_zset().one_key(),
    C::new("zrevrangebyscore", -4, "2.2.0", zset::range::zrevrangebyscore, "Returns the members with scores in a range, the highest one first.").reads_zset().one_key(),
    C::new("zrevrank", -3, "2.0.0", zset::read::zrevrank, "Returns the rank of a member from the highest score.").reads_zset().fast().one_key(),
    C::new("zscan", -3, "2.8.0", zset::scan::zscan, "Iterates over the members of a sorted set in batches.").reads_zset().one_key(),
    C::new("zscore", 3, "1.2.0", zset::read::zscore, "Returns the score of a member.").reads_zset().fast().one_key(),
    C::new("zunion", -3, "6.2.0", zset::combine::zunion, "Returns the members that are in any of the sorted sets.").reads_zset().numkeys(1),
    C::new("zunionstore", -4, "2.0.0", zset::combine::zunionstore, "Stores the members that are in any of the sorted sets.").writes_zset().one_key().numkeys(2),
];

/// Slots of the index: a power of two, several times the number of commands.
const SLOTS: usize = 256;
/// A slot without a command.
const EMPTY: u8 = u8::MAX;

/// An open-addressed index of the table by folded name, computed at compile time.
static INDEX: [u8; SLOTS] = index();

/// The index in [`TABLE`] of the command with this name, in upper or lower case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<usize> {
    let folded = fold(name)?;
    let mut slot = slot(folded);
    loop {
        let index = INDEX[slot];
        if index == EMPTY {
            return None;
        }
        let index = usize::from(index);
        if name.len() <= 8 && EXACT[index] == folded {
            return Some(index);
        }
        // Folding maps some other bytes to those of names too, so the name must be compared.
        if TABLE[index].name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(index);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// For each command the folded name, if no other name of at most eight bytes has the same one: only letters fold to
/// letters. Otherwise 0.
static EXACT: [u64; TABLE.len()] = exact();

const fn exact() -> [u64; TABLE.len()] {
    let mut exact = [0; TABLE.len()];
    let mut index = 0;
    while index < TABLE.len() {
        let name = TABLE[index].name.as_bytes();
        let mut letters = 0;
        while letters < name.len() && name[letters].is_ascii_alphabetic() {
            letters += 1;
        }
        if let Some(folded) = fold(name)
            && letters == name.len()
            && letters <= 8
        {
            exact[index] = folded;
        }
        index += 1;
    }
    exact
}

const fn index() -> [u8; SLOTS] {
    let mut slots = [EMPTY; SLOTS];
    let mut index = 0;
    while index < TABLE.len() {
        let Some(folded) = fold(TABLE[index].name.as_bytes()) else {
            panic!("a command name has at most 16 bytes")
        };
        let mut slot = slot(folded);
        while slots[slot] != EMPTY {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u8;
        index += 1;
    }
    slots
}

/// The name in lower case, in one number; `None` if no command has a name of this length.
const fn fold(name: &[u8]) -> Option<u64> {
    if name.is_empty() || name.len() > 16 {
        return None;
    }
    let mut folded = 0u64;
    let mut offset = 0;
    while offset < name.len() {
        folded = folded.rotate_left(8) ^ (name[offset] | 0x20) as u64;
        offset += 1;
    }
    Some(folded)
}

const fn slot(folded: u64) -> usize {
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found_in_any_case() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
        for (index, spec) in TABLE.iter().enumerate() {
            assert_eq!(find(spec.name.as_bytes()), Some(index));
            assert_eq!(find(spec.name.to_uppercase().as_bytes()), Some(index));
            // No other byte in place of one of the name, even if it folds to the same.
            for at in 0..spec.name.len() {
                let mut other = spec.name.as_bytes().to_vec();
                other[at] ^= if other[at].is_ascii_alphabetic() { 0x80 } else { 0x20 };
                assert_ne!(find(&other), Some(index), "{other:?}");
            }
        }
    }

    #[test]
    fn similar_names_are_not_found() {
        for name in
            [&b""[..], b"gets", b"ge", b"ge\x54\x00", b"g\x45t ", b"a name of more than sixteen bytes"]
        {
            assert_eq!(find(name), None, "{}", name.escape_ascii());
        }
        // 0x07 folds to 0x27 and not to 'g'.
        assert_eq!(find(b"\x07et"), None);
    }
}
