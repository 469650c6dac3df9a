//! The text of `INFO`: sections of `field:value` lines, with the fields that clients and frameworks read.

use std::fmt::Write;

use larder_engine::stats::{Counter, PartitionStats};
use larder_resp::Args;

use crate::db::DATABASE_COUNT;
use crate::state::{CopyState, ServerState};
use crate::system;
use crate::values::large;

/// The reported version of Redis. Clients check it before they use a command.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

type Section = (&'static str, fn(&ServerState, &Counters, &mut String) -> std::fmt::Result);

/// The counters of the keyspace.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) engine: larder_engine::Stats,
    /// Those of each database.
    pub(crate) databases: [PartitionStats; DATABASE_COUNT],
}

const SECTIONS: [Section; 13] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory_section),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Modules", |_, _, _| Ok(())),
    ("Commandstats", commandstats),
    ("Errorstats", errorstats),
    ("Latencystats", latencystats),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

/// Whether a request is answered with the counters of the keyspace.
pub(crate) fn counts_keys(args: Args<'_>) -> bool {
    shows_counters(args.skip(1))
}

/// Whether a requested section shows the counters of the keyspace: counting all shards takes longer than the rest.
fn shows_counters(requested: Args<'_>) -> bool {
    is_requested("Stats", requested) || is_requested("Keyspace", requested)
}

/// The text of the requested sections; of the default ones if none is requested.
pub(crate) fn text(state: &ServerState, counters: &Counters, requested: Args<'_>) -> String {
    let mut text = String::new();
    for (name, write) in SECTIONS.into_iter().filter(|(name, _)| is_requested(name, requested)) {
        let separator = if text.is_empty() { "" } else { "\r\n" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}# {name}\r\n");
        let _ = write(state, counters, &mut text);
    }
    text
}

/// Whether a section is in the text if none is requested: those with a line for each command are long.
fn is_default(section: &str) -> bool {
    !["Commandstats", "Latencystats"].contains(&section)
}

fn is_requested(name: &str, requested: Args<'_>) -> bool {
    requested.is_empty() && is_default(name)
        || requested.iter().any(|word| {
            let words = [name, "all", "everything"];
            words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
                || word.eq_ignore_ascii_case(b"default") && is_default(name)
        })
}

fn server(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    let uptime = state.stats.started.elapsed().as_secs();
    write!(
        out,
        "redis_version:{REDIS_VERSION}\r\nserver_name:larder\r\nlarder_version:{}\r\nredis_mode:{}\r\n\
         redis_git_sha1:00000000\r\nredis_git_dirty:0\r\nredis_build_id:0\r\nos:{} {}\r\narch_bits:{}\r\nmultiplexing_api:epoll\r\nprocess_id:{}\r\nrun_id:{}\r\n\
         tcp_port:{}\r\n\
         server_time_usec:{}\r\nuptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\nio_threads_active:0\r\n",
        env!("CARGO_PKG_VERSION"),
        state.config.mode(),
        std::env::consts::OS,
        std::env::consts::ARCH,
        usize::BITS,
        std::process::id(),
        state.run_id,
        state.port,
        state.store.unix_time().as_micros(),
        uptime / 86_400,
    )
}

fn clients(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    write!(
        out,
        "connected_clients:{}\r\ncluster_connections:0\r\nmaxclients:{}\r\nblocked_clients:{}\r\n\
         tracking_clients:{}\r\nclients_in_timeout_table:0\r\n",
        state.stats.connections(),
        state.max_clients(),
        state.stats.paused() + state.store.observers.waiting.count() as u64,
        state.store.observers.tracking.clients(),
    )
}

/// The memory of the process by that which it would need without gaps between entries; 1 without keys.
pub(super) fn fragmentation_ratio(state: &ServerState, rss: u64) -> f64 {
    let needed = rss.saturating_sub(state.store.resident_memory()) + state.store.used_memory();
    rss as f64 / needed.max(1) as f64
}

