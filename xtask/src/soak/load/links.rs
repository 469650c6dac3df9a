//! The load of the shorteners: links that are followed on both instances while they change on either.
//!
//! The target of a link has its version: `https://target.example/SLUG/VERSION`. So an answer says which change it knows.

use super::failure;
use super::link_state::{Change, Outcome, State};
use crate::soak::judge::{Answer, MAX_LAG, Read};
use crate::soak::lock;
use crate::soak::random::Random;
use crate::soak::shared::{Pace, Probes, Resource, Shared};
use crate::soak::tally::Kind;
use crate::soak::windows::Tier;
use crate::soak::wire::{Http, Response};
use anyhow::{Result, ensure};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The links that exist in the whole run.
const FIXED: usize = 500;
/// The links that were created last. Older ones are deleted.
const RECENT: usize = 64;
/// Redirects a second of each instance.
const REDIRECTS: f64 = 100.0;
/// Changes a second of each writer.
const CHANGES: f64 = 4.0;
const CREATIONS: f64 = 1.0;
/// The writers: each has links of its own, so that changes of one link follow each other.
pub(in crate::soak) const WRITERS: usize = 2;

/// The links, and the addresses of both instances.
#[derive(Debug)]
pub(in crate::soak) struct Links {
    instances: [SocketAddr; 2],
    fixed: Vec<Arc<Resource>>,
    recent: Mutex<VecDeque<Arc<Resource>>>,
    probes: [Probes; 2],
}

impl Links {
    /// Creates the links of the whole run.
    pub(in crate::soak) fn create(instances: [SocketAddr; 2]) -> Result<Self> {
        let mut client = Http::new(instances[0]);
        let mut fixed = Vec::new();
        for number in 0..FIXED {
            let slug = format!("fixed-{number}");
            let created = client.request("POST", "/api/links", &[], &link(&slug, 1))?;
            let text = String::from_utf8_lossy(&created.body).into_owned();
            ensure!(created.status == 201, "a link was not created: {} {text}", created.status);
            fixed.push(Resource::new(slug, Answer::Version(1)));
        }
        Ok(Links { instances, fixed, recent: Mutex::default(), probes: Default::default() })
    }

    /// Follows links of one instance: those whose change is due there, else recent and popular ones.
    pub(in crate::soak) fn follow(&self, shared: &Shared, instance: usize, mut random: Random) {
        let mut client = Http::new(self.instances[instance]);
        let mut pace = Pace::per_second(REDIRECTS);
        while pace.wait(shared) {
            let due = self.probes[instance].next(Instant::now());
            let link = due.unwrap_or_else(|| self.choose(&mut random));
            let begun = shared.begin();
            let answer = client.get(&format!("/{}", link.name)).and_then(|response| read(&response));
            let ended = shared.record(Kind::Redirect, begun, answer.as_ref().err().map(ToString::to_string));
            if let Ok(answer) = answer {
                shared.judge(&link, Tier::Redis, Read { instance, begun: begun.at, ended, answer });
            }
        }
    }

    fn choose(&self, random: &mut Random) -> Arc<Resource> {
        if random.below(10) == 0 {
            let recent = lock(&self.recent);
            if !recent.is_empty() {
                return recent[random.below(recent.len())].clone();
            }
        }
        self.fixed[random.skewed(FIXED)].clone()
    }

