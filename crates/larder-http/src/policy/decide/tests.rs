//! Settings, and the decision whether a response may be stored.

use std::sync::Arc;

use http::StatusCode;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn response(status: u16, fields: &[(&'static str, &'static str)]) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap()
}

fn planned(response: &mut Response<()>, ctx: &CacheCtx) -> Result<Plan, Reason> {
    plan(response, ctx, &Rules::default(), Asked::default(), Duration::ZERO)
}

fn opted_in(mut response: Response<()>) -> Result<Plan, Reason> {
    response.extensions_mut().insert(Cached::ttl(MINUTE));
    planned(&mut response, &CacheCtx::default())
}

#[test]
fn response_without_settings_is_not_stored() {
    let outcome = planned(&mut response(200, &[]), &CacheCtx::default());
    assert_eq!(outcome.unwrap_err(), Reason::NotOptedIn);
}

#[test]
fn settings_merge_to_lowest_ttl_and_all_tags() {
    let ctx = CacheCtx::default();
    ctx.ttl(Duration::from_secs(10));
    ctx.tag("deep");
    let mut response = response(200, &[]);
    response.extensions_mut().insert(Cached::ttl(MINUTE).swr(MINUTE).tag("top"));
    let plan = planned(&mut response, &ctx).unwrap();
    assert_eq!((plan.ttl, plan.grace), (Duration::from_secs(10), MINUTE));
    assert_eq!(plan.tags, ["deep", "top"].map(Box::<str>::from));
}

#[test]
fn tags_are_any_text_and_each_once() {
    let (ctx, owned, shared) = (CacheCtx::default(), "product:7".to_owned(), Arc::<str>::from("product:7"));
    ctx.ttl(MINUTE);
    ctx.tag(&owned);
    ctx.tag(shared);
    let mut response = response(200, &[]);
    response.extensions_mut().insert(Cached::ttl(MINUTE).tag(owned).tag("top"));
    let plan = planned(&mut response, &ctx).unwrap();
    assert_eq!(plan.tags, ["product:7", "top"].map(Box::<str>::from));
}

#[test]
fn lowest_limit_lowers_the_ttl_and_opts_in_to_nothing() {
    let ttl_of = |limits: &[u64], own: Option<u64>| {
        let ctx = CacheCtx::default();
        limits.iter().for_each(|limit| ctx.limit_ttl(Duration::from_secs(*limit)));
        let mut response = response(200, &[]);
        own.map(|own| {
            response.extensions_mut().insert(Cached::ttl(MINUTE).limit_ttl(Duration::from_secs(own)))
        });
        planned(&mut response, &ctx).map(|plan| plan.ttl.as_secs())
    };
    assert_eq!(ttl_of(&[], Some(70)), Ok(60));
    assert_eq!(ttl_of(&[9, 7, 8], Some(70)), Ok(7));
    assert_eq!(ttl_of(&[9], Some(5)), Ok(5));
    assert_eq!(ttl_of(&[9, 0], Some(5)), Err(Reason::ZeroTtl));
    assert_eq!(ttl_of(&[9], None), Err(Reason::NotOptedIn));
}

#[test]
fn forbid_wins_over_any_ttl() {
    let ctx = CacheCtx::default();
    ctx.forbid("has a cart");
    let mut opted = response(200, &[]);
    opted.extensions_mut().insert(Cached::ttl(MINUTE));
    assert_eq!(planned(&mut opted, &ctx).unwrap_err(), Reason::Forbidden);
    assert_eq!(opted.extensions().get(), Some(&ForbiddenBecause("has a cart")));
    ctx.forbid("still");
    assert_eq!(planned(&mut response(200, &[]), &ctx).unwrap_err(), Reason::Forbidden);
}

