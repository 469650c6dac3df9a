//! What the parts say about a key or a URL.

use std::future::{Future, ready};
use std::pin::Pin;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// What a part would do with a key or a URL.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// What a request would get, and why, in one sentence.
    pub verdict: String,
    /// What the part knows, by names in lower-case words joined by `_` with the unit last, such as `age_seconds`. JSON and
    /// `larder explain` have them in this order.
    #[serde(serialize_with = "as_object")]
    pub facts: Vec<(&'static str, Value)>,
}

impl Explanation {
    /// An explanation without facts.
    pub fn new(verdict: impl Into<String>) -> Explanation {
        Explanation { verdict: verdict.into(), facts: Vec::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: impl Into<Value>) -> Explanation {
        self.facts.push((name, value.into()));
        self
    }
}

/// An explanation, or `None` for a target that is none of the part.
pub type ExplainFuture<'a> = Pin<Box<dyn Future<Output = Option<Explanation>> + Send + 'a>>;

/// Explains keys or URLs of a part. Implemented by every closure that does so without waiting.
pub trait Explainer: Send + Sync {
    /// What the part would do with a target; `None` if it is no target of this part. It must not change anything. One that
    /// asks a database must bound the time that it waits: the parts are asked at once, and the answer has all of them. If it
    /// panics, the answer says so in place of an explanation.
    fn explain<'a>(&'a self, target: &'a str) -> ExplainFuture<'a>;
}

impl<F: Fn(&str) -> Option<Explanation> + Send + Sync> Explainer for F {
    fn explain<'a>(&'a self, target: &'a str) -> ExplainFuture<'a> {
        Box::pin(ready(self(target)))
    }
}

fn as_object<S: Serializer>(facts: &[(&'static str, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(facts.iter().map(|(name, value)| (name, value)))
}
