//! A node in another language, behind the lines of its process.

use crate::children::child::{Child, Failed};
use crate::children::words::{self, NOTHING, YES, option, word};
use crate::promise::book::Value;
use crate::promise::calls::{NodeCalls, Outcome, load_each};
use crate::promise::node::{Layout, Node};
use crate::promise::rng::Rng;
use larder::{Source, Update};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// So many loads out of a thousand never return in a child.
const ENDLESS_LOADS: u64 = 5;

/// A node in another language. It has no shared bytes: nothing is there under their keys.
#[derive(Debug)]
pub(crate) struct RemoteNode {
    pub(crate) child: Arc<Child>,
    keys: usize,
    rng: Arc<Rng>,
}

/// The words of a value.
fn word_of(value: Value) -> String {
    format!("v{}.{}", value.version, value.write)
}

/// # Panics
/// If it is another value: nobody has stored one.
fn value_of(word: &str) -> Option<Value> {
    let value = || {
        let (version, write) = word.strip_prefix('v')?.split_once('.')?;
        Some(Value { version: version.parse().ok()?, write: write.parse().ok()? })
    };
    (word != NOTHING).then(|| value().unwrap_or_else(|| panic!("a child returns {word:?}")))
}

fn first(answer: Result<Vec<String>, Failed>) -> Option<Value> {
    value_of(answer.ok()?.first()?)
}

fn is_yes(answer: Result<Vec<String>, Failed>) -> bool {
    answer.is_ok_and(|words| words.last().is_some_and(|word| word == YES))
}

impl RemoteNode {
    pub(crate) fn new(child: Arc<Child>, keys: usize, rng: Arc<Rng>) -> Self {
        RemoteNode { child, keys, rng }
    }

    fn tag(key: usize) -> String {
        option("tag", &Node::tag(key))
    }

    /// Whether a child cannot have this key.
    fn lacks(key: usize) -> bool {
        Node::is_shared(key)
    }

    async fn fetch_with(
        &self,
        key: usize,
        mut options: Vec<String>,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<Value> {
        // Half of the tags are added by the loader.
        let (tag, is_early) = (Self::tag(key), key.is_multiple_of(2));
        options.extend(is_early.then(|| tag.clone()));
        let words = [key.to_string()].into_iter().chain(options);
        if self.rng.chance(ENDLESS_LOADS) {
            self.child.call_and_forget("fetch", words);
            return None;
        }
        let mut loading = Some(loading);
        let loader = |_| {
            let (loading, tag) = (loading.take(), tag.clone());
            async move {
                let value = loading.ok_or("it loads twice")?.await?;
                Ok([word_of(value)].into_iter().chain((!is_early).then_some(tag)).collect())
            }
        };
        first(self.child.load("fetch", words, loader).await)
    }

    /// Whether it owes nothing to other nodes and hears of all; otherwise what it says.
    pub(crate) async fn settled(&self) -> Result<(), String> {
        // One that has just started connects with its first call.
        self.read(0).await;
        let state = self.child.call("state", []).await.map_err(|failed| format!("{failed:?}"))?;
        if state == ["full", YES, "0"] { Ok(()) } else { Err(state.join(" ")) }
    }
}

impl NodeCalls for RemoteNode {
    async fn fetch(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<Value> {
        if Self::lacks(key) {
            return None;
        }
        self.fetch_with(key, Vec::new(), loading).await
    }

    /// The child has no leases. One that leaves is a fetch that is cancelled while its loader runs.
    async fn lease(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
        leaves: bool,
    ) -> Option<Value> {
        if !leaves {
            return self.fetch(key, loading).await;
        }
        let begun = Arc::new(Notify::new());
        let begins = begun.clone();
        let loading = async move {
            begins.notify_one();
            loading.await
        };
        tokio::select! {
            found = self.fetch(key, loading) => found,
            () = begun.notified() => None,
        }
    }

    async fn fetch_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>> {
        let (keys, loader) = (Node::tagged_in_memory(key, self.keys), Arc::new(loader));
        let words = keys.iter().map(u64::to_string).chain([Self::tag(key)]);
        let loaded = self.child.load("fetch_many", words, |keys: Vec<String>| {
            let loader = loader.clone();
            async move {
                let keys: Vec<u64> = keys.iter().map(|key| key.parse().expect("a number")).collect();
                let values = load_each(&keys, &*loader).await?;
                Ok(values.into_iter().flat_map(|(key, value)| [key.to_string(), word_of(value)]).collect())
            }
        });
        let answer = loaded.await;
        answer.map_or_else(|_| Vec::new(), |words| words.iter().map(|word| value_of(word)).collect())
    }

    async fn lease_many<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        key: usize,
        loader: impl Fn(usize) -> F + Send + Sync + 'static,
    ) -> Vec<Option<Value>> {
        self.fetch_many(key, loader).await
    }

