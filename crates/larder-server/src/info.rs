//! The text of `INFO`: sections of `field:value` lines, with the fields that clients and frameworks look at.

use std::fmt::Write;

use larder_resp::Args;

use crate::db::DATABASES;
use crate::shared::Shared;
use crate::system;

/// The version of Redis that clients may take this server for: what they test before they use a command.
pub(crate) const REDIS_VERSION: &str = "7.4.0";
/// The eviction policy, in Redis' words.
pub(crate) const POLICY: &str = "allkeys-lfu";

type Section = (&'static str, fn(&Shared, &mut String) -> std::fmt::Result);

const SECTIONS: [Section; 9] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory_section),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

/// The sections asked for, all of them if none is.
pub(crate) fn text(shared: &Shared, wanted: Args<'_>) -> String {
    let is_wanted = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|word| {
                let words = [name, "all", "default", "everything"];
                words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
            })
    };
    let mut text = String::new();
    for (name, write) in SECTIONS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{gap}# {name}\r\n");
        let _ = write(shared, &mut text);
    }
    text
}

fn server(shared: &Shared, out: &mut String) -> std::fmt::Result {
    let uptime = shared.stats.started.elapsed().as_secs();
    write!(
        out,
        "redis_version:{REDIS_VERSION}\r\nserver_name:larder\r\nlarder_version:{}\r\nredis_mode:standalone\r\n\
         os:{} {}\r\narch_bits:{}\r\nmultiplexing_api:epoll\r\nprocess_id:{}\r\nrun_id:{}\r\n\
         tcp_port:{}\r\n\
         server_time_usec:{}\r\nuptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\nio_threads_active:0\r\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        usize::BITS,
        std::process::id(),
        shared.run_id,
        shared.port,
        crate::db::unix_time().as_micros(),
        uptime / 86_400,
    )
}

fn clients(shared: &Shared, out: &mut String) -> std::fmt::Result {
    write!(
        out,
        "connected_clients:{}\r\ncluster_connections:0\r\nmaxclients:{}\r\nblocked_clients:0\r\n",
        shared.stats.connections(),
        shared.max_clients(),
    )
}

fn memory_section(shared: &Shared, out: &mut String) -> std::fmt::Result {
    let used = shared.store.used_memory();
    write!(
        out,
        "used_memory:{used}\r\nused_memory_human:{}\r\nused_memory_rss:{}\r\nused_memory_dataset:{used}\r\n\
         mem_clients_normal:{}\r\ntotal_system_memory:{}\r\nmaxmemory:{}\r\nmaxmemory_human:{}\r\n\
         maxmemory_policy:{POLICY}\r\n",
        human(used),
        system::resident_bytes().unwrap_or(0),
        shared.clients.buffered_bytes(),
        system::total_bytes().unwrap_or(0),
        shared.store.max_memory(),
        human(shared.store.max_memory()),
    )
}

fn persistence(_: &Shared, out: &mut String) -> std::fmt::Result {
    out.write_str("loading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n")
}

fn stats(shared: &Shared, out: &mut String) -> std::fmt::Result {
    let totals = shared.stats.since_reset(&shared.store);
    let tally = totals.tally;
    write!(
        out,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ntotal_error_replies:{}\r\n\
         total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\nrejected_connections:{}\r\nexpired_keys:{}\r\n\
         evicted_keys:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\n",
        totals.accepted,
        tally.commands,
        tally.errors,
        tally.bytes_in,
        tally.bytes_out,
        totals.rejected,
        totals.expired,
        totals.evicted,
        tally.hits,
        tally.misses,
    )
}

fn replication(_: &Shared, out: &mut String) -> std::fmt::Result {
    out.write_str("role:master\r\nconnected_slaves:0\r\nmaster_repl_offset:0\r\n")
}

fn cpu(_: &Shared, out: &mut String) -> std::fmt::Result {
    let (user, system) = system::cpu_seconds().unwrap_or_default();
    write!(out, "used_cpu_sys:{system:.6}\r\nused_cpu_user:{user:.6}\r\n")
}

fn cluster(_: &Shared, out: &mut String) -> std::fmt::Result {
    out.write_str("cluster_enabled:0\r\n")
}

fn keyspace(shared: &Shared, out: &mut String) -> std::fmt::Result {
    for index in 0..DATABASES {
        let keys = shared.store.database(index as u8).len();
        if keys > 0 {
            write!(out, "db{index}:keys={keys},expires=0,avg_ttl=0\r\n")?;
        }
    }
    Ok(())
}

fn human(bytes: u64) -> String {
    let units = [(1u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}
