//! The cache of a child process as the suite sees it, behind the lines of `bindings/interop/protocol.md`.

use crate::children::Kind;
use crate::children::child::{Child, Failed, PANICKED};
use crate::children::words::{NOTHING, NULL, YES, option, text, time, word};
use crate::subject::released;
use larder_testkit::RedisServer;
use larder_testkit::conformance::{BulkLoader, Failure, How, Loaded, Loading, Subject, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a child keeps its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tiers {
    Memory,
    Redis,
    Both,
}

/// The longest time that passes by itself.
const SHORT: Duration = Duration::from_millis(100);
/// The least memory that a cache may have, and keys that do not fit into it: what lives and expires is what Redis has.
const NO_ROOM: &str = "1KiB";
const PADDING: usize = 1 << 10;
/// A load that fails is answered after this time: callers that were sent before wait for it by then.
const FAILURE: Duration = Duration::from_millis(150);

/// Children that no test uses at the moment, by the names of their kinds. To start one takes longer than a test.
static IDLE: Mutex<Vec<(String, Arc<Child>)>> = Mutex::new(Vec::new());

#[derive(Clone)]
pub(crate) struct Remote(Arc<Inner>);

struct Inner {
    kind: String,
    child: Arc<Child>,
    server: Option<RedisServer>,
    padding: String,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // One that a test has failed with may be in any state.
        if !std::thread::panicking() {
            let one = (std::mem::take(&mut self.kind), self.child.clone());
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
    }
}

fn idle(kind: &Kind) -> Option<Arc<Child>> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.iter().position(|(name, _)| *name == kind.name)?;
    Some(idle.swap_remove(at).1)
}

fn word_of(value: &Value) -> String {
    value.as_ref().map_or(NULL.to_owned(), |value| format!("t{}", word(value)))
}

fn value_of(word: &str) -> Option<Value> {
    match word {
        NOTHING => None,
        NULL => Some(None),
        _ => Some(Some(text(word.strip_prefix('t').expect("a text")))),
    }
}

fn options(how: &How) -> Vec<String> {
    let times = [
        ("ttl", how.ttl),
        ("grace", how.grace),
        ("retry_after", how.retry_after),
        ("soft_timeout", how.soft_timeout),
        ("hard_timeout", how.hard_timeout),
    ];
    let times = times.into_iter().filter_map(|(name, set)| set.map(|set| time(name, set)));
    times.chain(how.tags.iter().map(|tag| option("tag", tag))).collect()
}

/// The words behind `loaded`.
fn loaded(loaded: Loaded) -> Vec<String> {
    let Loaded { value, ttl, tags, no_store, not_modified } = loaded;
    let mut words = vec![word_of(&value)];
    words.extend(ttl.map(|ttl| time("ttl", ttl)));
    words.extend(tags.into_iter().map(|tag| option("tag", tag)));
    words.extend(no_store.then(|| option("no_store", YES)));
    words.extend(not_modified.then(|| option("keep", YES)));
    words
}

fn failure(failed: Failed) -> Failure {
    match &failed.kind[..] {
        // To a child a panic is an exception as any other.
        "loader" if failed.text == PANICKED => Failure::Panicked,
        "loader" => Failure::Loader(failed.text),
        "timeout" => Failure::Timeout,
        _ => panic!("{failed:?}"),
    }
}

impl Remote {
    /// A child of this kind with a new cache. `None` if there is no server.
    pub(crate) async fn open(kind: &Kind, tiers: Tiers) -> Option<Self> {
        // Of a test that fails it is the last line.
        println!("{}", kind.name);
        let server = if tiers == Tiers::Memory { None } else { Some(RedisServer::start()?) };
        let child = idle(kind).unwrap_or_else(|| Child::start(kind));
        let mut words = vec![
            server.as_ref().map_or(NOTHING.to_owned(), |server| word(&server.url())),
            "c".to_owned(),
            "ttl=60s".to_owned(),
        ];
        words.extend(server.is_some().then(|| "redis_timeout=10s".to_owned()));
        words.extend((tiers == Tiers::Redis).then(|| option("memory_bytes", NO_ROOM)));
        let padding = if tiers == Tiers::Redis { "k".repeat(PADDING) } else { String::new() };
        child.call("open", words).await.expect("it opens a cache");
        Some(Remote(Arc::new(Inner { kind: kind.name.clone(), child, server, padding })))
    }

    fn key(&self, key: &str) -> String {
        word(&(self.0.padding.clone() + key))
    }

