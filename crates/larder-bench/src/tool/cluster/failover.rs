//! A cluster whose primaries have a replica each, and how that takes over.

use super::{Cluster, id_of, until};
use anyhow::{Context, Result};
use larder_process::Running;
use std::path::Path;

/// A server is down after a second without a reply, and replicas wait neither for others nor for their disk.
const OPTIONS: [&str; 4] = ["--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"];

impl Cluster {
    /// Primaries with a replica each, all in sync.
    pub(crate) fn start_with_replicas(program: &Path, primaries: usize) -> Result<Self> {
        let cluster = Self::start_servers(program, 2 * primaries, primaries, &OPTIONS)?;
        // A replica must know its primary.
        cluster.await_ok()?;
        for primary in 0..primaries {
            let [primary, replica] =
                [primary, cluster.replica_of(primary)].map(|number| &cluster.servers[number].0);
            let id = id_of(primary)?;
            until("the replica knows its primary", || {
                Ok(replica.command(&format!("CLUSTER REPLICATE {id}"))? == "+OK\r\n")
            })?;
        }
        // The others elect a replica if they know whose it is.
        for server in cluster.servers() {
            until("all servers know the replicas", || {
                let lines = server.command("CLUSTER NODES")?;
                Ok(lines.lines().filter(|line| line.contains("slave")).count() == primaries)
            })?;
        }
        (0..primaries).try_for_each(|primary| cluster.await_replication(primary))?;
        Ok(cluster)
    }

    /// The number of the replica that a primary has when the cluster starts.
    fn replica_of(&self, primary: usize) -> usize {
        self.primaries + primary
    }

    /// Waits until the replica of a primary has executed what that has executed now.
    pub(crate) fn await_replication(&self, primary: usize) -> Result<()> {
        let offset = |server: usize, field: &str| {
            let info = self.servers[server].0.command("INFO replication")?;
            let value = info.lines().find_map(|line| line.strip_prefix(field));
            anyhow::Ok(value.and_then(|offset| offset.parse::<u64>().ok()))
        };
        let executed = offset(primary, "master_repl_offset:")?.context("a primary has an offset")?;
        until("the replica has what its primary has", || {
            Ok(offset(self.replica_of(primary), "slave_repl_offset:")? >= Some(executed))
        })
    }

    /// Cuts a primary off from its replica, which stands still until [`Cluster::kill`]: what the primary executes from now on
    /// is lost when it is killed.
    pub(crate) fn stop_replication(&self, primary: usize) -> Result<()> {
        self.process_of(self.replica_of(primary))?.pause();
        // Otherwise the replica would find the rest in its socket.
        self.servers[primary].0.command("CLIENT KILL TYPE replica")?;
        Ok(())
    }

    /// Kills a primary, and lets its replica run.
    pub(crate) fn kill(&mut self, primary: usize) -> Result<()> {
        self.servers[primary].0.kill();
        self.process_of(self.replica_of(primary))?.resume();
        Ok(())
    }

    /// Waits until the replica of a killed primary has taken over and all say that the cluster works: some two seconds.
    pub(crate) fn await_takeover(&self, killed: usize) -> Result<()> {
        let replica = &self.servers[self.replica_of(killed)].0;
        until("a replica takes over", || Ok(replica.command("INFO replication")?.contains("role:master")))?;
        let id = id_of(replica)?;
        for server in self.servers().filter(|server| server.process().is_some()) {
            until("all servers know that it took over", || {
                let lines = server.command("CLUSTER NODES")?;
                let is_primary = |line: &str| line.starts_with(&id) && line.contains("master");
                let knows = lines.lines().any(is_primary);
                Ok(knows && server.command("CLUSTER INFO")?.contains("cluster_state:ok"))
            })?;
        }
        Ok(())
    }

    fn process_of(&self, server: usize) -> Result<&Running> {
        self.servers[server].0.process().context("the server runs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of the key at the server that owns it after a failover.
    fn value_after_failover(is_replicated: bool) -> Option<String> {
        let program = larder_testkit::program("redis-server")?;
        let mut cluster = Cluster::start_with_replicas(&program, 3).unwrap();
        let key = "a key";
        let owner = cluster.owner_of(key.as_bytes()).unwrap();
        let send =
            |cluster: &Cluster, server: usize, line: &str| cluster.servers[server].0.command(line).unwrap();
        assert_eq!(send(&cluster, owner, "SET \"a key\" old"), "+OK\r\n");
        cluster.await_replication(owner).unwrap();
        if !is_replicated {
            cluster.stop_replication(owner).unwrap();
        }
        assert_eq!(send(&cluster, owner, "SET \"a key\" new"), "+OK\r\n");
        if is_replicated {
            cluster.await_replication(owner).unwrap();
        }
        cluster.kill(owner).unwrap();
        cluster.await_takeover(owner).unwrap();
        Some(send(&cluster, owner + 3, "GET \"a key\""))
    }

    #[test]
    fn replica_takes_over_with_what_was_replicated() {
        assert!(value_after_failover(true).is_none_or(|value| value == "$3\r\nnew\r\n"));
    }

    #[test]
    fn replica_takes_over_without_what_came_after_the_stop() {
        assert!(value_after_failover(false).is_none_or(|value| value == "$3\r\nold\r\n"));
    }
}
