//! The rules of the operator: which requests each is for, and what it sets for them.
//!
//! ```text
//! request ─ find ─► the first rule that is for it ─┬─ bypass ─► origin
//!                                                  └─ cache ──► origin ─ response: TTL, key, scope, tags ─► cache
//! ```
//!
//! One rule applies to a request, the first one: nobody has to merge rules in the head to know what happens.

mod canonical_path;
mod check;
pub(crate) mod config;
mod credentials;
mod matching;
pub(crate) mod response;
mod tag_fields;

use crate::error::ProxyError;
use crate::rules::canonical_path::canonical;
use crate::rules::config::{GateConfig, RuleBody, RuleConfig, RuleScope};
use crate::rules::matching::Match;
use crate::rules::tag_fields::TagFields;
use http::Uri;
use http::header::{HeaderName, HeaderValue};
use larder_http::Scope;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use credentials::Credentials;

/// All rules, in the order of the configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Rules(Arc<[Arc<Rule>]>);

/// A rule, checked.
#[derive(Debug)]
pub(crate) struct Rule {
    requests: Match,
    /// Its requests go past the cache.
    pub(crate) is_bypass: bool,
    /// The path of the GraphQL endpoint that its requests are for.
    pub(crate) graphql_path: Option<String>,
    /// What the gate sees of its requests. Only a rule with a scope has some.
    pub(crate) credentials: Credentials,
    ttl: Option<Duration>,
    grace: Option<Duration>,
    scope: Option<Scope>,
    no_vary_search: Option<HeaderValue>,
    vary: Vec<HeaderName>,
    tag_fields: TagFields,
}

impl Rules {
    /// Checks the rules, each alone, against each other, and against the gate.
    ///
    /// # Errors
    /// The first rule that is wrong, and why.
    pub(crate) fn new(rules: &[RuleConfig], gate: Option<&GateConfig>) -> Result<Rules, ProxyError> {
        check::count(rules)?;
        let compiled: Vec<Arc<Rule>> = rules
            .iter()
            .enumerate()
            .map(|(index, config)| {
                let rule = check::rule(config, gate.is_some()).and_then(|()| Rule::new(config));
                rule.map(Arc::new)
                    .map_err(|reason| ProxyError::Rule { rule: check::name(index, config), reason })
            })
            .collect::<Result<_, _>>()?;
        for (index, rule) in compiled.iter().enumerate() {
            if let Some(first) =
                compiled[..index].iter().position(|first| first.requests.covers(&rule.requests))
            {
                return Err(ProxyError::Rule {
                    rule: check::name(index, &rules[index]),
                    reason: format!(
                        "it never applies: {} is for all of its requests",
                        check::name(first, &rules[first])
                    ),
                });
            }
        }
        if let Some(gate) = gate {
            check::gate(gate, compiled.iter().any(|rule| rule.scope.is_some()))?;
        }
        Ok(Rules(compiled.into()))
    }

    /// The rule of a request with this target: the first one that is for it.
    pub(crate) fn find(&self, target: &Uri) -> Option<&Arc<Rule>> {
        if self.0.is_empty() {
            return None;
        }
        let path = canonical(target.path());
        self.0.iter().find(|rule| rule.requests.is_for(target, &path))
    }

    /// The paths of all GraphQL endpoints.
    pub(crate) fn graphql_paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|rule| rule.graphql_path.as_deref())
    }
}

impl Rule {
    /// Of a configuration that was checked for contradictions.
    fn new(config: &RuleConfig) -> Result<Rule, String> {
        let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
        Ok(Rule {
            requests: Match::new(config)?,
            is_bypass: config.bypass,
            graphql_path: config.path.clone().filter(|_| config.body == Some(RuleBody::Graphql)),
            credentials: Credentials {
                cookies: config.cookies.clone(),
                headers: check::fields("headers", &config.headers)?,
            },
            ttl: seconds(config.ttl_seconds),
            grace: seconds(config.grace_seconds),
            scope: config.scope.map(|scope| match scope {
                RuleScope::Gated => Scope::Gated,
                RuleScope::Private => Scope::Private,
            }),
            no_vary_search: no_vary_search(&config.ignore_query),
            vary: check::fields("vary", &config.vary)?,
            tag_fields: TagFields::new(&config.tags),
        })
    }

    /// Whether the gate decides who may have its responses.
    pub(crate) fn is_gated(&self) -> bool {
        self.scope.is_some()
    }
}

/// The `No-Vary-Search` that ignores these parameters (draft-ietf-httpbis-no-vary-search, section 2.1.2). Their names are escaped
/// as in a query, so that any name is a valid string.
fn no_vary_search(names: &[String]) -> Option<HeaderValue> {
    if names.is_empty() {
        return None;
    }
    let mut value = String::from("params=(");
    for (index, name) in names.iter().enumerate() {
        value.push_str(if index == 0 { "\"" } else { " \"" });
        for byte in name.bytes() {
            match byte {
                byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                    value.push(char::from(byte))
                }
                byte => value.push_str(&format!("%{byte:02X}")),
            }
        }
        value.push('"');
    }
    value.push(')');
    Some(HeaderValue::from_str(&value).expect("it is visible ASCII"))
}
