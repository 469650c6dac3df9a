//! The table of commands, and its index by name.

use larder_resp::Args;

use super::admin::{acl, command, config, function, info, latency, memory, module, monitor, server, slowlog};
use super::atomic::{script, transaction};
use super::cluster;
use super::connection::{basic, client, handshake, pubsub};
use super::keys::{dump, expire, key, object, rename, scan, sort};
use super::strings::{bitfield, bitop, bits, counter, edit, get, hyperloglog, multi_key, set as strings_set};
use super::{Context, Outcome, blocking, hash, list, set, stream, zset};
use crate::spec::{Access, Channels, CommandSpec, CommandSpec as C, Flags};

/// A command: what it is, and the function that executes it.
pub(super) type Command = (&'static CommandSpec, Run);

/// Executes a command and writes its reply.
pub(super) type Run = fn(&mut Context<'_>, Args<'_>) -> Outcome;

/// The number of commands.
const COUNT: usize = 216;

/// One row for each command, sorted by name. The other tables are made from it at compile time.
#[rustfmt::skip]
static ROWS: [(Run, CommandSpec); COUNT] = [
    (acl::acl, C::new("acl", -2, "6.0.0", "Describes and changes users and their rights.").server().no_script().subcommands(&["cat", "deluser", "dryrun", "genpass", "getuser", "help", "list", "load", "log", "save", "setuser", "users", "whoami"]).admin_subcommands(&["deluser", "dryrun", "getuser", "list", "load", "log", "save", "setuser", "users"]).hides(acl::is_secret)),
    (edit::append, C::new("append", 3, "2.0.0", "Appends to a value; creates it if needed.").writes_string().fast().one_key().access(Access::INSERTED)),
    (cluster::accept_slots, C::new("asking", 1, "3.0.0", "Accepts the next request for a slot that moves; slots never do.").connection().fast()),
    (handshake::auth, C::new("auth", -2, "1.0.0", "Authenticates the connection.").connection().fast().loading().flag(Flags::NO_AUTH).no_script().hides(handshake::is_secret_of_auth)),
    (bits::bitcount, C::new("bitcount", -2, "2.6.0", "Counts the bits that are set.").reads_string().bitmap().one_key()),
    (bitfield::bitfield, C::new("bitfield", -2, "3.2.0", "Reads and changes integers of any width in a string.").writes_string().bitmap().one_key().event("setbit")),
    (bitfield::bitfield_ro, C::new("bitfield_ro", -2, "6.0.0", "Reads integers of any width in a string.").reads_string().bitmap().fast().one_key()),
    (bitop::bitop, C::new("bitop", -4, "2.6.0", "Combines strings bit by bit and stores the result.").writes_string().bitmap().keys(2, -1, 1).accesses(Access::REPLACED, Access::READ).event("set")),
    (bits::bitpos, C::new("bitpos", -3, "2.8.7", "Finds the first bit that is set or not set.").reads_string().bitmap().one_key()),
    (blocking::blmove, C::new("blmove", 6, "6.2.0", "LMOVE that waits for an element.").writes_list().flag(Flags::BLOCKS).no_script().keys(1, 2, 1).accesses(Access::TAKEN, Access::INSERTED)),
    (blocking::blmpop, C::new("blmpop", -5, "7.0.0", "LMPOP that waits for elements.").updates_list().flag(Flags::BLOCKS).numkeys(2).access(Access::TAKEN)),
    (blocking::blpop, C::new("blpop", -3, "2.0.0", "Takes the first element of the first list that has one, and waits for one.").updates_list().flag(Flags::BLOCKS).no_script().keys(1, -2, 1).access(Access::TAKEN)),
    (blocking::brpop, C::new("brpop", -3, "2.0.0", "Takes the last element of the first list that has one, and waits for one.").updates_list().flag(Flags::BLOCKS).no_script().keys(1, -2, 1).access(Access::TAKEN)),
    (blocking::brpoplpush, C::new("brpoplpush", 4, "2.2.0", "RPOPLPUSH that waits for an element.").writes_list().flag(Flags::BLOCKS).no_script().keys(1, 2, 1).accesses(Access::TAKEN, Access::INSERTED)),
    (blocking::bzmpop, C::new("bzmpop", -5, "7.0.0", "ZMPOP that waits for members.").updates_zset().flag(Flags::BLOCKS).numkeys(2).access(Access::TAKEN)),
    (blocking::bzpopmax, C::new("bzpopmax", -3, "5.0.0", "Takes the member with the highest score, and waits for one.").updates_zset().fast().flag(Flags::BLOCKS).no_script().keys(1, -2, 1).access(Access::TAKEN)),
    (blocking::bzpopmin, C::new("bzpopmin", -3, "5.0.0", "Takes the member with the lowest score, and waits for one.").updates_zset().fast().flag(Flags::BLOCKS).no_script().keys(1, -2, 1).access(Access::TAKEN)),
    (client::client, C::new("client", -2, "2.4.0", "Names, describes and lists connections.").connection().no_script().flag(Flags::NOT_PAUSED).flag(Flags::KEEPS_CACHING).flag(Flags::SETS_REPLIES).subcommands(&["caching", "getname", "getredir", "help", "id", "info", "kill", "list", "no-evict", "no-touch", "pause", "reply", "setinfo", "setname", "tracking", "trackinginfo", "unblock", "unpause"]).admin_subcommands(&["kill", "list", "no-evict", "pause", "unblock", "unpause"])),
    (cluster::cluster, C::new("cluster", -2, "3.0.0", "Describes the cluster: this server, which owns all slots.").cluster().flag(Flags::ANY_KEYS).subcommands(&["countkeysinslot", "getkeysinslot", "help", "info", "keyslot", "myid", "myshardid", "nodes", "shards", "slots"]).in_part("one node, which owns all slots")),
    (command::command, C::new("command", -1, "2.8.13", "Describes the commands.").server().categories_are(&["connection"]).loading().subcommands(&["count", "docs", "getkeys", "getkeysandflags", "help", "info", "list"])),
    (config::config, C::new("config", -2, "2.0.0", "Reads and changes settings.").server().flag(Flags::NO_MULTI).no_script().subcommands(&["get", "help", "resetstat", "set"]).admin_subcommands(&["get", "resetstat", "set"]).hides(config::is_secret).in_part("the settings that exist here")),
    (rename::copy, C::new("copy", -3, "6.2.0", "Copies a value and its deadline to another key.").writes_key().flag(Flags::DENYOOM).keys(1, 2, 1).flag(Flags::ANY_KEYS).accesses(Access::READ, Access::REPLACED).flag(Flags::REMOVES_FORMER).event("copy_to")),
    (server::dbsize, C::new("dbsize", 1, "1.0.0", "Returns the number of keys in the database.").server().categories_are(&["keyspace"]).fast().flag(Flags::READONLY).flag(Flags::ANY_KEYS)),
    (counter::decr, C::new("decr", 2, "1.0.0", "Subtracts one from an integer; a missing key counts as 0.").writes_string().fast().one_key().event("incrby")),
    (counter::decrby, C::new("decrby", 3, "1.0.0", "Subtracts from an integer; a missing key counts as 0.").writes_string().fast().one_key().event("incrby")),
    (multi_key::del, C::new("del", -2, "1.0.0", "Removes keys.").writes_key().keys(1, -1, 1).access(Access::REMOVED)),
    (key::delifeq, C::new("delifeq", 3, "9.0.0", "Removes a key if it has the given value.").updates_string().fast().one_key().access(Access::TAKEN)),
    (transaction::discard, C::new("discard", 1, "2.0.0", "Discards the commands that were queued.").transaction().fast().loading().no_script().flag(Flags::ENDS_TRANSACTION)),
    (dump::dump, C::new("dump", 2, "2.6.0", "Returns a value in serialized form.").reads_key().one_key()),
    (basic::echo, C::new("echo", 2, "1.0.0", "Returns its argument.").connection().fast().loading()),
    (script::eval, C::new("eval", -3, "2.6.0", "Runs a script in Lua.").runs_script(Flags::RUNS_BODY).flag(Flags::MAY_WRITE)),
    (script::eval_ro, C::new("eval_ro", -3, "7.0.0", "Runs a script in Lua that must not write.").runs_script(Flags::RUNS_BODY).flag(Flags::READONLY)),
    (script::evalsha, C::new("evalsha", -3, "2.6.0", "Runs a script by its SHA-1.").runs_script(Flags::RUNS_DIGEST).flag(Flags::MAY_WRITE)),
    (script::evalsha_ro, C::new("evalsha_ro", -3, "7.0.0", "Runs a script by its SHA-1 that must not write.").runs_script(Flags::RUNS_DIGEST).flag(Flags::READONLY)),
    (transaction::exec, C::new("exec", 1, "1.2.0", "Executes the queued commands in one atomic step.").transaction().loading().no_script().flag(Flags::EXECUTES_QUEUE).flag(Flags::TAKES_MAIL)),
    (multi_key::exists, C::new("exists", -2, "1.0.0", "Counts the keys that exist.").reads_key().fast().keys(1, -1, 1).access(Access::EXAMINED)),
    (expire::expire, C::new("expire", -3, "1.0.0", "Sets the time to live of a key in seconds.").writes_key().fast().one_key().access(Access::UPDATED)),
    (expire::expireat, C::new("expireat", -3, "1.2.0", "Sets the deadline of a key in seconds of Unix time.").writes_key().fast().one_key().access(Access::UPDATED)),
    (expire::expiretime, C::new("expiretime", 2, "7.0.0", "Returns the deadline of a key in seconds of Unix time.").reads_key().fast().one_key()),
    (server::flushall, C::new("flushall", -1, "1.0.0", "Removes all keys of all databases.").server().categories_are(&["keyspace"]).flag(Flags::WRITE).flag(Flags::DANGEROUS).flag(Flags::ANY_KEYS)),
    (server::flushdb, C::new("flushdb", -1, "1.0.0", "Removes all keys of the database.").server().categories_are(&["keyspace"]).flag(Flags::WRITE).flag(Flags::DANGEROUS).flag(Flags::ANY_KEYS)),
    (function::function, C::new("function", -2, "7.0.0", "A library without functions.").scripting().no_script().subcommands(&["flush", "help", "list"]).in_part("has no functions")),
    (get::get, C::new("get", 2, "1.0.0", "Returns a value.").reads_string().fast().one_key()),
    (bits::getbit, C::new("getbit", 3, "2.2.0", "Returns a bit of a string.").reads_string().bitmap().fast().one_key()),
    (get::getdel, C::new("getdel", 2, "6.2.0", "Returns a value and removes its key.").updates_string().fast().one_key().access(Access::TAKEN)),
    (get::getex, C::new("getex", -2, "6.2.0", "Returns a value and sets or removes its deadline.").updates_string().fast().one_key()),
    (get::getrange, C::new("getrange", 4, "2.4.0", "Returns part of a value.").reads_string().one_key()),
    (strings_set::getset, C::new("getset", 3, "1.0.0", "Stores a value and returns the former value.").writes_string().fast().one_key().event("set")),
    (hash::edit::hdel, C::new("hdel", -3, "2.0.0", "Removes fields from a hash.").updates_hash().fast().one_key().access(Access::REDUCED)),
    (handshake::hello, C::new("hello", -1, "6.0.0", "Chooses the protocol version; may authenticate and name the connection.").connection().fast().loading().flag(Flags::NO_AUTH).no_script().hides(handshake::is_secret_of_hello)),
    (hash::read::hexists, C::new("hexists", 3, "2.0.0", "Returns whether a hash has a field.").reads_hash().fast().one_key().access(Access::EXAMINED)),
    (hash::expire::hexpire, C::new("hexpire", -6, "7.4.0", "Sets the time to live of fields in seconds.").updates_hash().fast().one_key().access(Access::UPDATED)),
    (hash::expire::hexpireat, C::new("hexpireat", -6, "7.4.0", "Sets the deadlines of fields in seconds of Unix time.").updates_hash().fast().one_key().access(Access::UPDATED)),
    (hash::expire::hexpiretime, C::new("hexpiretime", -5, "7.4.0", "Returns the deadlines of fields in seconds of Unix time.").reads_hash().fast().one_key()),
    (hash::read::hget, C::new("hget", 3, "2.0.0", "Returns the value of a field.").reads_hash().fast().one_key()),
    (hash::read::hgetall, C::new("hgetall", 2, "2.0.0", "Returns all fields of a hash with their values.").reads_hash().one_key()),
    (hash::timed::hgetdel, C::new("hgetdel", -5, "8.0.0", "Returns the values of fields and removes the fields.").updates_hash().fast().one_key().access(Access::TAKEN).event("hdel")),
    (hash::timed::hgetex, C::new("hgetex", -5, "8.0.0", "Returns the values of fields and sets or removes their deadlines.").updates_hash().fast().one_key()),
    (hash::counter::hincrby, C::new("hincrby", 4, "2.0.0", "Adds to the integer of a field; a missing one counts as 0.").writes_hash().fast().one_key()),
    (hash::counter::hincrbyfloat, C::new("hincrbyfloat", 4, "2.6.0", "Adds to the number of a field; a missing one counts as 0.").writes_hash().fast().one_key()),
    (hash::read::hkeys, C::new("hkeys", 2, "2.0.0", "Returns the names of all fields.").reads_hash().one_key()),
    (hash::read::hlen, C::new("hlen", 2, "2.0.0", "Returns the number of fields.").reads_hash().fast().one_key().access(Access::EXAMINED)),
    (hash::read::hmget, C::new("hmget", -3, "2.0.0", "Returns the values of fields.").reads_hash().fast().one_key()),
    (hash::edit::hmset, C::new("hmset", -4, "2.0.0", "Stores fields: the old name of HSET.").writes_hash().fast().one_key().access(Access::UPDATED).event("hset")),
    (hash::expire::hpersist, C::new("hpersist", -5, "7.4.0", "Removes the deadlines of fields.").updates_hash().fast().one_key().access(Access::UPDATED)),
    (hash::expire::hpexpire, C::new("hpexpire", -6, "7.4.0", "Sets the time to live of fields in milliseconds.").updates_hash().fast().one_key().access(Access::UPDATED)),
    (hash::expire::hpexpireat, C::new("hpexpireat", -6, "7.4.0", "Sets the deadlines of fields in milliseconds of Unix time.").updates_hash().fast().one_key().access(Access::UPDATED)),
    (hash::expire::hpexpiretime, C::new("hpexpiretime", -5, "7.4.0", "Returns the deadlines of fields in milliseconds of Unix time.").reads_hash().fast().one_key()),
    (hash::expire::hpttl, C::new("hpttl", -5, "7.4.0", "Returns the time to live of fields in milliseconds.").reads_hash().fast().one_key()),
    (hash::sample::hrandfield, C::new("hrandfield", -2, "6.2.0", "Returns random fields of a hash.").reads_hash().one_key()),
    (hash::scan::hscan, C::new("hscan", -3, "2.8.0", "Iterates over the fields of a hash in batches.").reads_hash().one_key()),
    (hash::edit::hset, C::new("hset", -4, "2.0.0", "Stores fields of a hash.").writes_hash().fast().one_key().access(Access::UPDATED)),
    (hash::timed::hsetex, C::new("hsetex", -6, "8.0.0", "Stores fields with a time to live.").writes_hash().fast().one_key().access(Access::INSERTED).event("hset")),
    (hash::edit::hsetnx, C::new("hsetnx", 4, "2.0.0", "Stores a field if it does not exist.").writes_hash().fast().one_key().access(Access::INSERTED).event("hset")),
    (hash::read::hstrlen, C::new("hstrlen", 3, "3.2.0", "Returns the length of the value of a field.").reads_hash().fast().one_key().access(Access::EXAMINED)),
    (hash::expire::httl, C::new("httl", -5, "7.4.0", "Returns the time to live of fields in seconds.").reads_hash().fast().one_key()),
    (hash::read::hvals, C::new("hvals", 2, "2.0.0", "Returns the values of all fields.").reads_hash().one_key()),
    (counter::incr, C::new("incr", 2, "1.0.0", "Adds one to an integer; a missing key counts as 0.").writes_string().fast().one_key().event("incrby")),
    (counter::incrby, C::new("incrby", 3, "1.0.0", "Adds to an integer; a missing key counts as 0.").writes_string().fast().one_key()),
    (counter::incrbyfloat, C::new("incrbyfloat", 3, "2.6.0", "Adds to a number; a missing key counts as 0.").writes_string().fast().one_key()),
    (server::info, C::new("info", -1, "1.0.0", "Returns statistics of the server as text.").server().flag(Flags::DANGEROUS).loading().any_keys_if(info::counts_keys)),
    (scan::keys, C::new("keys", 2, "1.0.0", "Returns all keys that match a pattern.").reads_key().flag(Flags::DANGEROUS).flag(Flags::ANY_KEYS)),
    (latency::latency, C::new("latency", -2, "2.8.13", "Shows how long commands take.").server().subcommands(&["doctor", "graph", "help", "histogram", "history", "latest", "reset"]).admin_subcommands(&["doctor", "graph", "histogram", "history", "latest", "reset"]).in_part("monitors no events")),
    (list::read::lindex, C::new("lindex", 3, "1.0.0", "Returns an element by its index.").reads_list().one_key()),
    (list::edit::linsert, C::new("linsert", 5, "2.2.0", "Puts an element before or behind another one.").writes_list().one_key().access(Access::INSERTED)),
    (list::read::llen, C::new("llen", 2, "1.0.0", "Returns the number of elements.").reads_list().fast().one_key().access(Access::EXAMINED)),
    (list::transfer::lmove, C::new("lmove", 5, "6.2.0", "Takes an element from an end of a list, and puts it at an end of another.").writes_list().keys(1, 2, 1).accesses(Access::TAKEN, Access::INSERTED)),
    (list::pop::lmpop, C::new("lmpop", -4, "7.0.0", "Takes elements from the first list that has some.").updates_list().numkeys(1).access(Access::TAKEN)),
    (list::pop::lpop, list::pop::LPOP),
    (list::read::lpos, C::new("lpos", -3, "6.0.6", "Returns the indices of equal elements.").reads_list().one_key()),
    (list::push::lpush, list::push::LPUSH),
    (list::push::lpushx, C::new("lpushx", -3, "2.2.0", "Puts elements before the first one of a list that exists.").writes_list().fast().one_key().access(Access::INSERTED).event("lpush")),
    (list::read::lrange, C::new("lrange", 4, "1.0.0", "Returns elements by their indices.").reads_list().one_key()),
    (list::edit::lrem, C::new("lrem", 4, "1.0.0", "Removes equal elements.").updates_list().one_key().access(Access::REDUCED)),
    (list::edit::lset, C::new("lset", 4, "1.0.0", "Replaces an element.").writes_list().one_key().access(Access::UPDATED)),
    (list::edit::ltrim, C::new("ltrim", 4, "1.0.0", "Removes all elements but these.").updates_list().one_key().access(Access::REDUCED)),
    (memory::memory, C::new("memory", -2, "4.0.0", "Returns the memory that an entry or the server needs.").server().flag(Flags::ANY_KEYS).access(Access::EXAMINED).subcommands(&["doctor", "help", "malloc-stats", "purge", "stats", "usage"]).keyed_subcommands(&["usage"])),
    (multi_key::mget, C::new("mget", -2, "1.0.0", "Returns several values.").reads_string().fast().keys(1, -1, 1)),
    (module::module, C::new("module", -2, "4.0.0", "Lists the modules: there are none.").server().subcommands(&["help", "list"]).admin_subcommands(&["list"]).in_part("has no modules")),
    (monitor::monitor, C::new("monitor", 1, "1.0.0", "Shows all commands that the server executes.").server().loading().no_script().flag(Flags::ADMIN).flag(Flags::DANGEROUS).flag(Flags::TAKES_MAIL)),
    (rename::move_key, C::new("move", 3, "1.0.0", "Moves a key to another database.").writes_key().fast().one_key().flag(Flags::ANY_KEYS).event("move_to").removal_event("move_from")),
    (multi_key::mset, C::new("mset", -3, "1.0.1", "Stores several values.").writes_string().keys(1, -1, 2).access(Access::REPLACED).event("set")),
    (multi_key::msetnx, C::new("msetnx", -3, "1.0.1", "Stores several values if none of the keys exists.").writes_string().keys(1, -1, 2).access(Access::CREATED).event("set")),
    (transaction::multi, C::new("multi", 1, "1.2.0", "Starts a transaction: further commands are queued.").transaction().fast().loading().no_script()),
    (object::object, C::new("object", -2, "2.2.3", "Describes the representation of a value.").generic().flag(Flags::ANY_KEYS).access(Access::EXAMINED).subcommands(&["encoding", "freq", "help", "idletime", "refcount"]).keyed_subcommands(&["encoding", "freq", "idletime", "refcount"]).in_part("IDLETIME is not recorded, FREQ is an estimate")),
    (expire::persist, C::new("persist", 2, "2.2.0", "Removes the deadline of a key.").writes_key().fast().one_key().access(Access::UPDATED)),
    (expire::pexpire, C::new("pexpire", -3, "2.6.0", "Sets the time to live of a key in milliseconds.").writes_key().fast().one_key().access(Access::UPDATED)),
    (expire::pexpireat, C::new("pexpireat", -3, "2.6.0", "Sets the deadline of a key in milliseconds of Unix time.").writes_key().fast().one_key().access(Access::UPDATED)),
    (expire::pexpiretime, C::new("pexpiretime", 2, "7.0.0", "Returns the deadline of a key in milliseconds of Unix time.").reads_key().fast().one_key()),
    (hyperloglog::pfadd, C::new("pfadd", -2, "2.8.9", "Adds elements to a HyperLogLog.").writes_string().hyperloglog().fast().one_key().access(Access::INSERTED)),
    (hyperloglog::pfcount, C::new("pfcount", -2, "2.8.9", "Estimates the number of different elements of HyperLogLogs.").reads_string().hyperloglog().keys(1, -1, 1).flag(Flags::MAY_WRITE).access(Access::READ_AND_KEPT).flag(Flags::EDITS_SILENTLY)),
    (hyperloglog::pfmerge, C::new("pfmerge", -2, "2.8.9", "Merges HyperLogLogs into one.").writes_string().hyperloglog().keys(1, -1, 1).accesses(Access::READ_AND_INSERTED, Access::READ).event("pfadd")),
    (basic::ping, C::new("ping", -1, "1.0.0", "Returns PONG, or its argument.").connection().fast().flag(Flags::FOR_SUBSCRIBERS)),
    (strings_set::psetex, C::new("psetex", 4, "2.6.0", "Stores a value with a time to live in milliseconds.").writes_string().one_key().access(Access::REPLACED).event("set")),
    (pubsub::psubscribe, C::new("psubscribe", -2, "2.0.0", "Subscribes to channels that match patterns.").subscribes().channels(Channels::Patterns).loading().no_script()),
    (expire::pttl, C::new("pttl", 2, "2.6.0", "Returns the time to live of a key in milliseconds.").reads_key().fast().one_key()),
    (pubsub::publish, C::new("publish", 3, "2.0.0", "Sends a message to a channel.").pubsub().channels(Channels::First).fast().loading().flag(Flags::MAY_WRITE)),
    (pubsub::pubsub, C::new("pubsub", -2, "2.8.0", "Describes the subscriptions of all connections.").pubsub().subcommands(&["channels", "help", "numpat", "numsub", "shardchannels", "shardnumsub"])),
    (pubsub::punsubscribe, C::new("punsubscribe", -1, "2.0.0", "Ends subscriptions of patterns.").subscribes().loading().no_script()),
    (basic::quit, C::new("quit", -1, "1.0.0", "Closes the connection.").connection().fast().loading().flag(Flags::NO_AUTH).flag(Flags::NOT_QUEUED).no_script().flag(Flags::ENDS_TRANSACTION).flag(Flags::FOR_SUBSCRIBERS)),
    (object::randomkey, C::new("randomkey", 1, "1.0.0", "Returns any key.").reads_key().flag(Flags::ANY_KEYS)),
    (cluster::accept_slots, C::new("readonly", 1, "3.0.0", "Accepts reads at replicas; there are none.").connection().fast().loading()),
    (cluster::accept_slots, C::new("readwrite", 1, "3.0.0", "Ends the effect of READONLY, which has none.").connection().fast().loading()),
    (rename::rename, C::new("rename", 3, "1.0.0", "Renames a key, and replaces the key of that name.").writes_key().keys(1, 2, 1).accesses(Access::TAKEN, Access::REPLACED).flag(Flags::REMOVES_FORMER).event("rename_to").removal_event("rename_from")),
    (rename::renamenx, C::new("renamenx", 3, "1.0.0", "Renames a key if the new name is free.").writes_key().fast().keys(1, 2, 1).accesses(Access::TAKEN, Access::CREATED).flag(Flags::REMOVES_FORMER).event("rename_to").removal_event("rename_from")),
    (server::replicaof, C::new("replicaof", 3, "5.0.0", "Ends the copy of a Redis by NO ONE.").server().flag(Flags::ADMIN).no_script().in_part("NO ONE ends the copy that --from has begun")),
    (basic::reset, C::new("reset", 1, "6.2.0", "Resets the connection to its initial state.").connection().fast().loading().flag(Flags::NO_AUTH).flag(Flags::NOT_QUEUED).no_script().flag(Flags::ENDS_TRANSACTION).flag(Flags::FOR_SUBSCRIBERS)),
    (dump::restore, C::new("restore", -4, "2.6.0", "Stores a value that DUMP has serialized.").writes_key().flag(Flags::DENYOOM).flag(Flags::DANGEROUS).one_key().access(Access::REPLACED).flag(Flags::REMOVES_FORMER)),
    (server::role, C::new("role", 1, "2.8.12", "Returns the role: master, without replicas, or slave while a Redis is copied.").server().flag(Flags::ADMIN).fast().loading().no_script()),
    (list::pop::rpop, list::pop::RPOP),
    (list::transfer::rpoplpush, C::new("rpoplpush", 3, "1.2.0", "Takes the last element of a list, and puts it before the first one of another.").writes_list().keys(1, 2, 1).accesses(Access::TAKEN, Access::INSERTED)),
    (list::push::rpush, list::push::RPUSH),
    (list::push::rpushx, C::new("rpushx", -3, "2.2.0", "Puts elements behind the last one of a list that exists.").writes_list().fast().one_key().access(Access::INSERTED).event("rpush")),
    (set::edit::sadd, set::edit::SADD),
    (scan::scan, C::new("scan", -2, "2.8.0", "Iterates over the keys in batches.").reads_key().flag(Flags::ANY_KEYS)),
    (set::read::scard, C::new("scard", 2, "1.0.0", "Returns the number of members.").reads_set().fast().one_key().access(Access::EXAMINED)),
    (script::script, C::new("script", -2, "2.6.0", "Loads, lists and removes scripts.").scripting().no_script().subcommands(&["debug", "exists", "flush", "help", "kill", "load"])),
    (set::combine::sdiff, C::new("sdiff", -2, "1.0.0", "Returns the members of the first set that are in no other.").reads_set().keys(1, -1, 1)),
    (set::combine::sdiffstore, C::new("sdiffstore", -3, "1.0.0", "Stores the members of the first set that are in no other.").writes_set().keys(1, -1, 1).accesses(Access::REPLACED, Access::READ)),
    (basic::select, C::new("select", 2, "1.0.0", "Selects the database.").connection().fast().loading().flag(Flags::SELECTS_DATABASE)),
    (strings_set::set, C::new("set", -3, "1.0.0", "Stores a value.").writes_string().one_key().flag(Flags::SHORT).flag(Flags::MAY_REPLACE)),
    (bits::setbit, C::new("setbit", 4, "2.2.0", "Sets a bit of a string, and returns its former value.").writes_string().bitmap().one_key()),
    (strings_set::setex, C::new("setex", 4, "2.0.0", "Stores a value with a time to live in seconds.").writes_string().one_key().access(Access::REPLACED).event("set")),
    (strings_set::setnx, C::new("setnx", 3, "1.0.0", "Stores a value if the key does not exist.").writes_string().fast().one_key().access(Access::CREATED).event("set")),
    (edit::setrange, C::new("setrange", 4, "2.2.0", "Overwrites part of a value; pads with zero bytes.").writes_string().one_key().access(Access::UPDATED)),
    (set::combine::sinter, C::new("sinter", -2, "1.0.0", "Returns the members that are in all sets.").reads_set().keys(1, -1, 1)),
    (set::combine::sintercard, C::new("sintercard", -3, "7.0.0", "Counts the members that are in all sets.").reads_set().numkeys(1)),
    (set::combine::sinterstore, C::new("sinterstore", -3, "1.0.0", "Stores the members that are in all sets.").writes_set().keys(1, -1, 1).accesses(Access::UPDATED, Access::READ)),
    (set::read::sismember, C::new("sismember", 3, "1.0.0", "Returns whether a set has a member.").reads_set().fast().one_key().access(Access::EXAMINED)),
    (slowlog::slowlog, C::new("slowlog", -2, "2.2.12", "Shows the commands that took long.").server().subcommands(&["get", "help", "len", "reset"]).admin_subcommands(&["get", "len", "reset"])),
    (set::read::smembers, C::new("smembers", 2, "1.0.0", "Returns all members.").reads_set().one_key()),
    (set::read::smismember, C::new("smismember", -3, "6.2.0", "Returns which of these are members.").reads_set().fast().one_key()),
    (set::edit::smove, C::new("smove", 4, "1.0.0", "Moves a member to another set.").updates_set().fast().keys(1, 2, 1).accesses(Access::TAKEN, Access::INSERTED)),
    (sort::sort, C::new("sort", -2, "1.0.0", "Sorts a list, a set or a sorted set, by itself or by other keys.").writes_list().categories_are(&["set", "sortedset", "list"]).one_key().target(sort::target).flag(Flags::ANY_KEYS).flag(Flags::DANGEROUS).flag(Flags::TAKES_MAIL).accesses(Access::READ, Access::REPLACED).event("sortstore")),
    (sort::sort_ro, C::new("sort_ro", -2, "7.0.0", "SORT that does not store.").reads_list().categories_are(&["set", "sortedset", "list"]).one_key().flag(Flags::MOVABLE_KEYS).flag(Flags::ANY_KEYS).flag(Flags::DANGEROUS).flag(Flags::TAKES_MAIL)),
    (set::sample::spop, C::new("spop", -2, "1.0.0", "Takes random members.").updates_set().fast().one_key().access(Access::TAKEN)),
    (pubsub::spublish, C::new("spublish", 3, "7.0.0", "Sends a message to a channel of a shard.").pubsub().channels(Channels::First).fast().loading().one_key().flag(Flags::MAY_WRITE).access(Access::NO_KEY)),
    (set::sample::srandmember, C::new("srandmember", -2, "1.0.0", "Returns random members.").reads_set().one_key()),
    (set::edit::srem, set::edit::SREM),
    (set::read::sscan, C::new("sscan", -3, "2.8.0", "Iterates over the members of a set in batches.").reads_set().one_key()),
    (pubsub::ssubscribe, C::new("ssubscribe", -2, "7.0.0", "Subscribes to channels of shards.").subscribes().channels(Channels::All).loading().keys(1, -1, 1).no_script().access(Access::NO_KEY)),
    (get::strlen, C::new("strlen", 2, "2.2.0", "Returns the length of a value in bytes.").reads_string().fast().one_key().access(Access::EXAMINED)),
    (pubsub::subscribe, C::new("subscribe", -2, "2.0.0", "Subscribes to channels.").subscribes().channels(Channels::All).loading().no_script()),
    (get::getrange, C::new("substr", 4, "1.0.0", "Returns part of a value: the old name of GETRANGE.").reads_string().one_key()),
    (set::combine::sunion, C::new("sunion", -2, "1.0.0", "Returns the members of all sets.").reads_set().keys(1, -1, 1)),
    (set::combine::sunionstore, C::new("sunionstore", -3, "1.0.0", "Stores the members of all sets.").writes_set().keys(1, -1, 1).accesses(Access::REPLACED, Access::READ)),
    (pubsub::sunsubscribe, C::new("sunsubscribe", -1, "7.0.0", "Ends subscriptions of channels of shards.").subscribes().loading().keys(1, -1, 1).no_script().access(Access::NO_KEY)),
    (server::time, C::new("time", 1, "2.6.0", "Returns Unix time in seconds and microseconds.").server().fast().loading()),
    (multi_key::touch, C::new("touch", -2, "3.2.1", "Counts the keys that exist; this counts as a use of them.").reads_key().fast().keys(1, -1, 1).access(Access::EXAMINED)),
    (expire::ttl, C::new("ttl", 2, "1.0.0", "Returns the time to live of a key in seconds.").reads_key().fast().one_key()),
    (key::type_of, C::new("type", 2, "1.0.0", "Returns the type of a value.").reads_key().fast().one_key().access(Access::EXAMINED)),
    (multi_key::del, C::new("unlink", -2, "4.0.0", "Removes keys.").writes_key().fast().keys(1, -1, 1).access(Access::REMOVED)),
    (pubsub::unsubscribe, C::new("unsubscribe", -1, "2.0.0", "Ends subscriptions of channels.").subscribes().loading().no_script()),
    (transaction::unwatch, C::new("unwatch", 1, "2.2.0", "Unwatches all keys.").transaction_queued().fast().loading().no_script()),
    (server::wait, C::new("wait", 3, "3.0.0", "Returns 0: there are no replicas to wait for.").generic().categories_are(&["connection"]).no_script().in_part("returns 0, there are no replicas")),
    (transaction::watch, C::new("watch", -2, "2.2.0", "Makes the next transaction fail if these keys change before it.").transaction().fast().loading().keys(1, -1, 1).no_script().access(Access::EXAMINED)),
    (stream::add::xadd, C::new("xadd", -5, "5.0.0", "Adds an entry to a stream.").writes_stream().fast().one_key().access(Access::UPDATED)),
    (stream::trim::xdel, C::new("xdel", -3, "5.0.0", "Removes entries by their ids.").updates_stream().fast().one_key().access(Access::REDUCED)),
    (stream::info::xinfo, C::new("xinfo", -2, "5.0.0", "Describes a stream.").stream().flag(Flags::ANY_KEYS).access(Access::READ).subcommands(&["help", "stream"]).keyed_subcommands(&["stream"]).in_part("has no consumer groups")),
    (stream::read::xlen, C::new("xlen", 2, "5.0.0", "Returns the number of entries.").reads_stream().fast().one_key().access(Access::EXAMINED)),
    (stream::read::xrange, C::new("xrange", -4, "5.0.0", "Returns the entries with ids in a range.").reads_stream().one_key()),
    (blocking::read::xread, C::new("xread", -4, "5.0.0", "Returns entries behind known ones, and may wait for some.").reads_stream().flag(Flags::BLOCKS).keys_behind("STREAMS")),
    (stream::read::xrevrange, C::new("xrevrange", -4, "5.0.0", "Returns the entries with ids in a range, the last one first.").reads_stream().one_key()),
    (stream::trim::xtrim, stream::trim::XTRIM),
    (zset::add::zadd, C::new("zadd", -4, "1.2.0", "Adds members to a sorted set, or changes their scores.").writes_zset().fast().one_key().access(Access::UPDATED)),
    (zset::read::zcard, C::new("zcard", 2, "1.2.0", "Returns the number of members of a sorted set.").reads_zset().fast().one_key().access(Access::EXAMINED)),
    (zset::read::zcount, C::new("zcount", 4, "2.0.0", "Counts the members with scores in a range.").reads_zset().fast().one_key()),
    (zset::combine::zdiff, C::new("zdiff", -3, "6.2.0", "Returns the members of the first sorted set that are in no other one.").reads_zset().numkeys(1)),
    (zset::combine::zdiffstore, C::new("zdiffstore", -4, "6.2.0", "Stores the members of the first sorted set that are in no other one.").writes_zset().one_key().numkeys(2).accesses(Access::REPLACED, Access::READ)),
    (zset::add::zincrby, zset::add::ZINCRBY),
    (zset::combine::zinter, C::new("zinter", -3, "6.2.0", "Returns the members that are in all sorted sets.").reads_zset().numkeys(1)),
    (zset::combine::zintercard, C::new("zintercard", -3, "7.0.0", "Counts the members that are in all sorted sets.").reads_zset().numkeys(1)),
    (zset::combine::zinterstore, C::new("zinterstore", -4, "2.0.0", "Stores the members that are in all sorted sets.").writes_zset().one_key().numkeys(2).accesses(Access::REPLACED, Access::READ)),
    (zset::read::zlexcount, C::new("zlexcount", 4, "2.8.9", "Counts the members with names in a range.").reads_zset().fast().one_key()),
    (zset::pop::zmpop, C::new("zmpop", -4, "7.0.0", "Removes and returns members of the first sorted set that has any.").updates_zset().numkeys(1).access(Access::TAKEN)),
    (zset::read::zmscore, C::new("zmscore", -3, "6.2.0", "Returns the scores of members.").reads_zset().fast().one_key()),
    (zset::pop::zpopmax, zset::pop::ZPOPMAX),
    (zset::pop::zpopmin, zset::pop::ZPOPMIN),
    (zset::sample::zrandmember, C::new("zrandmember", -2, "6.2.0", "Returns random members of a sorted set.").reads_zset().one_key()),
    (zset::range::zrange, C::new("zrange", -4, "1.2.0", "Returns the members in a range of ranks, scores or names.").reads_zset().one_key()),
    (zset::range::zrangebylex, C::new("zrangebylex", -4, "2.8.9", "Returns the members with names in a range.").reads_zset().one_key()),
    (zset::range::zrangebyscore, C::new("zrangebyscore", -4, "1.0.5", "Returns the members with scores in a range.").reads_zset().one_key()),
    (zset::range::zrangestore, C::new("zrangestore", -5, "6.2.0", "Stores the members in a range of ranks, scores or names.").writes_zset().keys(1, 2, 1).accesses(Access::REPLACED, Access::READ)),
    (zset::read::zrank, C::new("zrank", -3, "2.0.0", "Returns the rank of a member from the lowest score.").reads_zset().fast().one_key()),
    (zset::pop::zrem, C::new("zrem", -3, "1.2.0", "Removes members from a sorted set.").updates_zset().fast().one_key().access(Access::REDUCED)),
    (zset::range::zremrangebylex, C::new("zremrangebylex", 4, "2.8.9", "Removes the members with names in a range.").updates_zset().one_key().access(Access::REDUCED)),
    (zset::range::zremrangebyrank, C::new("zremrangebyrank", 4, "2.0.0", "Removes the members with ranks in a range.").updates_zset().one_key().access(Access::REDUCED)),
    (zset::range::zremrangebyscore, C::new("zremrangebyscore", 4, "1.2.0", "Removes the members with scores in a range.").updates_zset().one_key().access(Access::REDUCED)),
    (zset::range::zrevrange, C::new("zrevrange", -4, "1.2.0", "Returns the members in a range of ranks from the highest score.").reads_zset().one_key()),
    (zset::range::zrevrangebylex, C::new("zrevrangebylex", -4, "2.8.9", "Returns the members with names in a range, the last one first.").reads_zset().one_key()),
    (zset::range::zrevrangebyscore, C::new("zrevrangebyscore", -4, "2.2.0", "Returns the members with scores in a range, the highest one first.").reads_zset().one_key()),
    (zset::read::zrevrank, C::new("zrevrank", -3, "2.0.0", "Returns the rank of a member from the highest score.").reads_zset().fast().one_key()),
    (zset::scan::zscan, C::new("zscan", -3, "2.8.0", "Iterates over the members of a sorted set in batches.").reads_zset().one_key()),
    (zset::read::zscore, C::new("zscore", 3, "1.2.0", "Returns the score of a member.").reads_zset().fast().one_key()),
    (zset::combine::zunion, C::new("zunion", -3, "6.2.0", "Returns the members that are in any of the sorted sets.").reads_zset().numkeys(1)),
    (zset::combine::zunionstore, C::new("zunionstore", -4, "2.0.0", "Stores the members that are in any of the sorted sets.").writes_zset().one_key().numkeys(2).accesses(Access::REPLACED, Access::READ)),
];

/// The descriptions of all commands, sorted by name.
pub(super) static SPECS: [CommandSpec; COUNT] = specs();

/// All commands, sorted by name.
pub(super) static TABLE: [Command; COUNT] = table();

const fn specs() -> [CommandSpec; COUNT] {
    let mut specs = [ROWS[0].1; COUNT];
    let mut index = 0;
    while index < COUNT {
        specs[index] = ROWS[index].1;
        specs[index].index = index as u8;
        index += 1;
    }
    specs
}

const fn table() -> [Command; COUNT] {
    let mut table = [(&SPECS[0], ROWS[0].0); COUNT];
    let mut index = 0;
    while index < COUNT {
        table[index] = (&SPECS[index], ROWS[index].0);
        index += 1;
    }
    table
}

/// A command with its function.
pub(super) fn command(spec: &CommandSpec) -> &'static Command {
    &TABLE[usize::from(spec.index)]
}

