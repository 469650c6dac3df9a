//! What stands for the neighbour `share` without the feature `shared`: a fill asks and tells nobody.

use http::Request;

use crate::fill::Fill;
use crate::policy::plan::Plan;
use crate::status::Reason;
use crate::stored::copy::EntryCopy;
use crate::stored::entry::StoredResponse;

/// The part of a fill that concerns other replicas: none.
#[derive(Debug, Default)]
pub(crate) struct FillShare;

impl FillShare {
    pub(crate) fn has_lease(&self) -> bool {
        false
    }

    pub(crate) fn is_replaced(&self) -> bool {
        false
    }

    pub(crate) fn record_id(&self, _: &Plan) -> Option<u128> {
        None
    }

    pub(crate) fn release(&mut self) {}

    #[cfg(feature = "disk")]
    pub(crate) fn validate_alone(&mut self) {}

    pub(crate) fn is_alone(&self) -> bool {
        false
    }
}

/// No other replica has the response.
pub(crate) async fn begin<B: http_body::Body, E, ReqBody>(
    _: &mut Fill<B, E>,
    request: Request<ReqBody>,
) -> Option<Request<ReqBody>> {
    Some(request)
}

/// No other replica has the response.
pub(crate) async fn find<B: http_body::Body, E, ReqBody>(
    _: &mut Fill<B, E>,
    request: Request<ReqBody>,
) -> Option<Request<ReqBody>> {
    Some(request)
}

impl<B: http_body::Body, E> Fill<B, E> {
    pub(crate) fn running_copy(&self, _: &Plan) -> Option<EntryCopy> {
        None
    }

    pub(crate) fn note_unscoped(&self, _: Reason) {}

    pub(crate) async fn share(&mut self, stored: StoredResponse, _: &Plan) -> StoredResponse {
        stored
    }
}
