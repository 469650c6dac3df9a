//! Checks rules for values out of their range, and for options that contradict each other or have no effect.

use crate::error::ProxyError;
use crate::rules::config::{GateConfig, RuleConfig, TagConfig};
use http::header::HeaderName;
use http::uri::PathAndQuery;
use std::ops::RangeInclusive;

const MAX_RULES: usize = 256;
const MAX_PARAMETERS: usize = 64;
const MAX_PARAMETER_BYTES: usize = 128;
/// A response varies by at most 16 fields, those of its origin included.
const MAX_VARY: usize = 8;
const MAX_CREDENTIALS: usize = 16;
const YEAR_SECONDS: u64 = 31_536_000;
/// Fields that the question to the gate has already, or that would make another message of it.
const NO_CREDENTIALS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-original-method",
    "x-original-uri",
];

/// How an error names a rule: by its number, from one on, and what it is for.
pub(super) fn name(index: usize, config: &RuleConfig) -> String {
    let parts = [("host", &config.host), ("path", &config.path), ("pattern", &config.pattern)];
    let parts =
        parts.iter().filter_map(|(key, value)| value.as_ref().map(|value| format!("{key} {value:?}")));
    let parts = parts.collect::<Vec<_>>().join(", ");
    format!("rule {} ({})", index + 1, if parts.is_empty() { "all requests" } else { &parts })
}

/// Checks the number of rules.
pub(super) fn count(rules: &[RuleConfig]) -> Result<(), ProxyError> {
    if rules.len() <= MAX_RULES {
        return Ok(());
    }
    Err(wrong("rules", format!("{} rules", rules.len()), format!("at most {MAX_RULES}")))
}

/// Checks what a rule sets. The error says what is wrong with it.
pub(super) fn rule(config: &RuleConfig, has_gate: bool) -> Result<(), String> {
    let RuleConfig {
        ttl_seconds,
        grace_seconds,
        bypass,
        ignore_query,
        vary,
        body,
        scope,
        cookies,
        headers,
        tags,
        ..
    } = config;
    let is_set = [
        ("ttl_seconds", ttl_seconds.is_some()),
        ("grace_seconds", grace_seconds.is_some()),
        ("ignore_query", !ignore_query.is_empty()),
        ("vary", !vary.is_empty()),
        ("body", body.is_some()),
        ("scope", scope.is_some()),
        ("cookies", !cookies.is_empty()),
        ("headers", !headers.is_empty()),
    ];
    let first_set = is_set.iter().find(|(_, is_set)| *is_set).map(|(key, _)| *key);
    match first_set {
        Some(key) if *bypass => return Err(format!("bypass excludes {key}: nothing is stored")),
        None if !bypass && *tags == TagConfig::default() => return Err("it sets nothing".to_owned()),
        _ => {}
    }
    if *tags == TagConfig::Fields(Vec::new()) {
        return Err("tags is an empty list, expected false".to_owned());
    }
    in_range("ttl_seconds", *ttl_seconds, 1..=YEAR_SECONDS)?;
    in_range("grace_seconds", *grace_seconds, 1..=YEAR_SECONDS)?;
    if body.is_some() && config.path.is_none() {
        return Err("body needs path, the path of the endpoint".to_owned());
    }
    if body.is_some() && !ignore_query.is_empty() {
        return Err("body excludes ignore_query: an endpoint understands all of its parameters".to_owned());
    }
    at_most("ignore_query", ignore_query, MAX_PARAMETERS)?;
    if let Some(name) = ignore_query.iter().find(|name| !is_parameter(name)) {
        return Err(format!(
            "ignore_query has {name:?}, expected the names of parameters, each whole and without *"
        ));
    }
    at_most("vary", vary, MAX_VARY)?;
    scoped(config, has_gate)
}