#[test]
fn personal_headers_override_settings() {
    for (fields, reason) in [
        (&[("set-cookie", "a=b")][..], Reason::SetCookie),
        (&[("cache-control", "max-age=60, No-Store")], Reason::NoStore),
        (&[("cache-control", "PRIVATE")], Reason::Private),
        (&[("cache-control", "max-age=60, No-Cache")], Reason::NoCache),
        (&[("vary", "*")], Reason::VaryAny),
        (&[("vary", "cookie")], Reason::VaryCredentials),
        (&[("access-control-allow-origin", "https://a.example")], Reason::Cors),
    ] {
        assert_eq!(opted_in(response(200, fields)).unwrap_err(), reason, "{fields:?}");
    }
    assert!(opted_in(response(200, &[("access-control-allow-origin", "*")])).is_ok());
    let varies = [("access-control-allow-origin", "https://a.example"), ("vary", "Origin")];
    assert!(opted_in(response(200, &varies)).is_ok());
}

#[test]
fn non_200_requires_opt_in_and_some_statuses_are_never_stored() {
    let allowed: Vec<_> = (200..600).map(|code| StatusCode::from_u16(code).unwrap()).collect();
    for (code, stored) in [
        (200, true),
        (201, false),
        (204, false),
        (206, false),
        (301, true),
        (304, false),
        (400, false),
        (404, true),
        (410, true),
        (413, false),
        (414, false),
        (431, false),
        (500, true),
    ] {
        let mut with = response(code, &[]);
        with.extensions_mut().insert(Cached::ttl(MINUTE).cached_errors(allowed.clone()));
        let with = planned(&mut with, &CacheCtx::default());
        assert_eq!(with.is_ok(), stored, "{code}");
        assert_eq!(opted_in(response(code, &[])).is_ok(), code == 200, "{code} without cached_errors");
    }
}

#[test]
fn durations_are_capped_at_a_year_and_below_a_millisecond_is_zero() {
    let mut long = response(200, &[]);
    long.extensions_mut().insert(Cached::ttl(Duration::MAX).swr(Duration::MAX));
    let plan_of = |mut response| planned(&mut response, &CacheCtx::default());
    let long = plan_of(long).unwrap();
    assert_eq!((long.ttl, long.grace), (MAX_TTL, MAX_TTL));
    let mut short = response(200, &[]);
    short.extensions_mut().insert(Cached::ttl(Duration::from_micros(999)));
    assert_eq!(plan_of(short).unwrap_err(), Reason::ZeroTtl);
}

#[test]
fn s_maxage_limits_ttl_less_the_age() {
    let plan = opted_in(response(200, &[("cache-control", "s-maxage=30"), ("age", "10")])).unwrap();
    assert_eq!((plan.ttl, plan.age), (Duration::from_secs(20), Duration::from_secs(10)));
    let old = response(200, &[("cache-control", "s-maxage=30"), ("age", "30"), ("age", "5")]);
    assert_eq!(opted_in(old).unwrap_err(), Reason::ZeroTtl);
    assert_eq!(opted_in(response(200, &[("age", "500")])).unwrap().ttl, MINUTE);
}

#[test]
fn age_is_the_first_member_of_a_list() {
    for (fields, age) in [
        (&[("age", "7200, 0")][..], 7200),
        (&[("age", " 0 ,7200")], 0),
        (&[("age", "7200"), ("age", "0")], 7200),
        (&[("age", "\"5\",9")], 5),
        (&[("age", "x, 7200")], 0),
        (&[("age", ", 7200")], 0),
        (&[("age", "")], 0),
    ] {
        assert_eq!(opted_in(response(200, fields)).unwrap().age, Duration::from_secs(age), "{fields:?}");
    }
}

#[test]
fn too_many_tags_prevent_storing() {
    let ctx = CacheCtx::default();
    ctx.ttl(MINUTE);
    (0..=MAX_TAGS).for_each(|n| ctx.tag(n.to_string()));
    assert_eq!(planned(&mut response(200, &[]), &ctx).unwrap_err(), Reason::TooManyTags);
}
