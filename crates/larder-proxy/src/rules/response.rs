//! What changes in responses before the cache sees them: by the rule of a request, and where no key tells them apart.

use crate::fields::arrival;
use crate::rules::Rule;
use crate::rules::tag_fields::TagFields;
use http::header::{HeaderName, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use larder_http::CacheCtx;

const NO_VARY_SEARCH: HeaderName = HeaderName::from_static("no-vary-search");

/// The statuses that a TTL of a rule is for. Without the origin's word no other response is stored: a failure, or a redirect to a
/// login, would answer for the page itself.
const WITH_RULE_TTL: [u16; 9] = [200, 203, 204, 300, 301, 304, 308, 404, 410];

/// Applies the rule of a request to its response. `ctx` is of the cache; without it the response does not go there.
pub(crate) fn apply<B>(rule: Option<&Rule>, ctx: Option<&CacheCtx>, response: &mut Response<B>) {
    let tag_fields = rule.map_or(TagFields::ALL, |rule| rule.tag_fields);
    tag_fields.take(response.headers_mut(), |tag| {
        if let Some(ctx) = ctx {
            ctx.tag(tag);
        }
    });
    let Some(ctx) = ctx else { return };
    if arrival::is_varied_by(response.headers()) {
        ctx.forbid("it varies by the client");
    }
    let Some(rule) = rule else { return };
    if let Some(ttl) = rule.ttl.filter(|_| WITH_RULE_TTL.contains(&response.status().as_u16())) {
        ctx.ttl(ttl);
    }
    if let Some(grace) = rule.grace {
        ctx.swr(grace);
    }
    if let Some(scope) = rule.scope {
        ctx.scope(scope);
    }
    // A 304 replaces the stored fields that it has, so one that has none of these leaves what was added to them before.
    let is_304 = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    if let Some(value) = &rule.no_vary_search
        && !is_304
        && !headers.contains_key(NO_VARY_SEARCH)
    {
        headers.insert(NO_VARY_SEARCH, value.clone());
    }
    if !is_304 || headers.contains_key(VARY) {
        for name in &rule.vary {
            add_to_vary(headers, name);
        }
    }
}

fn add_to_vary(headers: &mut HeaderMap, name: &HeaderName) {
    let lines = headers.get_all(VARY).iter().map(HeaderValue::as_bytes);
    let mut members = lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    if !members.any(|member| member.eq_ignore_ascii_case(name.as_str().as_bytes())) {
        headers.append(VARY, HeaderValue::from(name.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use crate::rules::config::RuleConfig;

    fn applied(status: u16, fields: &[(&'static str, &'static str)]) -> Vec<String> {
        let config = RuleConfig {
            path: Some("/".into()),
            ignore_query: vec!["utm_source".into(), "a b\"".into()],
            vary: vec!["x-tenant".into(), "accept".into()],
            ..RuleConfig::default()
        };
        let rules = Rules::new(&[config], None).unwrap();
        let rule = rules.find(&"http://h/".parse().unwrap()).unwrap();
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in fields {
            response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        apply(Some(rule), Some(&CacheCtx::default()), &mut response);
        response
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn fields_of_the_key_are_added_to_those_of_the_origin() {
        let params = "no-vary-search: params=(\"utm_source\" \"a%20b%22\")";
        assert_eq!(applied(200, &[]), [params, "vary: x-tenant", "vary: accept"]);
        assert_eq!(
            applied(200, &[("vary", "Cookie, Accept")]),
            ["vary: Cookie, Accept", "vary: x-tenant", params]
        );
        let own = applied(200, &[("no-vary-search", "key-order")]);
        assert!(own.contains(&"no-vary-search: key-order".to_owned()) && !own.contains(&params.to_owned()));
    }

    #[test]
    fn validation_adds_nothing_to_what_it_leaves() {
        assert_eq!(applied(304, &[]), [""; 0]);
        assert_eq!(applied(304, &[("vary", "accept")]), ["vary: accept", "vary: x-tenant"]);
    }

    #[test]
    fn response_without_a_rule_loses_its_tags_alone() {
        let mut response = Response::new(());
        response.headers_mut().insert("xkey", HeaderValue::from_static("a"));
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        apply(None, None, &mut response);
        assert_eq!(response.headers().keys().collect::<Vec<_>>(), ["vary"]);
    }
}
