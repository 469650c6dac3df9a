//! A cache bounded by bytes, with a listener that tells why entries were removed:
//! `cargo run -p larder-engine --example weights`

use larder_engine::Cache;

fn main() -> Result<(), larder_engine::BuildError> {
    let cache = Cache::<u32, Vec<u8>>::builder()
        .weight(10_000, |_, value| value.len() as u64)
        .max_share(0.5)
        .listener(|key, value, cause| println!("{key} ({} bytes) was removed: {cause:?}", value.len()))
        .build()?;
    for key in 0..5 {
        cache.insert(key, vec![0; 3_000]);
    }
    println!("{} entries, {} of {} bytes", cache.len(), cache.weight(), cache.capacity());
    println!("{:?}", cache.insert(9, vec![0; 6_000]).is_refused());
    Ok(())
}
