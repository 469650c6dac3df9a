//! The options of a cache that say what is stored.

use http::{HeaderMap, HeaderName, Request, Response, StatusCode};

use crate::policy::handler_fields::{HandlerFields, has_content, needs_no_permission};
use crate::policy::plan::Plan;
use crate::policy::profile::Profile;
use crate::policy::request_fields::UnkeyedField;
use crate::policy::value_freshness::ValueFreshness;
use crate::request::empty_body::EmptyBody;
use crate::request::traits::PersonalTraits;
use crate::rfc::storing::Asked;
use crate::status::Reason;

/// The options of a cache that say what is stored.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Who decides what is stored.
    pub(crate) profile: Profile,
    /// Statuses other than 200 with which a response may be stored.
    pub(crate) cached_errors: Vec<StatusCode>,
    /// A response may be fresh for longer than the values that its handler has got.
    pub(crate) outlives_values: bool,
    /// What identifies a user in a request.
    pub(crate) personal: PersonalTraits,
    /// What a handler sees.
    pub(crate) handler_fields: HandlerFields,
    /// The body of a request that is made a second time.
    pub(crate) empty_body: EmptyBody,
}

impl Rules {
    /// Marks a response that depends on a field which is not in its key.
    ///
    /// # Errors
    /// `UnkeyedField`.
    pub(crate) fn check_fields_read<B>(
        &self,
        response: &mut Response<B>,
        plan: Plan,
        has_content: bool,
    ) -> Result<Plan, Reason> {
        let allowed = |name: &HeaderName| needs_no_permission(name, has_content, &self.personal);
        let Some(field) = plan.unkeyed_field(allowed) else { return Ok(plan) };
        response.extensions_mut().insert(UnkeyedField(field.clone()));
        Err(Reason::UnkeyedField)
    }

    /// What the decision takes from a request: nothing where handlers decide.
    pub(crate) fn asked(&self, request: &HeaderMap) -> Asked {
        match self.profile {
            Profile::App => Asked::default(),
            Profile::Rfc => Asked::of(request),
        }
    }

    /// Removes from a request what its handler must not depend on: ignored cookies, and fields without permission.
    pub(crate) fn restrict<B>(&self, request: &mut Request<B>) {
        let has_content = has_content(request);
        self.handler_fields.restrict(request.headers_mut(), has_content, &self.personal);
    }

    /// The values of a handler that is called now.
    pub(crate) fn value_freshness(&self) -> ValueFreshness {
        ValueFreshness::new(!self.outlives_values)
    }
}
