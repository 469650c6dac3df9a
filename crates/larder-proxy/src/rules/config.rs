//! The rules and the gate, as the configuration file has them.
//!
//! ```toml
//! [[proxy.rules]]
//! path = "/shop"
//! ttl_seconds = 60
//! ```

use serde::{Deserialize, Serialize};

/// A rule: the requests that it is for, and what it sets for them. Unknown keys are errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RuleConfig {
    /// The host, such as `example.com`, or `*.example.com` for all below it. Default: all hosts.
    pub host: Option<String>,
    /// The path, with all that is below it; with `body` this path alone. Default: all paths.
    pub path: Option<String>,
    /// A glob of whole paths, such as `*.jpg`: `*` is any text, also with slashes. Instead of `path`.
    pub pattern: Option<String>,
    /// How long a response is fresh, whatever its origin states. Nothing is stored that the origin forbids. Default none, from 1
    /// to 31,536,000 (a year). It is for the statuses 200, 203, 204, 300, 301, 308, 404 and 410.
    pub ttl_seconds: Option<u64>,
    /// How long after that a response is served stale while it is refreshed, if its origin does not say. Default none, from 1 to
    /// 31,536,000.
    pub grace_seconds: Option<u64>,
    /// The requests go to the origin, past the cache. Default false.
    pub bypass: bool,
    /// Names of query parameters that do not change the response, at most 64. Default none.
    pub ignore_query: Vec<String>,
    /// Request fields that the response depends on, although its `Vary` does not name them; at most 8. Default none.
    pub vary: Vec<String>,
    /// What the bodies of requests mean. Default: they mean nothing, and only GET and HEAD are answered from the cache.
    pub body: Option<RuleBody>,
    /// Who may have the stored responses, by the gate. Default: everyone, as far as the origin allows.
    pub scope: Option<RuleScope>,
    /// Cookies by which the gate knows a client, at most 16. Default none; with `scope` a cookie or a field is needed.
    pub cookies: Vec<String>,
    /// Request fields by which the gate knows a client, at most 16. Default none.
    pub headers: Vec<String>,
    /// The response fields that have the tags of a response. Default: all that are known.
    pub tags: TagConfig,
}

/// What the bodies of requests mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleBody {
    /// They are GraphQL requests.
    Graphql,
}

/// Who may have a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleScope {
    /// All whom the gate allows; the response is the same for them.
    Gated,
    /// The principal that the gate names.
    Private,
}

/// The response fields that have tags. They are removed before a client gets the response; other fields stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected true, false, or a list of surrogate-key, cache-tag and xkey")]
pub enum TagConfig {
    /// All that are known, or none.
    All(bool),
    /// These.
    Fields(Vec<TagField>),
}

impl Default for TagConfig {
    fn default() -> TagConfig {
        TagConfig::All(true)
    }
}

/// A response field that has tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagField {
    /// `Surrogate-Key`: tags between spaces.
    SurrogateKey,
    /// `Cache-Tag`: tags between commas.
    CacheTag,
    /// `xkey`: tags between spaces.
    Xkey,
}

/// The gate: a path of the origin that tells who may have gated and private responses. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateConfig {
    /// The path, such as `/auth/check`. Required.
    pub path: String,
    /// The response field that names the principal. Default `x-principal`.
    pub principal_header: String,
    /// How long a verdict is used again for the same question. Default 0: each use of a stored response is asked about. At most
    /// 3,600.
    pub ttl_seconds: u64,
    /// How long the gate may take. Default 5,000, from 10 to 600,000.
    pub timeout_ms: u64,
}

impl Default for GateConfig {
    fn default() -> GateConfig {
        GateConfig {
            path: String::new(),
            principal_header: "x-principal".to_owned(),
            ttl_seconds: 0,
            timeout_ms: 5_000,
        }
    }
}
