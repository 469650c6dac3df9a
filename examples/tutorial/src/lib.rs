//! The database of a shop: slow, counted, and sometimes down.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// What the shop sells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Product {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its group.
    pub category: String,
    /// Its price.
    pub cents: u64,
}

/// The database does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the database is down")]
pub struct Down;

/// A table in memory that takes as long as a real database.
#[derive(Debug, Default)]
pub struct Database {
    products: Mutex<BTreeMap<u64, Product>>,
    queries: AtomicU64,
    is_down: AtomicBool,
}

impl Database {
    /// A database with six products.
    pub fn open() -> Database {
        let database = Database::default();
        let names = ["apple", "pear", "plum", "hammer", "saw", "nail"];
        for (id, name) in (1..).zip(names) {
            let category = if id <= 3 { "fruit" } else { "tools" }.to_owned();
            let product = Product { id, name: name.to_owned(), category, cents: 100 * id };
            database.products.lock().unwrap().insert(id, product);
        }
        database
    }

    /// One product, by one query.
    ///
    /// # Errors
    /// [`Down`]
    pub async fn product(&self, id: u64) -> Result<Product, Down> {
        self.products(&[id]).await?.pop().ok_or(Down)
    }

    /// Several products, by one query. Those that do not exist are left out.
    ///
    /// # Errors
    /// [`Down`]
    pub async fn products(&self, ids: &[u64]) -> Result<Vec<Product>, Down> {
        self.queries.fetch_add(1, SeqCst);
        tokio::time::sleep(Duration::from_millis(20)).await;
        if self.is_down.load(SeqCst) {
            return Err(Down);
        }
        let products = self.products.lock().unwrap();
        Ok(ids.iter().filter_map(|id| products.get(id).cloned()).collect())
    }

    /// Changes a price.
    pub fn set_price(&self, id: u64, cents: u64) {
        if let Some(product) = self.products.lock().unwrap().get_mut(&id) {
            product.cents = cents;
        }
    }

    /// The number of queries so far.
    pub fn queries(&self) -> u64 {
        self.queries.load(SeqCst)
    }

    /// Lets the database go down.
    pub fn stop(&self) {
        self.is_down.store(true, SeqCst);
    }
}