/// Checks what concerns the gate.
fn scoped(config: &RuleConfig, has_gate: bool) -> Result<(), String> {
    let RuleConfig { grace_seconds, scope, cookies, headers, .. } = config;
    at_most("cookies", cookies, MAX_CREDENTIALS)?;
    at_most("headers", headers, MAX_CREDENTIALS)?;
    if let Some(name) = cookies.iter().find(|name| HeaderName::from_bytes(name.as_bytes()).is_err()) {
        return Err(format!("cookies has {name:?}, expected the names of cookies"));
    }
    let is_no_credential = |name: &&String| NO_CREDENTIALS.iter().any(|own| own.eq_ignore_ascii_case(name));
    if let Some(name) = headers.iter().find(is_no_credential) {
        return Err(format!("headers has {name:?}, which is no credential"));
    }
    let has_cookie_field = headers.iter().any(|name| name.eq_ignore_ascii_case("cookie"));
    match (scope, cookies.is_empty(), headers.is_empty()) {
        (None, true, true) => Ok(()),
        (None, false, _) => Err("cookies needs scope: without one nobody looks at them".to_owned()),
        (None, _, false) => Err("headers needs scope: without one nobody looks at them".to_owned()),
        (Some(_), true, true) => {
            Err("scope needs cookies or headers, by which the gate knows a client".to_owned())
        }
        (Some(_), false, _) if has_cookie_field => {
            Err("cookies excludes the field cookie in headers, which is all cookies".to_owned())
        }
        (Some(_), ..) if !has_gate => Err("scope needs a gate: set path in [proxy.gate]".to_owned()),
        (Some(_), ..) if grace_seconds.is_some() => {
            Err("scope excludes grace_seconds: what the gate guards is never served stale".to_owned())
        }
        (Some(_), ..) => Ok(()),
    }
}

/// Checks the gate. Without a rule that needs it, it has no effect.
pub(super) fn gate(config: &GateConfig, is_used: bool) -> Result<(), ProxyError> {
    let GateConfig { path, principal_header, ttl_seconds, timeout_ms } = config;
    if !path.starts_with('/') || path.contains('#') || PathAndQuery::try_from(path.as_str()).is_err() {
        return Err(wrong("gate.path", format!("{path:?}"), "a path of the origin, such as /auth/check"));
    }
    if HeaderName::from_bytes(principal_header.as_bytes()).is_err() {
        return Err(wrong("gate.principal_header", format!("{principal_header:?}"), "the name of a field"));
    }
    if *ttl_seconds > 3_600 {
        return Err(wrong("gate.ttl_seconds", ttl_seconds.to_string(), "0 to 3600"));
    }
    if !(10..=600_000).contains(timeout_ms) {
        return Err(wrong("gate.timeout_ms", timeout_ms.to_string(), "10 to 600000"));
    }
    if !is_used {
        return Err(wrong("gate", "set", "a rule with a scope, since no other rule asks it"));
    }
    Ok(())
}

/// The names of fields. The error says which is none.
pub(super) fn fields(key: &str, names: &[String]) -> Result<Vec<HeaderName>, String> {
    let parse = |name: &String| {
        let field = HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| name != "*");
        field.ok_or_else(|| format!("{key} has {name:?}, expected the names of fields"))
    };
    names.iter().map(parse).collect()
}

fn is_parameter(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_PARAMETER_BYTES && !name.contains('*')
}

fn at_most(key: &str, names: &[String], limit: usize) -> Result<(), String> {
    if names.len() <= limit {
        return Ok(());
    }
    Err(format!("{key} has {} names, expected at most {limit}", names.len()))
}

fn in_range(key: &str, value: Option<u64>, range: RangeInclusive<u64>) -> Result<(), String> {
    match value.filter(|value| !range.contains(value)) {
        None => Ok(()),
        Some(value) => Err(format!("{key} is {value}, expected {} to {}", range.start(), range.end())),
    }
}