    /// Changes the links of one writer by requests to both instances.
    pub(in crate::soak) fn change(&self, shared: &Shared, writer: usize, mut random: Random) {
        let mut clients = self.instances.map(Http::new);
        let mut states = vec![State::new(); FIXED];
        let mut pace = Pace::per_second(CHANGES);
        while pace.wait(shared) {
            let index = random.skewed(FIXED / WRITERS) * WRITERS + writer;
            let (link, state) = (&self.fixed[index], &mut states[index]);
            if lock(&link.history).is_retired() {
                continue;
            }
            let by = random.below(2);
            let change = state.choose(random.below(5) == 0);
            let (kind, answer) = match change {
                Change::Update => (Kind::Update, Answer::Version(state.next)),
                Change::Delete => (Kind::Delete, Answer::Gone),
                Change::Restore => (Kind::Delete, Answer::Version(state.version)),
            };
            let path = format!("/api/links/{}", link.name);
            let body = format!(r#"{{"url": "{}"}}"#, target(&link.name, state.next));
            let (method, path, body) = match change {
                Change::Update => ("PATCH", path, &*body),
                Change::Delete => ("DELETE", path, "{}"),
                Change::Restore => ("POST", path + "/restore", "{}"),
            };
            let send = |client: &mut Http| client.request(method, &path, &[], body);
            let outcome = self.send(shared, link, (kind, by, answer), || send(&mut clients[by]));
            state.learn(change, outcome);
        }
    }

    /// Creates links, and deletes the oldest of them. They are followed before they exist, too.
    pub(in crate::soak) fn renew(&self, shared: &Shared, mut random: Random) {
        let mut clients = self.instances.map(Http::new);
        let mut pace = Pace::per_second(CREATIONS);
        let mut absent: VecDeque<Arc<Resource>> = VecDeque::new();
        for number in 0.. {
            if !pace.wait(shared) {
                return;
            }
            let link = Resource::new(format!("recent-{number}"), Answer::Absent);
            absent.push_back(link.clone());
            let oldest = {
                let mut recent = lock(&self.recent);
                recent.push_back(link);
                if recent.len() > RECENT { recent.pop_front() } else { None }
            };
            let by = random.below(2);
            if let Some(link) = oldest {
                let path = format!("/api/links/{}", link.name);
                let send = || clients[by].request("DELETE", &path, &[], "{}");
                self.send(shared, &link, (Kind::Delete, by, Answer::Gone), send);
            }
            // Some seconds after others may have asked for it.
            if absent.len() > 3
                && let Some(link) = absent.pop_front()
            {
                let body = self::link(&link.name, 1);
                let send = || clients[by].request("POST", "/api/links", &[], &body);
                self.send(shared, &link, (Kind::Create, by, Answer::Version(1)), send);
            }
        }
    }

    /// Sends a change, notes its outcome, and lets it be read where and when the old state would be wrong.
    fn send(
        &self,
        shared: &Shared,
        link: &Arc<Resource>,
        (kind, by, answer): (Kind, usize, Answer),
        send: impl FnOnce() -> io::Result<Response>,
    ) -> Outcome {
        let begun = shared.begin();
        lock(&link.history).begin(by, answer, begun.at);
        let response = send();
        let outcome = Outcome::of(&response);
        let error = failure(&response).filter(|_| outcome == Outcome::Unknown);
        let is_late = response.is_err_and(|error| is_timeout(&error));
        let ended = shared.record(kind, begun, error);
        match outcome {
            Outcome::Done => {
                lock(&link.history).confirm(ended);
                self.probes[by].add(ended, link.clone());
                self.probes[1 - by].add(ended + MAX_LAG + Duration::from_millis(1), link.clone());
            }
            Outcome::Refused => lock(&link.history).refuse(),
            // It may take effect after any later change.
            Outcome::Unknown if is_late => lock(&link.history).retire(),
            Outcome::Unknown => {}
        }
        outcome
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn target(slug: &str, version: u64) -> String {
    format!("https://target.example/{slug}/{version}")
}

fn link(slug: &str, version: u64) -> String {
    format!(r#"{{"slug": "{slug}", "url": "{}"}}"#, target(slug, version))
}

fn read(response: &Response) -> io::Result<Answer> {
    match response.status {
        302 => {
            let version =
                response.field("location").and_then(|target| target.rsplit('/').next()?.parse().ok());
            version.map(Answer::Version).ok_or_else(|| io::Error::other("the redirect has no version"))
        }
        404 => Ok(Answer::Absent),
        410 => Ok(Answer::Gone),
        status => Err(io::Error::other(format!("status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_versions() {
        assert_eq!(target("a", 7).rsplit('/').next(), Some("7"));
        assert_eq!(link("a", 1), r#"{"slug": "a", "url": "https://target.example/a/1"}"#);
    }
}