fn memory_section(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    let (used, charged) = (state.store.used_memory(), state.store.charged_memory());
    let rss = system::resident_bytes().unwrap_or(0);
    let (scripts, script_bytes) = state.script_counts();
    let peak = state.stats.record_memory(used);
    write!(
        out,
        "used_memory:{used}\r\nused_memory_startup:0\r\nused_memory_human:{}\r\nused_memory_rss:{rss}\r\nused_memory_overhead:{}\r\n\
         used_memory_dataset:{charged}\r\nused_memory_dataset_perc:{:.2}%\r\nlarder_keyspace_resident:{}\r\nmem_fragmentation_ratio:{:.2}\r\n\
         mem_fragmentation_bytes:{}\r\nnumber_of_functions:0\r\nnumber_of_libraries:0\r\n\
         used_memory_functions:0\r\n\
         number_of_cached_scripts:{scripts}\r\nused_memory_scripts:{script_bytes}\r\n\
         mem_clients_normal:{}\r\nmem_clients_slaves:0\r\nmem_cluster_links:0\r\n\
         mem_not_counted_for_evict:0\r\nmem_total_replication_buffers:0\r\nactive_defrag_running:0\r\n\
         total_system_memory:{}\r\nmaxmemory:{}\r\nmaxmemory_human:{}\r\n\
         maxmemory_policy:{}\r\nused_memory_peak:{peak}\r\nused_memory_peak_human:{}\r\n\
         used_memory_peak_perc:{:.2}%\r\nused_memory_rss_human:{}\r\nmem_allocator:mimalloc\r\n\
         lazyfree_pending_objects:{}\r\nmem_replication_backlog:0\r\nmem_aof_buffer:0\r\n",
        human(used),
        used.saturating_sub(charged),
        100.0 * charged as f64 / used.max(1) as f64,
        state.store.resident_memory(),
        fragmentation_ratio(state, rss),
        rss as i64 - used as i64,
        state.clients.buffered_bytes(),
        system::total_bytes().unwrap_or(0),
        state.store.max_memory(),
        human(state.store.max_memory()),
        state.store.policy(),
        human(peak),
        100.0 * used as f64 / peak.max(1) as f64,
        human(rss),
        large::pending(),
    )
}

/// Nothing is ever saved; exporters read the fields of Redis all the same.
fn persistence(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    let started = state.store.unix_time().saturating_sub(state.stats.started.elapsed());
    write!(
        out,
        "loading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0\r\n\
         rdb_last_save_time:{}\r\nrdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\n\
         rdb_current_bgsave_time_sec:-1\r\nrdb_saves:0\r\nrdb_last_cow_size:0\r\naof_enabled:0\r\n\
         aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n\
         aof_current_rewrite_time_sec:-1\r\naof_last_bgrewrite_status:ok\r\naof_last_write_status:ok\r\n\
         aof_last_cow_size:0\r\nmodule_fork_in_progress:0\r\nmodule_fork_last_cow_size:0\r\n\
         current_cow_peak:0\r\ncurrent_cow_size:0\r\ncurrent_fork_perc:0.00\r\n\
         current_save_keys_processed:0\r\ncurrent_save_keys_total:0\r\nrdb_last_load_keys_expired:0\r\n\
         rdb_last_load_keys_loaded:0\r\nsnapshot_keys_to_load:{}\r\n",
        started.as_secs(),
        state.store.loading().map_or(0, |loading| loading.left()),
    )
}

fn stats(state: &ServerState, counters: &Counters, out: &mut String) -> std::fmt::Result {
    let totals = state.stats.since_reset(&counters.engine);
    let (counts, rates) = (totals.counts, state.stats.rates());
    let observers = &state.store.observers;
    let [channels, patterns, shard_channels] = observers.channels.counts();
    let [keys, items, prefixes] = observers.tracking.counts();
    let [auth, command, key, channel] = state.users.denied.each_ref().map(Counter::get);
    write!(
        out,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ntotal_error_replies:{}\r\n\
         total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\ninstantaneous_ops_per_sec:{}\r\n\
         instantaneous_input_kbps:{:.2}\r\ninstantaneous_output_kbps:{:.2}\r\nevicted_clients:0\r\n\
         latest_fork_usec:0\r\ntotal_net_repl_input_bytes:0\r\ntotal_net_repl_output_bytes:0\r\n\
         expired_time_cap_reached_count:0\r\ntotal_eviction_exceeded_time:0\r\n\
         current_eviction_exceeded_time:0\r\nmigrate_cached_sockets:0\r\nslave_expires_tracked_keys:0\r\n\
         active_defrag_hits:0\r\nactive_defrag_misses:0\r\nactive_defrag_key_hits:0\r\n\
         active_defrag_key_misses:0\r\nunexpected_error_replies:0\r\nio_threaded_reads_processed:0\r\n\
         io_threaded_writes_processed:0\r\ntotal_forks:0\r\nsync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0\r\n\
         rejected_connections:{}\r\nexpired_keys:{}\r\n\
         evicted_keys:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\n\
         client_output_buffer_limit_disconnections:{}\r\n\
         pubsub_channels:{}\r\npubsub_patterns:{}\r\npubsubshard_channels:{}\r\n\
         tracking_total_keys:{}\r\ntracking_total_items:{}\r\ntracking_total_prefixes:{}\r\n\
         acl_access_denied_auth:{}\r\nacl_access_denied_cmd:{}\r\nacl_access_denied_key:{}\r\n\
         acl_access_denied_channel:{}\r\n",
        totals.accepted,
        counts.commands,
        counts.errors,
        counts.bytes_in,
        counts.bytes_out,
        rates.commands.round(),
        rates.bytes_in / 1024.0,
        rates.bytes_out / 1024.0,
        totals.rejected,
        totals.expired,
        totals.evicted,
        counts.hits,
        counts.misses,
        state.clients.closed_for_output.get(),
        channels,
        patterns,
        shard_channels,
        keys,
        items,
        prefixes,
        auth,
        command,
        key,
        channel,
    )
}

