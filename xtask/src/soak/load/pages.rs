//! The load of the proxies: pages that are read through both of them while they change at the origin and are purged at either.

use super::failure;
use crate::soak::judge::{Answer, MAX_LAG, Read};
use crate::soak::lock;
use crate::soak::origin;
use crate::soak::random::Random;
use crate::soak::shared::{Pace, Probes, Resource, Shared};
use crate::soak::tally::Kind;
use crate::soak::windows::Tier;
use crate::soak::wire::{Http, Response};
use anyhow::{Context, Result};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than the memory of a proxy holds.
pub(in crate::soak) const PAGES: usize = 1_000;
/// Pages a second of each proxy.
const READS: f64 = 50.0;
/// Changes a second.
const CHANGES: f64 = 3.0;
/// The host of the pages: proxies share what has the same URI.
const HOST: &str = "soak.example";

/// A proxy.
#[derive(Clone, Debug)]
pub(in crate::soak) struct Proxy {
    pub(in crate::soak) http: SocketAddr,
    pub(in crate::soak) admin: SocketAddr,
    /// The file of the admin token, which the proxy makes.
    pub(in crate::soak) token: PathBuf,
}

/// The pages, and both proxies.
#[derive(Debug)]
pub(in crate::soak) struct Pages {
    proxies: [Proxy; 2],
    /// Where the origin finds the versions.
    folder: PathBuf,
    pages: Vec<Arc<Resource>>,
    probes: [Probes; 2],
}

impl Pages {
    /// The pages, whose first versions are there.
    pub(in crate::soak) fn new(proxies: [Proxy; 2], folder: PathBuf) -> Self {
        let pages = (0..PAGES).map(|page| Resource::new(origin::path(page), Answer::Version(1))).collect();
        Pages { proxies, folder, pages, probes: Default::default() }
    }

    /// Reads pages through one proxy: those whose change is due there, else popular ones.
    pub(in crate::soak) fn read(&self, shared: &Shared, instance: usize, mut random: Random) {
        let mut client = Http::new(self.proxies[instance].http);
        let mut pace = Pace::per_second(READS);
        while pace.wait(shared) {
            let due = self.probes[instance].next(Instant::now());
            let page = due.unwrap_or_else(|| self.pages[random.skewed(PAGES)].clone());
            let begun = shared.begin();
            let response = client.request("GET", &page.name, &[("Host", HOST)], "");
            let answer = response.and_then(|response| version(&response));
            let ended = shared.record(Kind::Page, begun, answer.as_ref().err().map(ToString::to_string));
            if let Ok(answer) = answer {
                shared.judge(&page, Tier::Server, Read { instance, begun: begun.at, ended, answer });
            }
        }
    }

    /// Changes pages at the origin, and purges each at one of the proxies.
    pub(in crate::soak) fn change(&self, shared: &Shared, mut random: Random) -> Result<()> {
        let mut clients = self.proxies.each_ref().map(|proxy| Http::new(proxy.admin));
        let mut tokens = Vec::new();
        for proxy in &self.proxies {
            let token = std::fs::read_to_string(&proxy.token).context("cannot read an admin token")?;
            tokens.push(format!("Bearer {}", token.trim()));
        }
        let mut versions = vec![1; PAGES];
        let mut pace = Pace::per_second(CHANGES);
        while pace.wait(shared) {
            let index = random.skewed(PAGES);
            let (page, by) = (&self.pages[index], random.below(2));
            if lock(&page.history).is_retired() {
                continue;
            }
            versions[index] += 1;
            lock(&page.history).begin(by, Answer::Version(versions[index]), Instant::now());
            origin::write(&self.folder, index, versions[index])?;
            let begun = shared.begin();
            let body = format!(r#"{{"part": "responses", "uri": "http://{HOST}{}"}}"#, page.name);
            let fields = [("Authorization", &*tokens[by])];
            let purged = clients[by].request("POST", "/api/purge", &fields, &body);
            let error = failure(&purged);
            let is_purged = error.is_none();
            let ended = shared.record(Kind::Purge, begun, error);
            if is_purged {
                lock(&page.history).confirm(ended);
                self.probes[by].add(ended, page.clone());
                self.probes[1 - by].add(ended + MAX_LAG + Duration::from_millis(1), page.clone());
            }
        }
        Ok(())
    }
}

fn version(response: &Response) -> io::Result<Answer> {
    if response.status != 200 {
        return Err(io::Error::other(format!("status {}", response.status)));
    }
    let version = origin::version_in(&response.body);
    version.map(Answer::Version).ok_or_else(|| io::Error::other("the page has no version"))
}
