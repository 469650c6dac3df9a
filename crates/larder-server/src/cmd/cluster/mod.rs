//! Cluster mode: the server as the only node of a cluster, for clients that work with clusters only.
//!
//! The node owns all slots, and answers what such clients ask. It refuses no request because of slots: keys of several may be in
//! one request. Without the option `cluster_mode` the commands reply as a Redis without cluster support, because other clients
//! ask whether there is a cluster.

mod slot;
mod walk;

use std::net::SocketAddr;

use larder_resp::Args;

use self::slot::{SLOT_COUNT, slot_of};
use crate::cmd::help::help;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};

/// Executes a subcommand.
type Run = fn(&mut Context<'_>, Args<'_>) -> Outcome;

/// The subcommands, each with the number of arguments of its request.
const SUBCOMMANDS: [(&str, usize, Run); 10] = [
    ("countkeysinslot", 3, count_keys),
    ("getkeysinslot", 4, list_keys),
    ("help", 2, list_subcommands),
    ("info", 2, info),
    ("keyslot", 3, |cx, args| cx.integer(i64::from(slot_of(&args[2])))),
    ("myid", 2, reply_id),
    ("myshardid", 2, reply_id),
    ("nodes", 2, nodes),
    ("shards", 2, shards),
    ("slots", 2, slots),
];

/// The last slot.
const LAST_SLOT: i64 = SLOT_COUNT as i64 - 1;

pub(crate) fn cluster(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let known = SUBCOMMANDS.iter().find(|(name, ..)| args[1].eq_ignore_ascii_case(name.as_bytes()));
    let (name, arguments, run) =
        known.ok_or_else(|| CommandError::unknown_subcommand(&args[1], "CLUSTER"))?;
    if args.len() != *arguments {
        let text = format!("wrong number of arguments for 'cluster|{name}' command");
        return Err(CommandError::Other(text));
    }
    require_cluster_mode(cx)?;
    run(cx, args)
}

/// `ASKING`, `READONLY` and `READWRITE` choose of which slots a node accepts requests. This one accepts those of all.
pub(crate) fn accept_slots(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    require_cluster_mode(cx)?;
    cx.ok()
}

fn require_cluster_mode(cx: &Context<'_>) -> Outcome {
    match cx.state.config.cluster_mode {
        true => Ok(()),
        false => Err(CommandError::Fixed("ERR This instance has cluster support disabled")),
    }
}

fn list_subcommands(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    help(
        cx,
        "CLUSTER",
        &[
            ("COUNTKEYSINSLOT <slot>", "The number of keys in a slot. Visits all keys."),
            ("GETKEYSINSLOT <slot> <count>", "Names of keys in a slot. May visit all keys."),
            ("INFO", "The state of the cluster as text."),
            ("KEYSLOT <key>", "The slot of a key."),
            ("MYID", "The id of this node."),
            ("MYSHARDID", "The id of its shard: the same."),
            ("NODES", "The nodes as text: this one."),
            ("SHARDS", "The shards with their slots and nodes: one of all slots, with this node."),
            ("SLOTS", "The ranges of slots with their nodes: one of all slots, with this node."),
        ],
    )
}

fn count_keys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let slot = slot_number(integer(&args[2])?);
    walk::count(cx, slot.ok_or(CommandError::Fixed("ERR Invalid slot"))?)
}

fn list_keys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let slot = slot_number(integer(&args[2])?);
    let limit = usize::try_from(integer(&args[3])?).ok();
    let (slot, limit) = slot.zip(limit).ok_or(CommandError::Fixed("ERR Invalid slot or number of keys"))?;
    walk::list(cx, slot, limit)
}

fn slot_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOT_COUNT)
}

fn info(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let text = format!(
        "cluster_state:ok\r\ncluster_slots_assigned:{SLOT_COUNT}\r\ncluster_slots_ok:{SLOT_COUNT}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n\
         cluster_current_epoch:0\r\ncluster_my_epoch:0\r\ncluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
    );
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn reply_id(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let id = id(cx);
    cx.reply().bulk(id.as_bytes());
    Ok(())
}

fn nodes(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let (ip, port) = address(cx);
    // There is no port for messages between nodes.
    let text = format!("{} {ip}:{port}@0 myself,master - 0 0 0 connected 0-{LAST_SLOT}\n", id(cx));
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn slots(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let (id, (ip, port)) = (id(cx), address(cx));
    let mut reply = cx.reply();
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    reply.array(4);
    reply.bulk(ip.as_bytes());
    reply.integer(i64::from(port));
    reply.bulk(id.as_bytes());
    // It has no other addresses.
    reply.map(0);
    Ok(())
}

fn shards(cx: &mut Context<'_>, _: Args<'_>) -> Outcome {
    let (id, (ip, port)) = (id(cx), address(cx));
    let mut reply = cx.reply();
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.integer(i64::from(port));
    for (field, value) in [("ip", &*ip), ("endpoint", &*ip), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
    Ok(())
}

/// The id of the node and of its shard: 40 hexadecimal digits.
fn id<'a>(cx: &Context<'a>) -> &'a str {
    &cx.state.run_id
}

/// Where clients reach the node: the address that this one has connected to. One of a Unix socket gets the TCP port with an
/// empty address, which clients replace by the one that they use.
fn address(cx: &Context<'_>) -> (String, u16) {
    match cx.session.client.local_address().parse::<SocketAddr>() {
        Ok(address) => (address.ip().to_canonical().to_string(), address.port()),
        Err(_) => (String::new(), cx.state.port),
    }
}
