//! Whether a stored response satisfies a request, by the directives of both (RFC 9111, 4 and 5.2.1).

use std::time::Duration;

use crate::rfc::directives::RequestDirectives;

/// A stored response at the time of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) age: Duration,
    pub(crate) lifetime: Duration,
    /// How long after its lifetime it may be served while it is validated.
    pub(crate) stale_while_revalidate: Duration,
    /// How long after its lifetime it may be served if the origin replies with an error.
    pub(crate) stale_if_error: Duration,
    /// Whether the origin leaves it to the client if it may be served stale.
    pub(crate) may_be_stale: bool,
    /// Each use needs a validation first.
    pub(crate) must_validate: bool,
    /// It does not change while it is fresh.
    pub(crate) is_immutable: bool,
}

/// What to do with a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Serve it as it is.
    Serve,
    /// Serve it, and validate it in the background.
    ServeAndValidate,
    /// Validate it first.
    Validate,
    /// Reply with a 504: the client accepts only what is stored (RFC 9111, 5.2.1.7).
    Unavailable,
}

impl Stored {
    /// What to do with it for a request.
    pub(crate) fn use_for(&self, request: &RequestDirectives) -> Use {
        match self.use_without_contact(request) {
            Some(usable) => usable,
            None if request.only_if_cached => Use::Unavailable,
            None => Use::Validate,
        }
    }

    fn use_without_contact(&self, request: &RequestDirectives) -> Option<Use> {
        let remaining = self.lifetime.checked_sub(self.age).filter(|remaining| !remaining.is_zero());
        let staleness = self.age.saturating_sub(self.lifetime);
        // RFC 8246, 2.1: only `no-cache` makes a proxy validate what is immutable and fresh.
        let is_young = request.max_age.is_none_or(|limit| self.age <= limit)
            || (self.is_immutable && remaining.is_some());
        if self.must_validate || request.no_cache || !is_young {
            return None;
        }
        match (remaining, request.min_fresh) {
            (Some(remaining), required) => (remaining >= required.unwrap_or_default()).then_some(Use::Serve),
            (None, Some(required)) if !required.is_zero() => None,
            (None, _) if staleness < self.stale_while_revalidate => Some(Use::ServeAndValidate),
            (None, _) => {
                let accepted = request.max_stale.is_some_and(|limit| staleness <= limit);
                (self.may_be_stale && accepted).then_some(Use::Serve)
            }
        }
    }

