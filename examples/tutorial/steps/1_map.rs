//! Step 1: a map in front of the database.

use shop::Database;
use std::collections::hash_map::{Entry, HashMap};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::open();
    let mut products = HashMap::new();
    for _ in 0..3 {
        let product = match products.entry(1) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(empty) => empty.insert(database.product(1).await?),
        };
        println!("{} costs {} cents", product.name, product.cents);
    }
    println!("the database was asked {} time", database.queries());

    database.set_price(1, 120);
    println!("the price is 120 now, the map says {}", products[&1].cents);
    Ok(())
}
