//! The check of all outcomes: every case must work.

use super::program::Outcome;

/// The case in which the server restarts. Each client has it.
const RESTART: &str = "restart";

/// Cases that their clients refuse with Redis 7.0.
const NEED_REDIS_7_4: &[(&str, &str)] =
    &[("redis-py", "client-side cache"), ("redis-py", "restart with cache"), ("Jedis", "client-side cache")];

/// The faults of the cases of these clients, one line each. A real Redis must pass all cases.
pub(super) fn faults(clients: &[&str], outcomes: &[Outcome], is_larder: bool) -> Vec<String> {
    let is_relevant = |outcome: &&Outcome| is_larder || !needs_newer_redis(outcome);
    let mut faults: Vec<String> = outcomes.iter().filter(is_relevant).filter_map(fault).collect();
    for client in clients {
        if !outcomes.iter().any(|outcome| outcome.client == *client && outcome.case == RESTART) {
            faults.push(format!("{client}: {RESTART}: has not run"));
        }
    }
    let is_unknown = |outcome: &&Outcome| !clients.contains(&outcome.client.as_str());
    let unknown = outcomes.iter().filter(is_unknown);
    faults.extend(unknown.map(|outcome| format!("{}: is not in the list of clients", outcome.client)));
    faults
}

fn fault(outcome: &Outcome) -> Option<String> {
    let Outcome { client, case, protocol, error, .. } = outcome;
    let error = error.as_ref()?;
    let protocol = protocol.map(|version| format!(", RESP{version}")).unwrap_or_default();
    Some(format!("{client}{protocol}: {case}: {error}"))
}

fn needs_newer_redis(outcome: &Outcome) -> bool {
    NEED_REDIS_7_4.contains(&(&*outcome.client, &*outcome.case))
}
