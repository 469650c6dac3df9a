//! Creating, changing, deleting and restoring links: how each affects store, caches and counters.
//!
//! Every change takes the same steps, in a task of its own, so that a client that disconnects cannot stop it half-way:
//!
//! ```text
//! commit in the store ──► cache entry of the slug invalidated ──► stored responses purged ──► response
//! ```
//!
//! The cache rejects the result of a load that started before the change. After the response no client sees the old state;
//! before it, any client may.

use super::{Links, Shared};
use crate::service::api_error::ApiError;
use crate::service::events::Event;
use crate::store::{CreateOutcome, Duplicates, Link, LinkUpdate, NewLink, StoreError};
use std::future::Future;

impl Links {
    pub(crate) async fn create(
        &self,
        links: Vec<NewLink>,
        repeats: Duplicates,
    ) -> Result<Vec<CreateOutcome>, ApiError> {
        let this = self.clone();
        run_to_completion(async move {
            let outcomes = this.shared.store.create(links, repeats).await?;
            let new: Vec<String> = outcomes
                .iter()
                .filter_map(|creation| match creation {
                    CreateOutcome::Created(link) => Some(link.slug.clone()),
                    CreateOutcome::Existing(_) | CreateOutcome::SlugTaken => None,
                })
                .collect();
            if new.is_empty() {
                return Ok(outcomes);
            }
            this.shared.counters.created.add(new.len() as u64);
            this.shared.targets.invalidate(new).await;
            this.shared.responses.purge_list();
            this.shared.events.send(Event::Changed);
            Ok(outcomes)
        })
        .await
    }

    pub(crate) async fn update(&self, slug: &str, change: LinkUpdate) -> Result<Option<Link>, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let changed = this.shared.store.update(&slug, change).await?;
            if changed.is_some() {
                this.changed(&slug).await;
            }
            Ok(changed)
        })
        .await
    }

    pub(crate) async fn delete(&self, slug: &str) -> Result<bool, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let deleted = this.shared.store.delete(&slug).await?;
            if deleted {
                this.shared.counters.deleted.add(1);
                this.changed(&slug).await;
            }
            Ok(deleted)
        })
        .await
    }

    pub(crate) async fn restore(&self, slug: &str) -> Result<Option<Link>, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let restored = this.shared.store.restore(&slug).await?;
            if restored.is_some() {
                this.shared.counters.restored.add(1);
                this.changed(&slug).await;
            }
            Ok(restored)
        })
        .await
    }

    pub(crate) async fn forget_visits(&self, slug: &str) -> Result<bool, ApiError> {
        let (this, slug) = (self.clone(), slug.to_owned());
        run_to_completion(async move {
            let Shared { store, visits, dimensions, .. } = &*this.shared;
            let Some(link) = store.find(&slug).await? else { return Ok(false) };
            dimensions.forget(link.id, store).await?;
            let forgotten = visits.forget(link.id, store).await?;
            this.changed(&slug).await;
            Ok(forgotten)
        })
        .await
    }

    /// What follows the change of a link in the store.
    async fn changed(&self, slug: &str) {
        let Shared { targets, responses, events, .. } = &*self.shared;
        targets.invalidate([slug.to_owned()]).await;
        responses.purge_link(slug);
        events.send(Event::Changed);
    }
}

async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work).await {
        Ok(result) => Ok(result?),
        Err(error) => {
            tracing::error!(%error, "a change panicked");
            Err(ApiError::internal())
        }
    }
}
