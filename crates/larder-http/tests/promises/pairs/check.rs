//! The comparison of a response with the model, and what the response shows.

use std::time::Duration;

use http::StatusCode;
use larder_http::{Outcome, Reason, Scope};
use std::sync::atomic::Ordering;

use super::drawn::{Drawn, GRACE, LEN, UNIT, decode, parse, text};
use super::feature::Feature::*;
use super::origin::TTL;
use super::world::World;
use crate::support::*;

impl World {
    /// Compares a response with the model. `before`: how often the handler was called before the request.
    pub(super) fn check(&mut self, drawn: &Drawn, response: &CollectedResponse, before: usize) {
        let context = format!("{drawn:?} in {:?}: {:?} {}", self.place, response.outcome, response.status);
        let is_shared = matches!(
            response.outcome,
            Outcome::Hit { .. }
                | Outcome::Shared { .. }
                | Outcome::Stale { .. }
                | Outcome::Miss { collapsed: true, .. }
        );
        if drawn.resource.scope >= Some(Scope::Gated) {
            assert!(!is_shared || drawn.user != "eve", "the gate denies: {context}");
        }
        if response.status == StatusCode::INTERNAL_SERVER_ERROR {
            assert!(self.origin.fails.load(Ordering::SeqCst) && !is_shared, "{context}");
            return;
        }
        let Some(call) = self.call_of(drawn, response, &context) else { return };
        let etag = response.header("etag").map(str::to_owned);
        if let Some(etag) = etag.filter(|etag| !self.etags.contains_key(etag)) {
            self.etags.insert(etag.clone(), call);
            self.etag_list.push(etag);
        }
        let version = drawn.version();
        let oldest = [drawn.resource.path(), format!("principal {}", drawn.user)];
        for (key, counts) in oldest.iter().zip([true, drawn.resource.scope == Some(Scope::Private)]) {
            let oldest = self.oldest.get(key).copied().unwrap_or(0);
            assert!(!counts || call >= oldest, "call {call} was purged, {oldest} was not: {context}");
        }
        let now_ms = self.origin.now_ms.load(Ordering::SeqCst);
        let at_ms = self.origin.loads.lock().unwrap()[&call].at_ms;
        let (age, ttl) = (Duration::from_millis(now_ms - at_ms), TTL);
        let is_kept = match response.outcome {
            Outcome::Hit { .. } | Outcome::Shared { .. } => {
                assert!(age < ttl, "{age:?} old: {context}");
                true
            }
            Outcome::Stale { .. } => {
                assert!(age < ttl + drawn.resource.grace(), "{age:?} old: {context}");
                true
            }
            Outcome::Miss { unstored: None | Some(Reason::RedisLost), .. } => {
                assert!(call > before, "{context}");
                true
            }
            _ => {
                assert!(call > before, "{context}");
                false
            }
        };
        if !is_kept {
            return;
        }
        assert!(self.place != Some(Lost) || call > before, "{context}");
        self.meet(drawn, response, call);
        self.prove_purges(&version, call, response.outcome, now_ms);
        if !matches!(response.outcome, Outcome::Miss { unstored: Some(_), .. }) && self.place != Some(Lost) {
            self.stored.insert(version, call);
        }
        if matches!(response.outcome, Outcome::Stale { .. }) && self.origin.fails.load(Ordering::SeqCst) {
            self.refresh_failed.insert(call);
        }
    }

    /// The handler call that has made a response, whose form is checked. `None` if that is not known.
    fn call_of(&self, drawn: &Drawn, response: &CollectedResponse, context: &str) -> Option<usize> {
        let is_encoded = response.header("content-encoding").is_some();
        let known = || self.etags.get(response.header("etag")?).copied();
        if drawn.is_head {
            // The server cuts off what the handler sends.
            let is_replayed = matches!(response.outcome, Outcome::Hit { .. } | Outcome::Stale { .. });
            assert!(
                !is_replayed
                    || response.body.is_empty()
                        && (is_encoded || response.header("content-length") == Some("1500"))
            );
            return known();
        }
        let text = match response.status {
            StatusCode::OK if is_encoded => {
                assert!(drawn.accepts_gzip && drawn.resource.scope != Some(Scope::Private), "{context}");
                decode(&response.body)
            }
            StatusCode::OK => response.body.to_vec(),
            StatusCode::PARTIAL_CONTENT if is_encoded => {
                let named = drawn.if_range.as_deref();
                assert!(named.is_some() && named == response.header("etag"), "{context}");
                return known();
            }
            StatusCode::PARTIAL_CONTENT => {
                let (range, content_range) = match drawn.range {
                    Some("bytes=100-199") => (100..200, "bytes 100-199/1500"),
                    _ => (LEN - UNIT..LEN, "bytes 1450-1499/1500"),
                };
                assert_eq!(
                    (response.header("content-range"), response.body.len()),
                    (Some(content_range), range.len())
                );
                response.body.to_vec()
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                assert_eq!(drawn.range, Some("bytes=1500-"), "{context}");
                return None;
            }
            _ => panic!("{context}"),
        };
        let (version, call) = parse(&text);
        assert_eq!(version, drawn.version(), "{context}");
        if response.status == StatusCode::OK {
            assert_eq!(text, self::text(&version, call).into_bytes(), "{context}");
        }
        Some(call)
    }

    /// Notes which features have taken effect on the response of a call.
    fn meet(&mut self, drawn: &Drawn, response: &CollectedResponse, call: usize) {
        let scope = drawn.resource.scope.map(|scope| match scope {
            Scope::Public => Public,
            Scope::Gated => Gated,
            Scope::Private => Private,
        });
        let outcome = response.outcome;
        let is_stale = matches!(outcome, Outcome::Stale { .. });
        let features = [
            drawn.resource.varies.then_some(Vary),
            scope,
            self.place,
            response.header("content-encoding").map(|_| Coding),
            (response.status == StatusCode::PARTIAL_CONTENT).then_some(Range),
            drawn.is_head.then_some(Head),
            is_stale.then_some(Stale),
            (is_stale && self.refresh_failed.contains(&call)).then_some(FailedRefresh),
            matches!(outcome, Outcome::Miss { collapsed: true, .. }).then_some(Collapsed),
        ];
        self.origin.loads.lock().unwrap().get_mut(&call).unwrap().met.extend(features.into_iter().flatten());
    }

    /// A response of this version shows whether the one that was stored before is still served.
    fn prove_purges(&mut self, version: &str, call: usize, outcome: Outcome, now_ms: u64) {
        let mut loads = self.origin.loads.lock().unwrap();
        let is_stale = matches!(outcome, Outcome::Stale { .. });
        self.purged.retain(|(purged, old, purge)| {
            let is_other = purged != version;
            let load = loads.get_mut(old).unwrap();
            // One that is stale might have been refreshed instead.
            let age = Duration::from_millis(now_ms - load.at_ms);
            let was_usable = age < TTL || (self.refresh_failed.contains(old) && age < TTL + GRACE);
            if !is_other && was_usable && (call > *old || (*purge == PurgeSoft && is_stale)) {
                load.met.insert(*purge);
            }
            is_other
        });
    }
}
