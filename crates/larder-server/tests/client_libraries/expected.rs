//! What the cases need that this server does not have, and the check of all outcomes. A case that works although it is
//! listed here is a fault too.

use super::program::Outcome;

/// Milliseconds after which a case that needs another type must have failed: nobody waits for what will never come.
const QUICK_MS: u64 = 6_000;

/// The case in which the server restarts. Each client has it.
const RESTART: &str = "restart";

/// Cases that need lists or sets: client, case, and what it needs.
const NEED_TYPES: &[(&str, &str, &str)] = &[
    ("redis-py", "lists", "lists"),
    ("redis-py", "sets", "sets"),
    ("Flask-Limiter", "moving-window", "lists"),
    ("Celery", "chord", "sets"),
    ("ioredis", "lists", "lists"),
    ("Jedis", "lists", "lists"),
    ("Predis", "lists", "lists"),
    ("redis-rb", "sets", "sets"),
];

/// Cases that their clients refuse with Redis 7.0.
const NEED_REDIS_7_4: &[(&str, &str)] =
    &[("redis-py", "client-side cache"), ("redis-py", "restart with cache"), ("Jedis", "client-side cache")];

/// The faults of the cases of these clients, one line each. A real Redis must pass all cases.
pub(super) fn faults(clients: &[&str], outcomes: &[Outcome], is_larder: bool) -> Vec<String> {
    let missing = |outcome: &Outcome| missing_for(outcome).filter(|_| is_larder);
    let is_relevant = |outcome: &&Outcome| is_larder || !needs_newer_redis(outcome);
    let relevant = outcomes.iter().filter(is_relevant);
    let mut faults: Vec<String> = relevant.filter_map(|outcome| fault(outcome, missing(outcome))).collect();
    let listed = NEED_TYPES.iter().map(|(client, case, _)| (*client, *case));
    let listed = listed.filter(|(client, _)| clients.contains(client));
    for (client, case) in clients.iter().map(|client| (*client, RESTART)).chain(listed) {
        if !outcomes.iter().any(|outcome| outcome.client == client && outcome.case == case) {
            faults.push(format!("{client}: {case}: has not run"));
        }
    }
    let is_unknown = |outcome: &&Outcome| !clients.contains(&outcome.client.as_str());
    let unknown = outcomes.iter().filter(is_unknown);
    faults.extend(unknown.map(|outcome| format!("{}: is not in the list of clients", outcome.client)));
    faults
}

fn fault(outcome: &Outcome, missing: Option<&str>) -> Option<String> {
    let fault = match (&outcome.error, missing) {
        (None, None) => return None,
        (Some(error), None) => error.clone(),
        (None, Some(missing)) => format!("works without {missing}"),
        (Some(_), Some(_)) if outcome.ms > QUICK_MS => format!("failed after {} ms", outcome.ms),
        // The server names the command that it does not know, and the client passes that on.
        (Some(error), Some(_)) if error.to_lowercase().contains("unknown") => return None,
        (Some(error), Some(missing)) => format!("does not say that it needs {missing}: {error}"),
    };
    let Outcome { client, case, protocol, .. } = outcome;
    let protocol = protocol.map(|version| format!(", RESP{version}")).unwrap_or_default();
    Some(format!("{client}{protocol}: {case}: {fault}"))
}

fn needs_newer_redis(outcome: &Outcome) -> bool {
    NEED_REDIS_7_4.contains(&(&*outcome.client, &*outcome.case))
}

/// What this server lacks for a case.
fn missing_for(outcome: &Outcome) -> Option<&'static str> {
    let is_of =
        |(client, case, _): &&(&str, &str, &str)| (*client, *case) == (&outcome.client, &outcome.case);
    NEED_TYPES.iter().find(is_of).map(|(_, _, missing)| *missing)
}
