//! What commands do with their keys, in the words of Redis: clients and proxies read it in `COMMAND INFO` and `COMMAND
//! GETKEYSANDFLAGS`.

use larder_resp::Args;

use crate::spec::{CommandSpec, Flags};

/// Flags of a key: whether its value is read (`RO`), changed (`RW`), replaced (`OW`) or removed (`RM`), and for what.
pub(crate) type Access = &'static [&'static str];

const READ: Access = &["RO", "access"];
const EXAMINED: Access = &["RO"];
const UPDATED: Access = &["RW", "update"];
const READ_AND_UPDATED: Access = &["RW", "access", "update"];
const INSERTED: Access = &["RW", "insert"];
const REPLACED: Access = &["OW", "update"];
const CREATED: Access = &["OW", "insert"];
const TAKEN: Access = &["RW", "access", "delete"];

/// What a command does with the key at `index` of its keys. Without a request it is the most that it may do.
pub(crate) fn key_access(spec: &CommandSpec, index: usize, request: Option<Args<'_>>) -> Access {
    let is_first = index == 0;
    match spec.name {
        "append" | "pfadd" => INSERTED,
        "bitop" | "zdiffstore" | "zinterstore" | "zrangestore" | "zunionstore" if is_first => REPLACED,
        "bitop" | "zdiffstore" | "zinterstore" | "zrangestore" | "zunionstore" => READ,
        "copy" if is_first => READ,
        "mset" | "psetex" | "restore" | "setex" | "copy" => REPLACED,
        "rename" | "renamenx" if is_first => TAKEN,
        "rename" => REPLACED,
        "msetnx" | "setnx" | "renamenx" => CREATED,
        "pfmerge" if is_first => &["RW", "access", "insert"],
        "pfmerge" => READ,
        "pfcount" => &["RW", "access"],
        "del" | "unlink" => &["RM", "delete"],
        "getdel" | "zmpop" | "zpopmax" | "zpopmin" => TAKEN,
        "delifeq" | "zrem" | "zremrangebylex" | "zremrangebyrank" | "zremrangebyscore" => &["RW", "delete"],
        "expire" | "expireat" | "persist" | "pexpire" | "pexpireat" | "setrange" | "zadd" => UPDATED,
        "spublish" | "ssubscribe" | "sunsubscribe" => &["not_key"],
        "exists" | "strlen" | "touch" | "type" | "watch" | "zcard" | "object" | "memory" => EXAMINED,
        "set" if request.is_some_and(|request| !reads_former(request)) => REPLACED,
        _ if spec.flags.contains(Flags::READONLY) => READ,
        _ => READ_AND_UPDATED,
    }
}

/// Whether a `SET` returns or compares the former value.
fn reads_former(request: Args<'_>) -> bool {
    let options = request.skip(3.min(request.len()));
    options.iter().any(|option| [&b"GET"[..], b"IFEQ"].iter().any(|name| option.eq_ignore_ascii_case(name)))
}
