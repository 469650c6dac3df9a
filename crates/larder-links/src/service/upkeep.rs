//! What the service does once an hour: it drops old visits, and deleted links whose time to be restored is over.

use super::{Links, Shared};
use crate::error::LinksError;
use crate::service::events::Event;
use crate::store::{DIMENSIONS_KEPT_DAYS, QUARTERS_KEPT_DAYS, RESTORE_PERIOD, StoreError, now_ms, today};
use std::panic::resume_unwind;
use std::sync::Weak;
use std::time::Duration;

impl Links {
    /// Sums visits that are older than 90 days into days, and drops those that are older than the retention, and where those
    /// came from that the page does not show any more.
    ///
    /// # Errors
    /// If the store fails; the next call does the rest.
    pub async fn fold_visits(&self) -> Result<(), LinksError> {
        let Shared { store, config, .. } = &*self.shared;
        let retention = i64::from(config.visit_retention_days);
        while store.drop_visits(today() - retention).await? > 0 {}
        while store.drop_dimensions(today() - retention.min(DIMENSIONS_KEPT_DAYS)).await? > 0 {}
        while store.fold_visits(today() - QUARTERS_KEPT_DAYS).await? > 0 {}
        Ok(())
    }

    /// Drops the links whose time to be restored is over. Their slugs are unknown from then on.
    ///
    /// # Errors
    /// If the store fails; the next call drops them.
    pub async fn drop_deleted(&self) -> Result<u64, LinksError> {
        let until = now_ms() - RESTORE_PERIOD.as_millis() as i64;
        // In steps: with their links they would be one long transaction.
        while self.shared.store.drop_visits_of_deleted(until).await? > 0 {}
        let mut count = 0;
        loop {
            let this = self.clone();
            // In a task of its own, as every change: the caches follow the store even if the caller goes.
            match tokio::spawn(async move { this.drop_some_deleted(until).await }).await {
                Ok(Ok(0)) => return Ok(count),
                Ok(dropped) => count += dropped?,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(_) => return Err(StoreError::Closed.into()),
            }
        }
    }

    async fn drop_some_deleted(&self, until: i64) -> Result<u64, StoreError> {
        let Shared { store, targets, responses, events, .. } = &*self.shared;
        let slugs = store.drop_deleted(until).await?;
        let count = slugs.len() as u64;
        if count > 0 {
            slugs.iter().for_each(|slug| responses.purge_link(slug));
            targets.invalidate(slugs).await;
            events.send(Event::Changed);
        }
        Ok(count)
    }
}

/// Until the service is dropped or stopped. The first time is a minute after the start, so that a start writes nothing.
pub(super) async fn tidy_hourly(service: Weak<Shared>) {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let mut wait = Duration::from_secs(60);
    loop {
        tokio::time::sleep(wait).await;
        wait = HOUR;
        let Some(shared) = service.upgrade() else { return };
        let links = Links { shared };
        let tidied = async { links.drop_deleted().await.map(drop).and(links.fold_visits().await) };
        match tidied.await {
            Err(LinksError::Store(StoreError::Closed)) => return,
            Err(error) => tracing::warn!(%error, "cannot drop old links and visits"),
            Ok(()) => {}
        }
    }
}
