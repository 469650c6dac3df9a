//! The promise between languages: nodes in Rust, in each language of `LARDER_CHILDREN`, and forked workers, on one server under
//! the same faults, judged by the same book.
//!
//! ```text
//! clients ─► node 0: Rust ───────────────────────────────┐
//! clients ─► node 1: lines ─► python3 child.py sync ─────┼─► redis-server
//! clients ─► …       lines ─► a child of each other kind ┤
//! clients ─► …       lines ─► a fork of a child ─────────┤
//! clients ─► …       lines ─► another one ───────────────┘
//! ```
//!
//! Loaders run here: `bindings/interop/protocol.md`. A child may be stopped, and killed at any moment; some of its loaders never
//! return.

mod forged;
pub(crate) mod node;
pub(crate) mod remote;

use crate::children::child::Child;
use crate::children::kinds;
use crate::ground::Ground;
use crate::place::{Member, Team};
use crate::run::Run;
use crate::{judge_team, soak_time};
use forged::{Forgery, forge};
use larder_testkit::RedisServer;
use std::time::Duration;

/// A usual run.
const USUAL: Duration = Duration::from_secs(8);
/// Workers that are forked from one process.
const FORKS: usize = 2;
/// A forged node is found long before that.
const SEARCH: Duration = Duration::from_secs(30);

/// A node in Rust, one of each kind, and forks of the first kind that has them.
fn members() -> Vec<Member> {
    let kinds = kinds();
    assert!(
        !kinds.is_empty(),
        "LARDER_CHILDREN names no programs: `cargo xtask test --stage languages` sets it"
    );
    let forking = kinds.iter().find(|kind| Child::start(kind).can("fork")).cloned();
    let forks = forking.into_iter().flat_map(|kind| std::iter::repeat_n(Member::Fork(kind), FORKS));
    [Member::Rust].into_iter().chain(kinds.iter().cloned().map(Member::Child)).chain(forks).collect()
}

#[test]
#[ignore = "needs programs in other languages: cargo xtask test --stage languages"]
fn invalidated_value_is_never_served_in_another_language() {
    let members = members();
    judge_team(
        USUAL,
        |_| true,
        || {
            let ground = Ground::of(RedisServer::start()?, members.len(), 1);
            let urls = (0..members.len()).map(|node| ground.url(node));
            Some((Team::of_languages(members.iter().cloned().zip(urls.collect::<Vec<_>>())), ground))
        },
    );
}

/// Runs a node in Rust and one of each kind that a proxy forges, and returns what is found.
fn find_forged(forgery: Forgery) {
    for kind in kinds() {
        let name = kind.name.clone();
        let Some(server) = RedisServer::start() else { return };
        let members = [(Member::Rust, server.url()), (Member::Child(kind), forge(&server, forgery))];
        let team = Team::of_languages(members).without_tracking();
        let run = Run::start(Ground::of(server, 1, 1), team, Duration::ZERO, soak_time().is_some());
        match run.find_violation(SEARCH) {
            Ok(violation) => println!("{name}, {forgery:?}: {}", violation.words),
            Err(reads) => panic!("{name}, {forgery:?}: not found in {reads} reads"),
        }
    }
}

#[test]
#[ignore = "needs programs in other languages: cargo xtask test --stage languages"]
fn child_that_hears_nothing_is_found() {
    find_forged(Forgery::Deaf);
}

#[test]
#[ignore = "needs programs in other languages: cargo xtask test --stage languages"]
fn child_with_the_origin_of_another_node_is_found() {
    find_forged(Forgery::SameOrigin);
}