    /// Whether it may be served although its validation ended with an error of the origin (RFC 5861, 4). Clients grant
    /// that only where the origin leaves it to them.
    pub(crate) fn is_served_on_error(&self, request: &RequestDirectives) -> bool {
        let granted_by_client = request.stale_if_error.filter(|_| self.may_be_stale).unwrap_or_default();
        let staleness = self.age.saturating_sub(self.lifetime);
        !self.must_validate && !request.no_cache && staleness < self.stale_if_error.max(granted_by_client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stored(age: u32) -> Stored {
        Stored {
            age: SECOND * age,
            lifetime: SECOND * 10,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            may_be_stale: true,
            must_validate: false,
            is_immutable: false,
        }
    }

    const NONE: RequestDirectives = RequestDirectives {
        no_cache: false,
        no_store: false,
        only_if_cached: false,
        max_age: None,
        max_stale: None,
        min_fresh: None,
        stale_if_error: None,
    };

    #[test]
    fn fresh_response_is_served_and_stale_one_is_validated() {
        assert_eq!(stored(9).use_for(&NONE), Use::Serve);
        assert_eq!(stored(10).use_for(&NONE), Use::Validate);
        assert_eq!(stored(11).use_for(&NONE), Use::Validate);
    }

    #[test]
    fn no_cache_of_either_side_validates() {
        let no_cache = RequestDirectives { no_cache: true, max_stale: Some(Duration::MAX), ..NONE };
        assert_eq!(Stored { is_immutable: true, ..stored(0) }.use_for(&no_cache), Use::Validate);
        let stored = Stored { must_validate: true, stale_while_revalidate: SECOND * 60, ..stored(0) };
        assert_eq!(
            stored.use_for(&RequestDirectives { max_stale: Some(Duration::MAX), ..NONE }),
            Use::Validate
        );
    }

    #[test]
    fn max_age_is_the_largest_age() {
        let max_age = |seconds| RequestDirectives { max_age: Some(SECOND * seconds), ..NONE };
        assert_eq!(stored(5).use_for(&max_age(5)), Use::Serve);
        assert_eq!(stored(5).use_for(&max_age(4)), Use::Validate);
        assert_eq!(stored(11).use_for(&max_age(20)), Use::Validate);
    }

    #[test]
    fn reload_does_not_validate_what_is_immutable_and_fresh() {
        let reload = RequestDirectives { max_age: Some(Duration::ZERO), ..NONE };
        assert_eq!(Stored { is_immutable: true, ..stored(5) }.use_for(&reload), Use::Serve);
        let stale = Stored { is_immutable: true, stale_while_revalidate: SECOND * 4, ..stored(10) };
        assert_eq!(stale.use_for(&reload), Use::Validate);
    }

    #[test]
    fn min_fresh_is_the_least_remaining_lifetime() {
        let min_fresh = |seconds| RequestDirectives {
            min_fresh: Some(SECOND * seconds),
            max_stale: Some(Duration::MAX),
            ..NONE
        };
        assert_eq!(stored(5).use_for(&min_fresh(5)), Use::Serve);
        assert_eq!(stored(5).use_for(&min_fresh(6)), Use::Validate);
        assert_eq!(stored(10).use_for(&min_fresh(1)), Use::Validate);
        assert_eq!(stored(10).use_for(&min_fresh(0)), Use::Serve);
    }

    #[test]
    fn max_stale_is_the_largest_staleness_if_the_origin_permits_it() {
        let max_stale = |seconds| RequestDirectives { max_stale: Some(SECOND * seconds), ..NONE };
        assert_eq!(stored(13).use_for(&max_stale(3)), Use::Serve);
        assert_eq!(stored(13).use_for(&max_stale(2)), Use::Validate);
        assert_eq!(Stored { may_be_stale: false, ..stored(13) }.use_for(&max_stale(3)), Use::Validate);
    }

    #[test]
    fn stale_response_is_served_within_its_grace_period() {
        let stored = |age| Stored { stale_while_revalidate: SECOND * 4, may_be_stale: false, ..stored(age) };
        assert_eq!(stored(9).use_for(&NONE), Use::Serve);
        assert_eq!(stored(13).use_for(&NONE), Use::ServeAndValidate);
        assert_eq!(stored(14).use_for(&NONE), Use::Validate);
    }

    #[test]
    fn only_if_cached_never_validates() {
        let only_if_cached = RequestDirectives { only_if_cached: true, ..NONE };
        assert_eq!(stored(9).use_for(&only_if_cached), Use::Serve);
        assert_eq!(stored(10).use_for(&only_if_cached), Use::Unavailable);
        assert_eq!(Stored { must_validate: true, ..stored(0) }.use_for(&only_if_cached), Use::Unavailable);
    }

    #[test]
    fn error_of_the_origin_is_replaced_if_either_side_grants_it() {
        let by_client = RequestDirectives { stale_if_error: Some(SECOND * 3), ..NONE };
        let by_origin = |age| Stored { stale_if_error: SECOND * 3, ..stored(age) };
        assert!(by_origin(12).is_served_on_error(&NONE));
        assert!(!by_origin(13).is_served_on_error(&NONE));
        assert!(!by_origin(12).is_served_on_error(&RequestDirectives { no_cache: true, ..NONE }));
        assert!(stored(12).is_served_on_error(&by_client));
        assert!(!stored(13).is_served_on_error(&by_client));
        assert!(!Stored { may_be_stale: false, ..stored(12) }.is_served_on_error(&by_client));
        assert!(!Stored { must_validate: true, ..by_origin(12) }.is_served_on_error(&NONE));
    }

    #[test]
    fn older_response_is_never_more_useful() {
        let rank = |usable: Use| match usable {
            Use::Serve => 2,
            Use::ServeAndValidate => 1,
            Use::Validate | Use::Unavailable => 0,
        };
        let some = |(is_present, seconds): (bool, u8)| is_present.then_some(SECOND * u32::from(seconds % 16));
        type Limit = (bool, u8);
        type Input = ([u8; 5], [bool; 5], Limit, Limit, Limit, Limit);
        bolero::check!().with_type::<Input>().with_iterations(crate::fuzz::ITERATIONS).for_each(|input| {
            let ([age, more, lifetime, grace, on_error], flags, max_age, max_stale, min_fresh, by_client) =
                input;
            let [age, more, lifetime, grace, on_error] =
                [age, more, lifetime, grace, on_error].map(|seconds| SECOND * u32::from(seconds % 16));
            let [may_be_stale, must_validate, is_immutable, no_cache, only_if_cached] = *flags;
            let request = RequestDirectives {
                no_cache,
                only_if_cached,
                // It prefers a stale response to one that is validated in the background: the two are not ordered.
                max_stale: some(*max_stale).filter(|_| grace.is_zero()),
                max_age: some(*max_age),
                min_fresh: some(*min_fresh),
                stale_if_error: some(*by_client),
                ..NONE
            };
            let at = |age| Stored {
                age,
                lifetime,
                stale_while_revalidate: grace,
                stale_if_error: on_error,
                may_be_stale,
                must_validate,
                is_immutable,
            };
            let (young, old) = (at(age), at(age + more));
            assert!(rank(young.use_for(&request)) >= rank(old.use_for(&request)), "{young:?} {request:?}");
            assert!(
                young.is_served_on_error(&request) >= old.is_served_on_error(&request),
                "{young:?} {request:?}"
            );
        });
    }
}