fn replication(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    match state.copied_source() {
        None => out.push_str("role:master\r\n"),
        Some(source) => {
            let copy = state.copying.state();
            let link = if copy == CopyState::Connecting { "down" } else { "up" };
            write!(
                out,
                "role:slave\r\nmaster_host:{}\r\nmaster_port:{}\r\nmaster_link_status:{link}\r\n\
                 master_sync_in_progress:{}\r\nslave_read_only:1\r\n",
                source.host,
                source.port,
                u8::from(copy == CopyState::Copying),
            )?;
        }
    }
    write!(
        out,
        "connected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:{}\r\n\
         master_replid2:{:040}\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0\r\n\
         repl_backlog_size:0\r\nrepl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n",
        state.run_id, 0,
    )
}

fn cpu(_: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    let (user, system) = system::cpu_seconds().unwrap_or_default();
    write!(
        out,
        "used_cpu_sys:{system:.6}\r\nused_cpu_user:{user:.6}\r\nused_cpu_sys_children:0.000000\r\n\
         used_cpu_user_children:0.000000\r\n"
    )
}

fn errorstats(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    state
        .stats
        .errors()
        .into_iter()
        .try_for_each(|(prefix, count)| write!(out, "errorstat_{prefix}:count={count}\r\n"))
}

fn commandstats(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    let totals = state.stats.commands();
    state.stats.specs.iter().zip(&totals).filter(|(_, totals)| totals.is_used()).try_for_each(|(spec, totals)| {
        let per_call = totals.micros_per_call();
        write!(
            out,
            "cmdstat_{}:calls={},usec={:.0},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}\r\n",
            spec.name,
            totals.calls,
            per_call * totals.calls as f64,
            totals.rejected,
            totals.failed,
        )
    })
}

fn latencystats(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    let command_stats = &state.stats.command_stats;
    if !command_stats.is_tracking() {
        return Ok(());
    }
    let percentiles = command_stats.percentiles();
    for (spec, totals) in state.stats.specs.iter().zip(state.stats.commands()) {
        let times = percentiles.iter().filter_map(|percentage| {
            let micros = totals.percentile(*percentage)?.as_secs_f64() * 1e6;
            Some(format!("p{percentage}={micros:.3}"))
        });
        let times: Vec<String> = times.collect();
        if !times.is_empty() {
            write!(out, "latency_percentiles_usec_{}:{}\r\n", spec.name, times.join(","))?;
        }
    }
    Ok(())
}

fn cluster(state: &ServerState, _: &Counters, out: &mut String) -> std::fmt::Result {
    write!(out, "cluster_enabled:{}\r\n", u8::from(state.config.cluster_mode))
}

fn keyspace(_: &ServerState, counters: &Counters, out: &mut String) -> std::fmt::Result {
    for (index, PartitionStats { entries, with_deadline, .. }) in counters.databases.iter().enumerate() {
        if *entries > 0 {
            write!(out, "db{index}:keys={entries},expires={with_deadline},avg_ttl=0\r\n")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use larder_resp::{Limits, RequestParser};

    /// A client reads `INFO server` when it connects, and a walk through all shards takes 200 ms in a large keyspace.
    #[test]
    fn keyspace_is_counted_for_sections_that_show_it() {
        for (request, expected) in [
            ("INFO", true),
            ("INFO all", true),
            ("INFO Keyspace", true),
            ("INFO server stats", true),
            ("INFO server", false),
            ("INFO memory clients", false),
        ] {
            let (mut parser, line) = (RequestParser::new(), format!("{request}\r\n"));
            parser.parse(line.as_bytes(), &Limits::default()).expect("a request");
            let args = parser.args(line.as_bytes()).skip(1);
            assert_eq!(shows_counters(args), expected, "{request}");
        }
    }
}
