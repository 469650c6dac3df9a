//! The cost of the layer: nanoseconds and allocations of a hit, a miss and a bypass, compared with the bare handler.
//! Single-threaded, services called directly; `cargo bench -p larder-http`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use larder_http::{BodyRule, BodyRules, Cached, HttpCache};
use tower::{Layer, Service, service_fn};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct CountingAllocator;

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ROUNDS: u64 = 256_000;
/// Requests that are built before the time is measured: few enough to stay in the processor's caches.
const BATCH: u64 = 16;

fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path)
        .header("host", "shop.example")
        .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0")
        .header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
        .header("accept-language", "en-US,en;q=0.5")
        .header("accept-encoding", "gzip, deflate, br, zstd")
        .body(Empty::new())
        .unwrap()
}

async fn handler<Q>(request: Request<Q>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(&[b'x'; 1024])));
    let headers = response.headers_mut();
    headers.insert("content-type", "application/json".parse().unwrap());
    if request.uri().path().starts_with("/vary") {
        headers.insert("vary", "accept-encoding".parse().unwrap());
    }
    if !request.uri().path().starts_with("/plain") {
        response.extensions_mut().insert(Cached::ttl(Duration::from_secs(600)));
    }
    Ok(response)
}

/// A POST of a query of 600 bytes. Each number is another form of the same query.
fn graphql(form: u64) -> Request<Full<Bytes>> {
    let query =
        "query Products($first: Int!) { products(first: $first) { id name price { amount currency } } }";
    let comment = format!("# {form:08} {}", "x".repeat(400));
    let variables = r#""operationName":"Products","variables":{"first":10}"#;
    let body = format!(r#"{{{variables},"query":"{comment}\n{query}"}}"#);
    let request = Request::post("/graphql").header("host", "shop.example");
    request.header("content-type", "application/json").body(Full::from(body)).unwrap()
}

/// Reads the body of the request and replies with the same bytes each time.
async fn graphql_handler(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    black_box(request.into_body().collect().await?.to_bytes());
    const START: &str = "{\"data\":\"";
    let mut json = START.to_owned() + &"x".repeat(1024 - START.len() - 2);
    json.push_str("\"}");
    let mut response = Response::new(Full::from(json));
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response.extensions_mut().insert(Cached::ttl(Duration::from_secs(600)));
    Ok(response)
}

/// Calls the service with each request, and prints the time and the allocations of one call.
async fn measure<S, Q, B>(name: &str, mut service: S, make: impl Fn(u64) -> Request<Q>)
where
    S: Service<Request<Q>, Response = Response<B>, Error = Infallible>,
{
    let (mut elapsed, mut allocations) = (Duration::ZERO, 0);
    for batch in 0..ROUNDS / BATCH {
        let requests: Vec<_> = (0..BATCH).map(|n| make(batch * BATCH + n)).collect();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let start = Instant::now();
        for request in requests {
            black_box(service.call(request).await.unwrap());
        }
        elapsed += start.elapsed();
        allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
    }
    let nanos = elapsed.as_nanos() as u64 / ROUNDS;
    let allocations = allocations as f64 / ROUNDS as f64;
    println!("{name:<28} {nanos:>6} ns {allocations:>6.1} allocations");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let cache = HttpCache::builder().max_bytes(1 << 30).build().unwrap();
    let service = cache.layer().layer(service_fn(handler));
    for path in ["/hit", "/vary"] {
        service.clone().call(request(path)).await.unwrap();
    }
    let plain = |_| request("/plain");
    measure("bare handler", service_fn(handler), plain).await;
    measure("hit", service.clone(), |_| request("/hit?page=2&sort=price")).await;
    measure("hit of a variant", service.clone(), |_| request("/vary")).await;
    measure("miss, stored", service.clone(), |n| request(&format!("/miss/{n}"))).await;
    measure("miss, not opted in", service.clone(), |n| request(&format!("/plain/{n}"))).await;
    measure("miss, hit-for-miss", service.clone(), plain).await;
    let with_credentials = |n| {
        let mut request = plain(n);
        request.headers_mut().insert("authorization", "Bearer x".parse().unwrap());
        request
    };
    measure("bypass", service, with_credentials).await;

    let rules = BodyRules::new().route("/graphql", BodyRule::graphql());
    let service = cache.layer().body_rules(rules).layer(service_fn(graphql_handler));
    service.clone().call(graphql(0)).await.unwrap();
    measure("bare GraphQL handler", service_fn(graphql_handler), |_| graphql(0)).await;
    measure("GraphQL POST, hit", service.clone(), |_| graphql(0)).await;
    measure("GraphQL POST, hit of new form", service, graphql).await;
}
