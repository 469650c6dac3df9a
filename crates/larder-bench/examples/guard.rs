//! The hot paths whose instructions `cargo xtask guard` counts: `guard PATH N` executes one N times, `guard` lists them, each
//! with the N of the shorter of two runs.
//!
//! Each path does the same per operation however often it runs: the difference of two counts is the cost of operations alone, without start and end.

use anyhow::{Context, Result, bail, ensure};
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use larder_http::{Cached, HttpCache};
use larder_server::{Config, Server};
use std::convert::Infallible;
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tower::{Layer, Service, service_fn};

/// A hot path: its name, how often it is executed in the shorter run, and what executes it.
type Path = (&'static str, u64, fn(u64) -> Result<()>);

/// Of a path whose operations differ.
const VERY_MANY: u64 = 200_000;
const MANY: u64 = 50_000;
/// Of a path that takes tens of thousands of instructions.
const FEW: u64 = 5_000;

const PATHS: [Path; 16] = [
    ("engine-get", MANY, engine_get),
    ("engine-insert", MANY, engine_insert),
    ("engine-evict", MANY, engine_evict),
    ("engine-evict-100k", MANY, engine_evict_100k),
    ("engine-evict-fifo", MANY, engine_evict_fifo),
    ("engine-request", VERY_MANY, engine_request),
    ("larder-hit", MANY, larder_hit),
    ("larder-sync-hit", MANY, larder_sync_hit),
    ("larder-fetch", FEW, larder_fetch),
    ("larder-delete", FEW, larder_delete),
    ("http-hit", MANY, http_hit),
    ("http-miss", FEW, http_miss),
    ("server-turn", MANY, server_turn),
    ("server-get", MANY, server_get),
    ("server-set", MANY, server_set),
    ("server-eval", MANY, server_eval),
];

const KEYS: u64 = 256;
const CACHES: u64 = 40;
const TTL: Duration = Duration::from_secs(3_600);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [] => PATHS.iter().for_each(|(name, operations, _)| println!("{name} {operations}")),
        [name, count] => {
            let path = PATHS.iter().find(|(known, ..)| known == name);
            let (.., execute) = path.with_context(|| format!("there is no path {name}"))?;
            execute(count.parse().context("N is a number")?)?;
        }
        _ => bail!("usage: guard [PATH N]"),
    }
    Ok(())
}

/// The same keys in an order that neither a processor nor a policy predicts.
fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20
}

type Engine = larder_engine::Cache<u64, u64>;

/// Caches with these keys each. Every cache hashes with a seed of its own, so only their mean is steady.
fn engines(entries: u64) -> Result<Vec<Engine>> {
    (0..CACHES).map(|_| Ok(larder_engine::Cache::builder().entries(entries).build()?)).collect()
}

/// The cache and the key of an operation.
fn turn<C>(caches: &[C], n: u64) -> (&C, u64) {
    (&caches[(n % CACHES) as usize], n / CACHES)
}

fn engine_get(count: u64) -> Result<()> {
    let caches = engines(2 * KEYS)?;
    caches.iter().for_each(|cache| (0..KEYS).for_each(|n| _ = cache.insert(key(n), n)));
    let is_hit = |n: &u64| {
        let (cache, n) = turn(&caches, *n);
        black_box(cache.get(&key(n % KEYS))).is_some()
    };
    let found = (0..count).filter(is_hit).count();
    ensure!(found as u64 == count, "{found} of {count} are hits");
    Ok(())
}

/// Replaces values, so that no table grows.
fn engine_insert(count: u64) -> Result<()> {
    let caches = engines(2 * KEYS)?;
    caches.iter().for_each(|cache| (0..KEYS).for_each(|n| _ = cache.insert(key(n), n)));
    for n in 0..count {
        let (cache, n) = turn(&caches, n);
        black_box(cache.insert(key(n % KEYS), n));
    }
    ensure!(caches.iter().all(|cache| cache.len() as u64 == KEYS));
    Ok(())
}

/// Each insertion is of a new key into a full cache.
fn engine_evict(count: u64) -> Result<()> {
    let caches = engines(KEYS)?;
    // More than fit, so that the sketch of the policy is there too.
    caches.iter().for_each(|cache| (0..2 * KEYS).for_each(|n| _ = cache.insert(key(n), n)));
    for n in 0..count {
        let (cache, n) = turn(&caches, n);
        black_box(cache.insert(key(2 * KEYS + n), n));
    }
    ensure!(caches.iter().all(|cache| cache.len() as u64 <= KEYS));
    Ok(())
}

