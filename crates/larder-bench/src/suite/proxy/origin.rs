//! The server behind the proxies, on a thread of its own. It counts its requests: what a proxy has stored does not reach it.

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use bytes::Bytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

/// The longest body.
pub(super) const MAX_BYTES: usize = 10 << 20;

/// A running origin. Dropping it ends its thread.
pub(super) struct Origin {
    address: SocketAddr,
    counts: Arc<Counts>,
    _stop: oneshot::Sender<()>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    stalled: AtomicU64,
}

#[derive(Clone)]
struct Shared {
    counts: Arc<Counts>,
    body: Bytes,
    /// Closed when the origin is dropped.
    released: watch::Receiver<()>,
}

impl Origin {
    pub(super) fn start() -> Result<Origin> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let (release, released) = watch::channel(());
        let shared = Shared { counts: counts.clone(), body: Bytes::from(vec![b'x'; MAX_BYTES]), released };
        let router = Router::new()
            .route("/bytes/{length}", get(async |state, Path(length)| bytes(state, length)))
            .route(
                "/bytes/{length}/{name}",
                get(async |state, Path((length, _)): Path<(usize, String)>| bytes(state, length)),
            )
            .route("/stall/{name}", get(stall))
            .with_state(shared);
        let (_stop, stopped) = oneshot::channel::<()>();
        let accepted = counts.clone();
        std::thread::Builder::new().name("origin".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = listener.tap_io(move |stream| {
                    accepted.connections.fetch_add(1, Ordering::Relaxed);
                    _ = stream.set_nodelay(true);
                });
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => drop(release),
                }
            });
        })?;
        Ok(Origin { address, counts, _stop })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests for bodies so far.
    pub(super) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// The connections that were accepted so far.
    pub(super) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// The requests that wait for a response.
    pub(super) fn stalled(&self) -> u64 {
        self.counts.stalled.load(Ordering::Relaxed)
    }
}

/// The path of a body of so many bytes.
pub(super) fn path(length: usize) -> String {
    format!("/bytes/{length}")
}

fn bytes(State(shared): State<Shared>, length: usize) -> Response {
    shared.counts.requests.fetch_add(1, Ordering::Relaxed);
    if length > MAX_BYTES {
        return StatusCode::NOT_FOUND.into_response();
    }
    let fields = [("cache-control", "public, max-age=3600"), ("content-type", "application/octet-stream")];
    (fields, shared.body.slice(..length)).into_response()
}

/// Answers when the origin ends.
async fn stall(State(mut shared): State<Shared>) -> StatusCode {
    shared.counts.stalled.fetch_add(1, Ordering::Relaxed);
    _ = shared.released.changed().await;
    StatusCode::SERVICE_UNAVAILABLE
}
