//! A call of a child under way, and what the child says about it.

use super::child::{Child, locked};
use super::words;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a child says about a call.
pub(super) enum Message {
    /// Its loader has begun, for these keys.
    Loading(Vec<String>),
    /// The function of its update has got this value.
    Updating(String),
    Ended(Result<Vec<String>, Failed>),
}

/// Why a call has not returned: a kind, and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// The calls under way, by their numbers. There is no map once the child has ended.
pub(super) type Calls = Mutex<Option<HashMap<u64, UnboundedSender<Message>>>>;

/// A call under way.
pub(super) struct Call<'c> {
    child: &'c Child,
    pub(super) number: u64,
    messages: UnboundedReceiver<Message>,
    has_ended: bool,
}

impl<'c> Call<'c> {
    pub(super) fn start(child: &'c Child, call: &str, words: impl IntoIterator<Item = String>) -> Self {
        let number = child.next.fetch_add(1, Ordering::Relaxed);
        let (sender, messages) = unbounded_channel();
        if let Some(calls) = &mut *locked(&child.calls) {
            calls.insert(number, sender);
        }
        child.send(&format!("{call} {number}"), words);
        Call { child, number, messages, has_ended: false }
    }

    /// The next message. A child that was killed never answers.
    ///
    /// # Panics
    /// If it has ended although nobody killed it.
    pub(super) async fn next(&mut self) -> Message {
        let Some(message) = self.messages.recv().await else {
            assert!(self.child.is_killed.load(Ordering::SeqCst), "a child has ended by itself");
            return std::future::pending().await;
        };
        self.has_ended = matches!(message, Message::Ended(_));
        message
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(calls) = &mut *locked(&self.child.calls) {
            calls.remove(&self.number);
        }
        if !self.has_ended {
            self.child.send(&format!("cancel {}", self.number), []);
        }
    }
}

/// Gives what a child says to those who wait for it, until it ends.
pub(super) fn pass_on(answers: BufReader<impl Read>, calls: &Calls) {
    for line in answers.lines() {
        let Ok(line) = line else { break };
        let mut words = line.split(' ').map(str::to_owned);
        let (Some(kind), Some(number)) = (words.next(), words.next()) else {
            panic!("a child says {line:?}")
        };
        let message = match &kind[..] {
            "loading" => Message::Loading(words.map(|word| words::text(&word)).collect()),
            "updating" => Message::Updating(words.next().unwrap_or_default()),
            "done" => Message::Ended(Ok(words.collect())),
            "failed" => {
                let mut next = || words.next().unwrap_or_default();
                let (kind, text) = (next(), next());
                Message::Ended(Err(Failed { kind, text: words::text(&text) }))
            }
            _ => panic!("a child says {line:?}"),
        };
        let number: u64 = number.parse().expect("the number of a call");
        if let Some(caller) = locked(calls).as_ref().and_then(|calls| calls.get(&number)) {
            // One that has left hears nothing.
            _ = caller.send(message);
        }
    }
    *locked(calls) = None;
}
