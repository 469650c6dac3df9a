//! Requests that are drawn at random, and the texts that answer them.

use std::time::Duration;

use larder_http::{Outcome, Scope};

use crate::support::*;

/// How long each response is stale, if it may be.
pub(super) const GRACE: Duration = Duration::from_secs(20);

/// Numbers that look random, the same in each run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A resource: its path says what its responses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    pub(super) scope: Option<Scope>,
    pub(super) varies: bool,
    pub(super) has_grace: bool,
    pub(super) number: usize,
}

impl Resource {
    pub(super) fn draw(random: &mut Random) -> Resource {
        Resource {
            scope: random.pick(&[None, Some(Scope::Public), Some(Scope::Gated), Some(Scope::Private)]),
            varies: random.one_in(2),
            has_grace: random.one_in(2),
            number: random.below(2),
        }
    }

    pub(super) fn uri(&self) -> String {
        format!("http://site.example{}", self.path())
    }

    /// The URI up to the number: that of two resources.
    pub(super) fn prefix(&self) -> String {
        let uri = self.uri();
        uri[..uri.len() - 1].to_owned()
    }

    pub(super) fn path(&self) -> String {
        let scope = self.scope.map_or("none".to_owned(), |scope| format!("{scope:?}"));
        format!("/{scope}/{}/{}/{}", u8::from(self.varies), u8::from(self.has_grace), self.number)
    }

    pub(super) fn of_path(path: &str) -> Resource {
        let parts: Vec<_> = path.split('/').skip(1).collect();
        let scope = match parts[0] {
            "none" => None,
            "Public" => Some(Scope::Public),
            "Gated" => Some(Scope::Gated),
            _ => Some(Scope::Private),
        };
        let number = parts[3].parse().unwrap();
        Resource { scope, varies: parts[1] == "1", has_grace: parts[2] == "1", number }
    }

    pub(super) fn grace(&self) -> Duration {
        match self.has_grace && self.scope < Some(Scope::Gated) {
            true => GRACE,
            false => Duration::ZERO,
        }
    }

    /// What the response to a request depends on.
    pub(super) fn version(&self, language: &str, user: &str) -> String {
        let language = if self.varies { language } else { "any" };
        let user = if self.scope == Some(Scope::Private) { user } else { "all" };
        format!("{}?{language}&{user}", self.path())
    }
}

/// The length of every body, and of the unit that it repeats: each of them says what it was made from.
pub(super) const LEN: usize = 1_500;
pub(super) const UNIT: usize = 50;

pub(super) fn text(version: &str, call: usize) -> String {
    format!("{:<UNIT$}", format!("{version} #{call}")).repeat(LEN / UNIT)
}

/// What a part of a body says.
pub(super) fn parse(text: &[u8]) -> (String, usize) {
    let unit = std::str::from_utf8(&text[..UNIT]).expect("text");
    let (version, call) = unit.split_once(" #").expect("a text of the handler");
    (version.to_owned(), call.trim_end().parse().expect("the number of a call"))
}

pub(super) fn decode(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(body), &mut text).expect("gzip");
    text
}

/// A request as it was drawn.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) resource: Resource,
    pub(super) is_head: bool,
    pub(super) language: &'static str,
    /// Nobody allows `eve`.
    pub(super) user: &'static str,
    pub(super) accepts_gzip: bool,
    pub(super) range: Option<&'static str>,
    pub(super) if_range: Option<String>,
}

impl Drawn {
    pub(super) fn draw(random: &mut Random, etags: &[String]) -> Drawn {
        let range = random.one_in(3).then(|| random.pick(&["bytes=100-199", "bytes=-50", "bytes=1500-"]));
        Drawn {
            resource: Resource::draw(random),
            is_head: random.one_in(6),
            language: random.pick(&["de", "fr"]),
            user: random.pick(&["ann", "ann", "bob", "eve"]),
            accepts_gzip: random.one_in(2),
            if_range: range.filter(|_| !etags.is_empty() && random.one_in(3)).map(|_| {
                let newest = etags.len().saturating_sub(8);
                etags[newest + random.below(etags.len() - newest)].clone()
            }),
            range,
        }
    }

    /// The same request for the whole body.
    pub(super) fn plain(&self) -> Drawn {
        Drawn { is_head: false, range: None, if_range: None, ..self.clone() }
    }

    pub(super) fn version(&self) -> String {
        self.resource.version(self.language, self.user)
    }

    /// Whether the stored response is being encoded for this request.
    pub(super) fn makes_sibling(&self, response: &CollectedResponse) -> bool {
        self.accepts_gzip
            && self.range.is_none()
            && self.resource.scope != Some(Scope::Private)
            && matches!(response.outcome, Outcome::Hit { .. } | Outcome::Stale { .. })
            && response.header("content-encoding").is_none()
    }

    pub(super) fn request(&self) -> http::Request<String> {
        let mut fields = vec![("language", self.language), ("user", self.user)];
        fields.extend(self.accepts_gzip.then_some(("accept-encoding", "gzip")));
        fields.extend(self.range.map(|range| ("range", range)));
        fields.extend(self.if_range.as_deref().map(|etag| ("if-range", etag)));
        request(if self.is_head { "HEAD" } else { "GET" }, &self.resource.path(), &fields)
    }
}