/// The entries of a cache with many shards, whose seed matters little.
const ENTRIES: u64 = 100_000;
/// As on two processors. By default it is their number that decides, and so what an insertion costs.
const SHARDS: usize = 16;

/// A full cache of this policy, the sketch of the policy included.
fn full(policy: larder_engine::Policy) -> Result<Engine> {
    let cache = larder_engine::Cache::builder().entries(ENTRIES).shards(SHARDS).policy(policy).build()?;
    (0..2 * ENTRIES).for_each(|n| _ = cache.insert(key(n), n));
    Ok(cache)
}

/// Insertions of new keys.
fn evict(policy: larder_engine::Policy, count: u64) -> Result<()> {
    let cache = full(policy)?;
    (2 * ENTRIES..2 * ENTRIES + count).for_each(|n| _ = black_box(cache.insert(key(n), n)));
    ensure!(cache.len() as u64 <= ENTRIES);
    Ok(())
}

fn engine_evict_100k(count: u64) -> Result<()> {
    evict(larder_engine::Policy::Ctd, count)
}

fn engine_evict_fifo(count: u64) -> Result<()> {
    evict(larder_engine::Policy::Fifo, count)
}

/// A get, and an insertion if it misses, of 4,096 keys in caches of 256 entries. Their popularity falls by half from each power
/// of two to the next.
fn engine_request(count: u64) -> Result<()> {
    let caches = engines(KEYS)?;
    let mut misses = 0;
    // Beside those that count as many as let the policies settle.
    for n in 0..CACHES * 20 * KEYS + count {
        let (cache, n) = turn(&caches, n);
        let draw = key(n + 1);
        let first = 1 << (draw % 12);
        let key = key(first + (draw >> 8) % first);
        if black_box(cache.get(&key)).is_none() {
            misses += 1;
            cache.insert(key, n);
        }
    }
    ensure!(misses > 0 && caches.iter().all(|cache| cache.len() as u64 <= KEYS));
    Ok(())
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

type Numbers = larder::View<u64, u64, Infallible>;

/// Views of caches in memory, with all keys.
async fn filled_views() -> Result<Vec<Numbers>> {
    let mut views: Vec<Numbers> = Vec::new();
    for _ in 0..CACHES {
        let cache = larder::Cache::builder("guard").memory_entries(2 * KEYS).ttl(TTL).build()?;
        views.push(cache.view("n"));
    }
    for n in 0..CACHES * KEYS {
        let (view, key) = turn(&views, n);
        ensure!(view.write(&key, key).await?.is_everywhere());
    }
    Ok(views)
}

fn larder_hit(count: u64) -> Result<()> {
    runtime()?.block_on(async {
        let views = filled_views().await?;
        for n in 0..count {
            let (view, n) = turn(&views, n);
            let key = n % KEYS;
            let value = view.fetch(&key).load(|_| async { Ok(u64::MAX) }).await?;
            ensure!(*value == key, "the fetch of {key} is a miss");
        }
        Ok(())
    })
}

/// The same hit without a future.
fn larder_sync_hit(count: u64) -> Result<()> {
    let views = runtime()?.block_on(filled_views())?;
    for n in 0..count {
        let (view, n) = turn(&views, n);
        let key = n % KEYS;
        ensure!(view.hit(&key).is_some_and(|value| *value == key), "{key} is not in memory");
    }
    Ok(())
}

/// A value that Redis has and memory has not, with the part of the server, which is ours.
fn larder_fetch(count: u64) -> Result<()> {
    over_redis(async |view| {
        for n in 0..KEYS {
            ensure!(view.write(&n, n).await?.is_everywhere());
        }
        for n in 0..count {
            let key = n % KEYS;
            let value = view.fetch(&key).load(|_| async { Ok(u64::MAX) }).await?;
            ensure!(*value == key && value.source() == larder::Source::Redis, "{key} is not from redis");
        }
        Ok(())
    })
}

/// A deletion that finds no value, with its announcement and the part of the server.
fn larder_delete(count: u64) -> Result<()> {
    over_redis(async |view| {
        for n in 0..count {
            ensure!(view.delete(&(n % KEYS)).await?.reach.is_everywhere());
        }
        Ok(())
    })
}

/// A cache with room for one entry in memory, over a server in this process.
fn over_redis(work: impl AsyncFnOnce(larder::View<u64, u64, Infallible>) -> Result<()> + Send) -> Result<()> {
    with_server(|path| {
        runtime()?.block_on(async {
            let url = format!("redis+unix://{}", path.display());
            let cache = larder::Cache::builder("guard").memory_entries(1).ttl(TTL).redis(url);
            // The instructions are counted by a program that takes fifty times as long for each.
            let cache = cache.redis_timeout(Duration::from_secs(30)).build()?;
            work(cache.view("n")).await
        })
    })
}

async fn handle(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    let mut response = Response::new(Body::from(vec![b'x'; 1_024]));
    response.extensions_mut().insert(Cached::ttl(TTL));
    Ok(response)
}

/// The layer alone: no connection, no bytes to parse.
fn http_hit(count: u64) -> Result<()> {
    runtime()?.block_on(async {
        let mut service = HttpCache::builder().max_bytes(1 << 20).build()?.layer().layer(service_fn(handle));
        for n in 0..=count {
            let request = Request::get("/page").header("host", "shop.example").body(Body::empty())?;
            let response = service.call(request).await?;
            ensure!(n == 0 || response.headers().contains_key("age"), "request {n} is a miss");
            let body = to_bytes(Body::new(response.into_body()), usize::MAX).await?;
            ensure!(body.len() == 1_024);
        }
        Ok(())
    })
}

/// Each request is for another page, which is stored.
fn http_miss(count: u64) -> Result<()> {
    runtime()?.block_on(async {
        let mut service = HttpCache::builder().max_bytes(1 << 20).build()?.layer().layer(service_fn(handle));
        for n in 0..count {
            let request = Request::get(format!("/page/{n}")).header("host", "shop.example");
            let response = service.call(request.body(Body::empty())?).await?;
            ensure!(!response.headers().contains_key("age"), "request {n} is a hit");
            let body = to_bytes(Body::new(response.into_body()), usize::MAX).await?;
            ensure!(body.len() == 1_024);
        }
        Ok(())
    })
}

const GET: &str = "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";

/// A client that waits for each reply: each command is a turn of its connection.
fn server_turn(count: u64) -> Result<()> {
    serve(GET, "$5\r\nvalue\r\n", 1, count)
}

fn server_get(count: u64) -> Result<()> {
    serve(GET, "$5\r\nvalue\r\n", PIPELINE, count)
}

fn server_set(count: u64) -> Result<()> {
    serve("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n", "+OK\r\n", PIPELINE, count)
}

/// A script with one `GET` and one `SET`.
fn server_eval(count: u64) -> Result<()> {
    let script = "local value = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return value";
    let length = script.len();
    let command =
        format!("*5\r\n$4\r\nEVAL\r\n${length}\r\n{script}\r\n$1\r\n1\r\n$3\r\nkey\r\n$5\r\nvalue\r\n");
    serve(&command, "$5\r\nvalue\r\n", PIPELINE, count)
}

/// The commands of a pipeline. The client's part is one write and one read of bytes that are made beforehand.
const PIPELINE: u64 = 50;

/// Sends a command `count` times to a server with one thread, over its Unix socket, so many at a time.
fn serve(command: &str, reply: &str, pipeline: u64, count: u64) -> Result<()> {
    with_server(|path| {
        let mut stream = UnixStream::connect(path)?;
        let mut reply_bytes = Vec::new();
        exchange(
            &mut stream,
            "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n",
            "+OK\r\n",
            &mut reply_bytes,
        )?;
        let [commands, replies] = [command, reply].map(|text| text.repeat(pipeline as usize));
        for _ in 0..count / pipeline {
            exchange(&mut stream, &commands, &replies, &mut reply_bytes)?;
        }
        Ok(())
    })
}

/// Runs a client of a server with one thread, on a thread of its own.
fn with_server(client: impl FnOnce(&std::path::Path) -> Result<()> + Send) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("socket");
    let config = Config {
        listen: None,
        unixsocket: Some(path.clone()),
        threads: Some(1),
        max_memory: Some("1mb".parse().context("a size")?),
        ..Config::default()
    };
    let runtime = runtime()?;
    let server = {
        let _context = runtime.enter();
        Server::bind(config)?
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let client = || {
        let done = client(&path);
        drop(stop);
        done
    };
    std::thread::scope(|scope| {
        let client = scope.spawn(client);
        runtime.block_on(server.run(async { _ = stopped.await }))?;
        client.join().expect("the client does not panic")
    })
}

fn exchange(stream: &mut UnixStream, commands: &str, replies: &str, buffer: &mut Vec<u8>) -> Result<()> {
    stream.write_all(commands.as_bytes())?;
    buffer.resize(replies.len(), 0);
    stream.read_exact(buffer)?;
    ensure!(buffer == replies.as_bytes(), "wrong reply");
    Ok(())
}
