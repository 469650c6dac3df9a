//! The database of all shops: a JSON file.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a query takes, so that one can see whether there was one.
const QUERY: Duration = Duration::from_millis(300);

/// A product. Its price is in cents.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Product {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) price: u32,
}

/// A product as the file has it, under its id.
#[derive(Deserialize, Serialize)]
struct Row {
    name: String,
    price: u32,
}

#[derive(Clone)]
pub(crate) struct Origin {
    file: PathBuf,
}

impl Origin {
    /// Fills the file if there is none.
    pub(crate) fn open(file: PathBuf) -> Result<Self> {
        let origin = Origin { file };
        if !origin.file.exists() {
            let rows = [("apple", "Apple", 120), ("pear", "Pear", 150), ("plum", "Plum", 90)];
            let row =
                |(id, name, price): (&str, &str, u32)| (id.to_owned(), Row { name: name.to_owned(), price });
            origin.write(&rows.map(row).into())?;
        }
        Ok(origin)
    }

    /// Looks a product up, which takes its time.
    pub(crate) async fn query(&self, id: &str) -> Result<Option<Product>> {
        let row = self.read()?.remove(id);
        tokio::time::sleep(QUERY).await;
        Ok(row.map(|Row { name, price }| Product { id: id.to_owned(), name, price }))
    }

    /// Changes a price. `None` if there is no such product.
    pub(crate) fn set_price(&self, id: &str, price: u32) -> Result<Option<Product>> {
        let mut rows = self.read()?;
        let Some(row) = rows.get_mut(id) else { return Ok(None) };
        row.price = price;
        let product = Product { id: id.to_owned(), name: row.name.clone(), price };
        self.write(&rows)?;
        Ok(Some(product))
    }

    fn read(&self) -> Result<BTreeMap<String, Row>> {
        let text =
            std::fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no database", self.file.display()))
    }

    /// Renames a draft, so that no process reads half of it.
    fn write(&self, rows: &BTreeMap<String, Row>) -> Result<()> {
        let folder = self.file.parent().context("a file has a folder")?;
        let draft = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer_pretty(&draft, rows)?;
        draft.persist(&self.file)?;
        Ok(())
    }
}