    fn keys<'k>(&'k self, keys: &'k [&str]) -> impl Iterator<Item = String> {
        keys.iter().map(|key| self.key(key))
    }

    async fn call(&self, call: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
        let answer = self.0.child.call(call, words).await;
        answer.unwrap_or_else(|failed| panic!("{call}: {failed:?}"))
    }

    async fn is_yes(&self, call: &str, words: impl IntoIterator<Item = String>) -> bool {
        self.call(call, words).await[0] == YES
    }

    /// Adds one to the number that is a text, where there is none to zero.
    pub(crate) async fn count(&self, key: &str) -> Option<Value> {
        let counted = self.0.child.update([self.key(key)], |got| {
            let number = value_of(got).flatten().map_or(0, |text| text.parse::<u64>().expect("a number"));
            vec![word_of(&Some((number + 1).to_string()))]
        });
        value_of(&counted.await.unwrap_or_else(|failed| panic!("update: {failed:?}"))[0])
    }

    /// An update that keeps what it gets, or removes it. Returns what it has got, and what is there then.
    pub(crate) async fn decide(&self, key: &str, keeps: bool) -> [Option<Value>; 2] {
        let mut seen = None;
        let decided = self.0.child.update([self.key(key)], |got| {
            seen = value_of(got);
            [NOTHING.to_owned()].into_iter().chain(keeps.then(|| option("keep", YES))).collect()
        });
        let words = decided.await.unwrap_or_else(|failed| panic!("update: {failed:?}"));
        [seen, value_of(&words[0])]
    }

    async fn fetch_with(&self, key: &str, options: Vec<String>, loader: Loading) -> Result<Value, Failure> {
        let mut loader = Some(loader);
        let words = [self.key(key)].into_iter().chain(options);
        let fetched = self.0.child.load("fetch", words, |_| {
            let loader = loader.take();
            async move {
                let outcome = loader.ok_or("it loads twice")?.await;
                if outcome.is_err() {
                    tokio::time::sleep(FAILURE).await;
                }
                outcome.map(loaded)
            }
        });
        let words = fetched.await.map_err(failure)?;
        Ok(value_of(&words[0]).expect("a fetch has a value"))
    }
}

impl Subject for Remote {
    async fn read(&self, key: &str) -> Option<Value> {
        value_of(&self.call("read", [self.key(key)]).await[0])
    }

    async fn read_multi(&self, keys: &[&str]) -> Vec<Option<Value>> {
        self.call("read_many", self.keys(keys)).await.iter().map(|word| value_of(word)).collect()
    }

    async fn write(&self, key: &str, value: Value, how: How) {
        let words = [self.key(key), word_of(&value)].into_iter().chain(options(&how));
        assert!(self.is_yes("write", words).await);
    }

    async fn write_multi(&self, pairs: &[(&str, Value)]) {
        let words = pairs.iter().flat_map(|(key, value)| [self.key(key), word_of(value)]);
        assert!(self.is_yes("write_many", words).await);
    }

    async fn write_if_absent(&self, key: &str, value: Value) -> bool {
        self.is_yes("add", [self.key(key), word_of(&value)]).await
    }

    async fn fetch(&self, key: &str, how: How, loader: Loading) -> Result<Value, Failure> {
        self.fetch_with(key, options(&how), loader).await
    }

    async fn fetch_multi(&self, keys: &[&str], loader: BulkLoader) -> Result<Vec<Option<Value>>, Failure> {
        let (mut loader, remote) = (Some(loader), self.clone());
        let fetched = self.0.child.load("fetch_many", self.keys(keys), move |keys: Vec<String>| {
            let short = keys.iter().map(|key| key[remote.0.padding.len()..].to_owned()).collect();
            let (loading, remote) = (loader.take().expect("it is called once")(short), remote.clone());
            async move {
                let pairs = loading.await?;
                Ok(pairs.iter().flat_map(|(key, value)| [remote.key(key), word_of(value)]).collect())
            }
        });
        let words = fetched.await.map_err(failure)?;
        Ok(words.iter().map(|word| value_of(word)).collect())
    }

    async fn refresh(&self, key: &str, loader: Loading) -> Result<Value, Failure> {
        self.fetch_with(key, vec![option("refresh", YES)], loader).await
    }

    async fn exist(&self, key: &str) -> bool {
        self.is_yes("exist", [self.key(key)]).await
    }

    async fn delete(&self, key: &str) -> bool {
        let words = self.call("delete", [self.key(key)]).await;
        assert_eq!(words[1], YES, "all nodes know");
        words[0] == YES
    }

    async fn delete_multi(&self, keys: &[&str]) -> usize {
        self.call("delete_many", self.keys(keys)).await[0].parse().expect("a number")
    }

    async fn take(&self, key: &str) -> Option<Value> {
        value_of(&self.call("take", [self.key(key)]).await[0])
    }

    async fn expire(&self, key: &str) {
        self.call("expire", [self.key(key)]).await;
    }

    async fn invalidate_tags(&self, tags: &[&str]) {
        assert!(self.is_yes("tags", tags.iter().map(|tag| word(tag))).await);
    }

    async fn clear(&self) {
        assert!(self.is_yes("clear", []).await);
    }

    async fn increment(&self, key: &str, by: i64) -> Option<i64> {
        let sum = self.0.child.call("increment", [self.key(key), by.to_string()]).await;
        sum.ok().map(|words| words[0].parse().expect("a number"))
    }

    async fn pass(&self, time: Duration) {
        match &self.0.server {
            Some(server) if !self.0.padding.is_empty() => {
                released(server).await;
                server.pass(time);
            }
            _ => {
                assert!(
                    time <= SHORT,
                    "a test does not take {time:?}: it belongs to those that are left out"
                );
                tokio::time::sleep(time).await;
            }
        }
    }
}