    /// The source is that of the loader if this loader has returned: a child does not tell.
    async fn refresh(
        &self,
        key: usize,
        loading: impl Future<Output = Outcome> + Send + 'static,
    ) -> Option<(Value, Source)> {
        if Self::lacks(key) {
            return None;
        }
        let is_loaded = Arc::new(AtomicBool::new(false));
        let loads = is_loaded.clone();
        let loading = async move {
            let outcome = loading.await;
            loads.store(outcome.is_ok(), Ordering::SeqCst);
            outcome
        };
        let value = self.fetch_with(key, vec![option("refresh", YES)], loading).await?;
        Some((value, if is_loaded.load(Ordering::SeqCst) { Source::Loader } else { Source::Stale }))
    }

    async fn hit(&self, key: usize) -> Option<Value> {
        if Self::lacks(key) { None } else { first(self.child.call("hit", [key.to_string()]).await) }
    }

    async fn read(&self, key: usize) -> Option<Value> {
        if Self::lacks(key) { None } else { first(self.child.call("read", [key.to_string()]).await) }
    }

    async fn read_many(&self) -> Vec<Option<Value>> {
        let answer = self.child.call("read_many", (0..self.keys).map(|key| key.to_string())).await;
        answer.map_or_else(|_| Vec::new(), |words| words.iter().map(|word| value_of(word)).collect())
    }

    async fn write(&self, key: usize, value: Value) -> bool {
        if Self::lacks(key) {
            return false;
        }
        is_yes(self.child.call("write", [key.to_string(), word_of(value), Self::tag(key)]).await)
    }

    async fn delete(&self, key: usize) -> bool {
        !Self::lacks(key) && is_yes(self.child.call("delete", [key.to_string()]).await)
    }

    async fn add(&self, key: usize, value: Value, tagged: bool) -> Result<bool, String> {
        if Self::lacks(key) {
            return Ok(false);
        }
        let words = [key.to_string(), word_of(value)].into_iter().chain(tagged.then(|| Self::tag(key)));
        let added = self.child.call("add", words).await;
        added.map(|words| words == [YES]).map_err(|failed| failed.text)
    }

    async fn take(&self, key: usize) -> Result<Option<Value>, String> {
        if Self::lacks(key) {
            return Err("a child has no shared bytes".to_owned());
        }
        let taken = self.child.call("take", [key.to_string()]).await;
        taken.map(|words| value_of(&words[0])).map_err(|failed| failed.text)
    }

    async fn expire(&self, key: usize) {
        _ = self.child.call("expire", [key.to_string()]).await;
    }

    async fn update(
        &self,
        key: usize,
        mut update: impl FnMut(Option<&Value>) -> Update<Value> + Send + 'static,
    ) -> Result<bool, String> {
        if Self::lacks(key) {
            return Ok(false);
        }
        // A child has the options before it calls the function. What this call of it notes, the next one replaces.
        let has_options = matches!(update(None), Update::PutWith(..));
        let words = [key.to_string()].into_iter().chain(has_options.then(|| Self::tag(key)));
        let mut changes = false;
        let updated = self.child.update(words, |got| {
            let decided = update(value_of(got).as_ref());
            changes = !matches!(decided, Update::Keep);
            match decided {
                Update::Keep => vec![NOTHING.to_owned(), option("keep", YES)],
                Update::Put(value) | Update::PutWith(value, _) => vec![word_of(value)],
                Update::Remove => vec![NOTHING.to_owned()],
            }
        });
        let updated = updated.await;
        updated.map(|_| changes).map_err(|failed| failed.text)
    }

    async fn touch(&self, key: usize, ttl: Duration) {
        _ = self.child.call("touch", [key.to_string(), words::time("ttl", ttl)]).await;
    }

    async fn soften_tag(&self, key: usize) {
        _ = self.child.call("tags", [word(&Node::tag(key)), option("soft", YES)]).await;
    }

    async fn use_raw(&self, key: usize) {
        _ = self.child.call("increment", [key.to_string(), "1".to_owned()]).await;
    }

    async fn invalidate_tag(&self, key: usize) -> bool {
        is_yes(self.child.call("tags", [word(&Node::tag(key))]).await)
    }

    async fn delete_matched(&self, key: Option<usize>) -> bool {
        let pattern = Layout::OneView.pattern(key);
        is_yes(self.child.call("delete_matched", [word(&pattern)]).await)
    }

    async fn clear(&self) -> bool {
        is_yes(self.child.call("clear", []).await)
    }

    /// There are no spaces.
    async fn clear_space(&self, _: usize) -> bool {
        self.clear().await
    }
}
