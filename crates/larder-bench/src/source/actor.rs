//! A task that owns a source and answers one question after another, as a GenServer does.

use super::Source;
use anyhow::{Context, Result};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// How many questions may wait.
const MAILBOX: usize = 1_024;

type Question = oneshot::Sender<Arc<str>>;

/// The address of such a task. The task ends when nobody has it any more.
#[derive(Clone)]
pub(crate) struct Actor(mpsc::Sender<Question>);

impl Actor {
    pub(super) fn start(source: Source) -> Self {
        let (sender, mut questions) = mpsc::channel::<Question>(MAILBOX);
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                // Without an answer the caller sees that its question was dropped.
                let Ok(text) = source.text().await else { continue };
                _ = question.send(text);
            }
        });
        Actor(sender)
    }

    pub(super) async fn ask(&self) -> Result<Arc<str>> {
        let (sender, answer) = oneshot::channel();
        self.0.send(sender).await.ok().context("the actor has ended")?;
        answer.await.context("the actor has no answer")
    }
}