/// Slots of the index: a power of two, several times the number of commands.
const SLOTS: usize = 512;
/// A slot without a command.
const EMPTY: u8 = u8::MAX;

/// An open-addressed index of the table by folded name, computed at compile time.
static INDEX: [u8; SLOTS] = index();

/// The command with this name, in upper or lower case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let folded = fold(name)?;
    let mut slot = slot(folded);
    loop {
        let index = INDEX[slot];
        if index == EMPTY {
            return None;
        }
        let index = usize::from(index);
        if name.len() <= 8 && EXACT[index] == folded {
            return Some(&TABLE[index]);
        }
        // Folding maps some other bytes to those of names too, so the name must be compared.
        if SPECS[index].name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(&TABLE[index]);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// For each command the folded name, if no other name of at most eight bytes has the same one: only letters fold to
/// letters. Otherwise 0.
static EXACT: [u64; COUNT] = exact();

const fn exact() -> [u64; COUNT] {
    let mut exact = [0; COUNT];
    let mut index = 0;
    while index < COUNT {
        let name = ROWS[index].1.name.as_bytes();
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
    while index < COUNT {
        let Some(folded) = fold(ROWS[index].1.name.as_bytes()) else {
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
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found_in_any_case() {
        let find = |name: &[u8]| find(name).map(|(spec, _)| usize::from(spec.index));
        assert!(SPECS.is_sorted_by(|a, b| a.name < b.name));
        for (index, spec) in SPECS.iter().enumerate() {
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
            assert!(find(name).is_none(), "{}", name.escape_ascii());
        }
        // 0x07 folds to 0x27 and not to 'g'.
        assert!(find(b"\x07et").is_none());
    }
}