fn wrong(field: &'static str, value: impl Into<String>, expected: impl Into<String>) -> ProxyError {
    ProxyError::Config { field, value: value.into(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use crate::rules::Rules;
    use crate::rules::config::{GateConfig, RuleConfig};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        rules: Vec<RuleConfig>,
        gate: Option<GateConfig>,
    }

    fn parse(text: &str) -> Result<Rules, String> {
        let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        Rules::new(&file.rules, file.gate.as_ref()).map_err(|error| error.to_string())
    }

    #[test]
    fn first_rule_for_a_request_applies() {
        let rules = parse(
            "[[rules]]\npath = '/shop/cart'\nbypass = true\n\
             [[rules]]\nhost = 'a.example'\npath = '/shop'\nttl_seconds = 60\n\
             [[rules]]\npattern = '*.js'\nttl_seconds = 90\n",
        )
        .unwrap();
        let found =
            |target: &str| rules.find(&target.parse().unwrap()).map(|rule| (rule.is_bypass, rule.ttl));
        let seconds = |seconds| Some(std::time::Duration::from_secs(seconds));
        assert_eq!(found("http://a.example/shop/cart/1.js"), Some((true, None)));
        assert_eq!(found("http://a.example/shop/a.js"), Some((false, seconds(60))));
        assert_eq!(found("http://b.example/shop/a.js"), Some((false, seconds(90))));
        assert_eq!(found("http://b.example/shop/a"), None);
        assert!(parse("").unwrap().find(&"http://a/".parse().unwrap()).is_none());
    }

    #[test]
    fn every_key_is_understood() {
        parse(
            "[[rules]]\nhost = '*.example.com'\npath = '/a'\nttl_seconds = 60\ngrace_seconds = 30\nignore_query = ['x']\n\
             vary = ['x-tenant']\ntags = ['surrogate-key', 'cache-tag', 'xkey']\n\
             [[rules]]\npath = '/graphql'\nbody = 'graphql'\nscope = 'private'\ncookies = ['session']\nheaders = ['x-key']\n\
             [[rules]]\npattern = '/b*'\nbypass = true\ntags = false\n\
             [gate]\npath = '/auth/check?x'\nprincipal_header = 'x-user'\nttl_seconds = 5\ntimeout_ms = 100\n",
        )
        .unwrap();
    }

    #[test]
    fn contradictions_are_errors_that_name_the_rule_and_both_keys() {
        let gate = "[gate]\npath = '/g'\n";
        for (text, expected) in [
            (
                "bypass = true\nttl_seconds = 1\n",
                "rule 1 (path \"/a\"): bypass excludes ttl_seconds: nothing is stored",
            ),
            ("bypass = true\nvary = ['x']\n", "rule 1 (path \"/a\"): bypass excludes vary"),
            ("", "rule 1 (path \"/a\"): it sets nothing"),
            ("ttl_seconds = 0\n", "rule 1 (path \"/a\"): ttl_seconds is 0, expected 1 to 31536000"),
            ("grace_seconds = 31536001\n", "rule 1 (path \"/a\"): grace_seconds is 31536001, expected 1 to"),
            (
                "pattern = '/b*'\nttl_seconds = 1\n",
                "rule 1 (path \"/a\", pattern \"/b*\"): path excludes pattern",
            ),
            (
                "ignore_query = ['utm_*']\n",
                "rule 1 (path \"/a\"): ignore_query has \"utm_*\", expected the names of",
            ),
            ("vary = ['*']\n", "rule 1 (path \"/a\"): vary has \"*\", expected the names of fields"),
            (
                "vary = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']\n",
                "rule 1 (path \"/a\"): vary has 9 names, expected at most 8",
            ),
            ("tags = []\n", "rule 1 (path \"/a\"): tags is an empty list, expected false"),
            ("tags = 7\n", "expected true, false, or a list of surrogate-key, cache-tag and xkey"),
            ("tags = ['other']\n", "expected true, false, or a list of surrogate-key, cache-tag and xkey"),
            ("ttl = 7\n", "unknown field `ttl`, expected one of `host`, `path`, "),
            ("body = 'xml'\n", "unknown variant `xml`, expected `graphql`"),
            ("body = 'graphql'\nignore_query = ['x']\n", "rule 1 (path \"/a\"): body excludes ignore_query"),
            ("cookies = ['s']\n", "rule 1 (path \"/a\"): cookies needs scope"),
            ("headers = ['s']\n", "rule 1 (path \"/a\"): headers needs scope"),
            ("scope = 'gated'\n", "rule 1 (path \"/a\"): scope needs cookies or headers"),
            (
                "scope = 'gated'\ncookies = ['s']\n",
                "rule 1 (path \"/a\"): scope needs a gate: set path in [proxy.gate]",
            ),
            (
                "scope = 'gated'\ncookies = ['s p']\n",
                "rule 1 (path \"/a\"): cookies has \"s p\", expected the names",
            ),
        ] {
            let message = parse(&format!("[[rules]]\npath = '/a'\n{text}")).unwrap_err();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
        for (text, expected) in [
            ("grace_seconds = 1\ncookies = ['s']\n", "rule 1 (path \"/a\"): scope excludes grace_seconds"),
            ("headers = ['Host']\n", "rule 1 (path \"/a\"): headers has \"Host\", which is no credential"),
            (
                "headers = ['s p']\n",
                "rule 1 (path \"/a\"): headers has \"s p\", expected the names of fields",
            ),
            (
                "cookies = ['s']\nheaders = ['Cookie']\n",
                "rule 1 (path \"/a\"): cookies excludes the field cookie",
            ),
        ] {
            let rule = format!("[[rules]]\npath = '/a'\nscope = 'gated'\n{text}{gate}");
            let message = parse(&rule).unwrap_err();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
        let pathless = parse("[[rules]]\nbody = 'graphql'\n").unwrap_err();
        assert_eq!(pathless, "rule 1 (all requests): body needs path, the path of the endpoint");
    }

    #[test]
    fn rule_that_never_applies_is_an_error_that_names_both() {
        let rule = |text: &str| format!("[[rules]]\n{text}ttl_seconds = 1\n");
        let message = parse(&(rule("path = '/a'\n") + &rule("host = 'h'\npath = '/a/b'\n"))).unwrap_err();
        assert_eq!(
            message,
            "rule 2 (host \"h\", path \"/a/b\"): it never applies: rule 1 (path \"/a\") is for all of its requests"
        );
        let message = parse(&(rule("") + &rule("pattern = '*.js'\n"))).unwrap_err();
        assert!(message.ends_with("rule 1 (all requests) is for all of its requests"), "{message}");
        parse(&(rule("path = '/a/b'\n") + &rule("path = '/a'\n") + &rule(""))).unwrap();
        let message = parse(&(0..257).map(|index| rule(&format!("path = '/{index}'\n"))).collect::<String>())
            .unwrap_err();
        assert_eq!(message, "rules is 257 rules, expected at most 256");
    }

    #[test]
    fn wrong_gate_is_an_error() {
        let rule = "[[rules]]\nscope = 'gated'\ncookies = ['s']\n";
        for (rule, gate, expected) in [
            (rule, "", "gate.path is \"\", expected a path of the origin, such as /auth/check"),
            (rule, "path = 'x'\n", "gate.path is \"x\", expected"),
            (rule, "path = '/a b'\n", "gate.path is \"/a b\", expected"),
            (
                rule,
                "path = '/a'\nprincipal_header = ''\n",
                "gate.principal_header is \"\", expected the name",
            ),
            (rule, "path = '/a'\nttl_seconds = 3601\n", "gate.ttl_seconds is 3601, expected 0 to 3600"),
            (rule, "path = '/a'\ntimeout_ms = 9\n", "gate.timeout_ms is 9, expected 10 to 600000"),
            (rule, "path = '/a'\nttl = 9\n", "unknown field `ttl`, expected one of `path`, "),
            ("", "path = '/a'\n", "gate is set, expected a rule with a scope"),
        ] {
            let message = parse(&format!("{rule}[gate]\n{gate}")).unwrap_err();
            assert!(message.starts_with(expected), "{gate:?}: {message}");
        }
    }
}
