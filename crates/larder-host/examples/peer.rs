//! A node in Rust for the tests of other languages: it obeys the lines that it reads, and answers each with a line.
//!
//! ```text
//! peer URL NAMESPACE
//!
//! write KEY NAME PRICE          ok
//! read KEY                      NAME PRICE, or -
//! fetch KEY NAME PRICE MS       loaded NAME PRICE, or found NAME PRICE; the loader takes so many milliseconds
//! delete KEY                    ok
//! tag TAG                       ok: what has the tag is invalidated; what `fetch` loads has the tag "rust"
//! put KEY BYTES                 ok: MessagePack in hexadecimal, as it is
//! payload KEY                   the MessagePack of a value, or -
//! ```

use larder::{Cache, Format, Invalidation, Source, View};
use larder_host::{HostCodec, HostValue, Objects};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Duration;

/// Of the schema `product/1`, in every language a map with these keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Product {
    name: String,
    price: u64,
    tags: Vec<String>,
    weight: Option<f64>,
}

type Products = View<str, Product, Infallible>;
type Golden = View<[u8], HostValue<()>, Infallible>;

struct Node {
    cache: Cache,
    products: Products,
    codec: HostCodec,
    golden: Golden,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, namespace] = &arguments[..] else {
        println!("usage: peer URL NAMESPACE");
        return Ok(());
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let builder =
        Cache::builder(namespace).ttl(Duration::from_secs(300)).redis(url).format(Format::MessagePack);
    let cache = builder.runtime(runtime.handle().clone()).build()?;
    let products: Products = cache.view("product").with_shared_schema("product", 1);
    let codec = HostCodec::message_pack();
    let golden: Golden = codec.view(&cache, "golden", ("golden", 1), Objects::Copied);
    let node = Node { cache, products, codec, golden };
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = runtime.block_on(node.obey(&words))?;
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

impl Node {
    async fn obey(&self, words: &[&str]) -> Result<String, Box<dyn Error>> {
        let Node { cache, products, codec, golden } = self;
        Ok(match words {
            ["write", key, name, price] => {
                reached(products.write(key, product(name, price)?).await?.is_everywhere())
            }
            ["read", key] => products.read(*key).await.map_or("-".to_owned(), |found| shown(&found)),
            ["fetch", key, name, price, ms] => {
                let (loaded, time) = (product(name, price)?, Duration::from_millis(ms.parse()?));
                let load = products.fetch(key).tag("rust").load(move |_| async move {
                    tokio::time::sleep(time).await;
                    Ok(loaded)
                });
                let found = load.await?;
                let is_own = found.source() == Source::Loader;
                format!("{} {}", if is_own { "loaded" } else { "found" }, shown(&found))
            }
            ["delete", key] => reached(products.delete(key).await?.reach.is_everywhere()),
            ["tag", tag] => reached(cache.invalidate_tags([tag], Invalidation::Hard).await?.is_everywhere()),
            ["put", key, bytes] => {
                let value = codec.value(key.as_bytes(), bytes_of(bytes)?);
                reached(golden.write(key.as_bytes(), value).await?.is_everywhere())
            }
            ["payload", key] => match golden.read(key.as_bytes()).await {
                Some(found) => found.payload(key.as_bytes()).map(hexadecimal).ok_or("it is signed")?,
                None => "-".to_owned(),
            },
            _ => format!("unknown: {words:?}"),
        })
    }
}

fn bytes_of(hexadecimal: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let pairs = (0..hexadecimal.len() / 2).map(|at| &hexadecimal[2 * at..2 * at + 2]);
    Ok(pairs.map(|pair| u8::from_str_radix(pair, 16)).collect::<Result<_, _>>()?)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn product(name: &str, price: &str) -> Result<Product, Box<dyn Error>> {
    let tags = vec!["fruit".to_owned()];
    Ok(Product { name: name.to_owned(), price: price.parse()?, tags, weight: None })
}

fn shown(product: &Product) -> String {
    format!("{} {}", product.name, product.price)
}

fn reached(is_everywhere: bool) -> String {
    if is_everywhere { "ok" } else { "queued" }.to_owned()
}
