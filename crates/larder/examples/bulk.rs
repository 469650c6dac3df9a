//! Many keys with one call of the loader. `cargo run -p larder --example bulk`

use larder::{Cache, Reach, View};
use std::convert::Infallible;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    let names: View<u64, String, Infallible> = cache.view("name");
    assert_eq!(names.write(&2, "Grace".to_owned()).await?, Reach::Everywhere);

    let users = [1, 2, 3];
    let found = names
        .fetch_multi(&users)
        .load(|missing: Vec<u64>, cx| async move {
            println!("one query for the keys {missing:?}");
            missing.iter().for_each(|id| cx.of(id).tag(format!("user:{id}")));
            // There is no user 3.
            let users = missing.into_iter().filter(|id| *id != 3);
            Ok(users.map(|id| (id, format!("user {id}"))).collect::<Vec<_>>())
        })
        .await;
    for (id, name) in users.iter().zip(found) {
        println!("{id}: {:?}", name?.as_deref());
    }
    Ok(())
}
