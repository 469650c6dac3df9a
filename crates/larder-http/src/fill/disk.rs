//! What a fill reads from the disk before it runs the handler.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;

use crate::disk::file::Frame;
use crate::disk::read::{DiskEntry, DiskEntryKind, DiskResponse};
use crate::fill::elsewhere::Taken;
use crate::fill::{Fill, FillRole};
use crate::key;
use crate::policy::plan::{KNOWN_AFTER_END, LaterUse, Plan};
use crate::status::Outcome;
use crate::stored::body::BoxError;
use crate::stored::chunks::Chunks;
use crate::stored::entry::{StoredBody, StoredResponse};
use crate::stored::record::VaryRecord;

/// Looks for the response of a fill on disk. Returns the request for the handler, unless the response was found. What may not be
/// served as it is, the handler may validate.
pub(crate) async fn begin<B, E, ReqBody>(
    fill: &mut Fill<B, E>,
    request: Request<ReqBody>,
) -> Option<Request<ReqBody>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    // Memory has the response that is to be refreshed or validated, and the disk no newer one.
    if matches!(fill.role, FillRole::Refresh(_)) || fill.location.expired.is_some() {
        return Some(request);
    }
    while let Some(entry) = fill.read_entry().await {
        match fill.take_entry(entry) {
            Taken::Answered => return None,
            Taken::Varies => {}
            Taken::Unusable => break,
        }
    }
    Some(request)
}

/// The same for a request that calls no handler for the response, or not as a fill.
pub(crate) async fn find<B, E, ReqBody>(
    fill: &mut Fill<B, E>,
    request: Request<ReqBody>,
) -> Option<Request<ReqBody>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let unanswered = begin(fill, request).await?;
    // It may have the ticket of a variant, which others follow.
    fill.role.promote_follower();
    Some(unanswered)
}

impl<B, E> Fill<B, E>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    async fn read_entry(&self) -> Option<DiskEntry> {
        let core = self.core();
        let disk = core.store.disk.as_ref()?;
        disk.read(self.location.key(), core.limits.max_body_bytes, &core.store.memory).await
    }

    fn take_entry(&mut self, DiskEntry { frame, version, kind }: DiskEntry) -> Taken {
        self.disk.found = Some((self.location.key().clone(), version));
        let taken = match kind {
            DiskEntryKind::Response(response) => self.take_response(frame, version, response),
            DiskEntryKind::Record { id, scope, fields } if self.location.variant.is_none() => {
                let uri = key::uri_of(self.location.resource.as_bytes());
                let stamp = self.core().store.purges.restored_stamp(uri, frame.stamp);
                let record = VaryRecord::with_id(id, scope, fields, stamp);
                let (store, resource) = (&self.core().store, &self.location.resource);
                match (store.purges.is_unpurged(&record.stamp, resource.as_bytes(), |_| {}), &store.disk) {
                    (true, _) => self.continue_with_variant(Arc::new(record), KNOWN_AFTER_END),
                    (false, disk) => {
                        disk.iter().for_each(|disk| disk.remove(resource, version));
                        Taken::Unusable
                    }
                }
            }
            DiskEntryKind::Record { .. } => Taken::Unusable,
        };
        self.disk.found = None;
        taken
    }

    fn take_response(&mut self, frame: Frame, version: u32, response: DiskResponse) -> Taken {
        let (cache, key) = (self.cache.clone(), self.location.key().clone());
        let store = &cache.core().store;
        let DiskResponse { status, scope, age_ms, labels, headers, body } = response;
        if self.requester.check(scope).is_err() {
            return Taken::Unusable;
        }
        let varies = self.location.variant.as_ref();
        let times = frame.plan_at(crate::disk::wall_ms(), Duration::from_millis(age_ms));
        let plan = Plan {
            scope,
            labels,
            vary: varies.map_or_else(Box::default, |(record, _)| record.fields().into()),
            ..times
        };
        let plan = if store.shared.is_some() { suspect(plan) } else { plan };
        let now = store.entries.now_ms();
        let stamp = store.purges.restored_stamp(key::uri_of(self.location.resource.as_bytes()), frame.stamp);
        let body = StoredBody::Complete(Chunks::new(vec![body]));
        let stored = StoredResponse::new(status, &headers, body, &plan, self.tags(&plan), stamp, now);
        let is_dead = !stored.is_unpurged(&store.purges, self.location.resource.as_bytes());
        if is_dead || stored.useful_ms(now) == 0 {
            store.disk.iter().for_each(|disk| disk.remove(&key, version));
            return Taken::Unusable;
        }
        self.answer_with(stored, &plan, now, |ttl| Outcome::Disk { ttl })
    }
}

/// The plan of a response that other replicas may have changed or purged: it is for nobody but the origin, which may validate it.
fn suspect(plan: Plan) -> Plan {
    let later = plan.later.map(|later| {
        let kept = later.kept + plan.ttl;
        let (on_error, if_unreachable) = (Duration::ZERO, Duration::ZERO);
        Box::new(LaterUse { kept, on_error, if_unreachable, ..*later })
    });
    Plan { ttl: Duration::ZERO, grace: Duration::ZERO, later, ..plan }
}
