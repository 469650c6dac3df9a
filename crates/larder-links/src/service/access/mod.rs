//! Access control of the API.
//!
//! ```text
//! request ──► route on the open list? ── yes ──────────────────────────────────────────► redirect, page, health
//!                 │ no
//!                 ▼
//!             Host is ours ──► local request? ── yes ──► no token needed ──┐
//!                                   │ no                                   ▼
//!                                   └──► token or session ──► scope ──► Origin ──► rate limit ──► response cache ──► API
//! ```
//!
//! Tokens and sessions are rows of the links database, so all instances share them. Each instance keeps their hashes in
//! memory for at most [`MAX_AGE`]: after that time a token that another process removes is rejected everywhere. A
//! hash that is not in memory is looked up in the database before it is rejected, so a new token works at once.

mod limits;

pub(crate) use limits::{Kind, Limits, Rates};

use crate::config::Config;
use crate::error::LinksError;
use crate::model::client::{Client, client_of};
use crate::model::token::{Scope, Secret, SecretHash, hash_of_session, hash_of_token};
use crate::service::api_error::ApiError;
use crate::store::{Credential, Store, StoreError, now_ms};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, StatusCode};
use larder_web::Network;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long hashes in memory are used before they are loaded from the database again.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(1);

/// The right of a request to use the API, given by a token or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) hash: SecretHash,
    pub(crate) token_id: u64,
    pub(crate) scope: Scope,
}

/// The hashes as one query of the database returned them.
#[derive(Default)]
struct Snapshot {
    loaded_at: Option<Instant>,
    by_hash: HashMap<SecretHash, Credential>,
}

impl Snapshot {
    fn grant(&self, hash: SecretHash) -> Option<Grant> {
        let credential = self.by_hash.get(&hash)?;
        let is_valid = credential.expires_at.is_none_or(|at| at > now_ms());
        is_valid.then_some(Grant { hash, token_id: credential.token_id, scope: credential.scope })
    }
}

/// Decides which requests may use the API.
pub(crate) struct Access {
    store: Store,
    /// Whether no option makes the service reachable from another machine.
    local_by_config: bool,
    trusted_proxies: Vec<Network>,
    cookie_name: &'static str,
    is_secure: bool,
    session_lifetime: Duration,
    limits: Limits,
    snapshot: RwLock<Arc<Snapshot>>,
    /// One query at a time.
    loading: tokio::sync::Mutex<()>,
    /// Counts the changes of tokens and sessions by this instance.
    changes: watch::Sender<u64>,
}

impl Access {
    pub(crate) fn new(config: &Config, store: Store) -> Result<Access, LinksError> {
        let is_secure = config.public_base()?.is_some_and(|base| base.scheme() == "https");
        Ok(Access {
            store,
            local_by_config: config.is_local()?,
            trusted_proxies: config.proxy_networks()?,
            // The prefix makes browsers reject a cookie of this name from a subdomain or over plain HTTP.
            cookie_name: if is_secure { "__Host-larder_session" } else { "larder_session" },
            is_secure,
            session_lifetime: Duration::from_secs(config.session_seconds),
            limits: Limits::new(Rates {
                changes: config.changes_per_minute,
                listings: config.listings_per_minute,
                wrong_tokens: config.wrong_tokens_per_minute,
            }),
            snapshot: RwLock::default(),
            loading: tokio::sync::Mutex::default(),
            changes: watch::channel(0).0,
        })
    }

    /// Whether the options and the client allow a request without a token; the listener's address and the `Host` are
    /// checked by the caller. A request that a proxy forwarded is not local, whoever the peer is.
    pub(crate) fn is_local_client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> bool {
        const FORWARDED: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
        self.local_by_config
            && peer.is_some_and(|peer| peer.to_canonical().is_loopback())
            && !FORWARDED.iter().any(|name| headers.contains_key(*name))
    }

    pub(crate) fn is_local_by_config(&self) -> bool {
        self.local_by_config
    }

    /// The client that the rate limits count. Without a peer all requests are of one client.
    pub(crate) fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Client {
        client_of(peer.unwrap_or(IpAddr::from([0, 0, 0, 0])), headers, &self.trusted_proxies)
    }

    /// The client of every request of a connection, whatever their headers; `None` if its peer is a trusted proxy.
    pub(crate) fn client_of_direct(&self, peer: IpAddr) -> Option<Client> {
        let is_proxy = self.trusted_proxies.iter().any(|network| network.contains(peer));
        (!is_proxy).then(|| client_of(peer, &HeaderMap::new(), &self.trusted_proxies))
    }

    /// Takes one request from the client's bucket; 429 if it is empty.
    pub(crate) fn take(&self, client: Client, kind: Kind) -> Result<(), ApiError> {
        self.limits.take(client, kind).map_err(|wait| {
            let message = match kind {
                Kind::Change => "too many changes",
                Kind::Listing => "too many requests",
                Kind::WrongToken => "too many wrong tokens",
            };
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(wait)
        })
    }

    /// The grant of the token or session in a request: 401 if it has none or a wrong one, 429 after too many wrong ones,
    /// 503 if the database fails.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap, client: Client) -> Result<Grant, ApiError> {
        let hash = match self.presented(headers) {
            Presented::Nothing => return Err(ApiError::unauthorized("a token is needed", false)),
            Presented::Malformed => None,
            Presented::Hash(hash) => Some(hash),
        };
        match self.grant(hash, client).await? {
            Some(grant) => Ok(grant),
            None => Err(ApiError::unauthorized("the token or session is not valid", true)),
        }
    }

    /// The grant of a hash. An unknown hash counts as a wrong token.
    pub(crate) async fn grant(
        &self,
        hash: Option<SecretHash>,
        client: Client,
    ) -> Result<Option<Grant>, ApiError> {
        let asked_at = Instant::now();
        if let Some(hash) = hash
            && let Some(grant) = self.loaded_after(asked_at.checked_sub(MAX_AGE)).await?.grant(hash)
        {
            return Ok(Some(grant));
        }
        // Before the second query, so that the limit protects the database from guesses.
        self.take(client, Kind::WrongToken)?;
        match hash {
            Some(hash) => Ok(self.loaded_after(Some(asked_at)).await?.grant(hash)),
            None => Ok(None),
        }
    }

    /// The hashes in the database at `since` or later. Concurrent callers share one query.
    async fn loaded_after(&self, since: Option<Instant>) -> Result<Arc<Snapshot>, StoreError> {
        let is_fresh =
            |snapshot: &Snapshot| snapshot.loaded_at.is_some_and(|at| since.is_none_or(|t| at >= t));
        let present = self.snapshot.read().clone();
        if is_fresh(&present) {
            return Ok(present);
        }
        let _one_query_at_a_time = self.loading.lock().await;
        let present = self.snapshot.read().clone();
        if is_fresh(&present) {
            return Ok(present);
        }
        loop {
            let (began, changes) = (Instant::now(), *self.changes.borrow());
            let by_hash = self.store.credentials().await?.into_iter().map(|c| (c.hash, c)).collect();
            let loaded = Arc::new(Snapshot { loaded_at: Some(began), by_hash });
            let mut snapshot = self.snapshot.write();
            // The result may contain a token that was removed during the query, or lack a new session.
            if *self.changes.borrow() == changes {
                *snapshot = loaded.clone();
                return Ok(loaded);
            }
        }
    }

    fn presented(&self, headers: &HeaderMap) -> Presented {
        let mut lines = headers.get_all(AUTHORIZATION).iter();
        match (lines.next(), lines.next()) {
            (None, _) => match self.session_cookie(headers) {
                Some(cookie) => hash_of_session(cookie).map_or(Presented::Malformed, Presented::Hash),
                None => Presented::Nothing,
            },
            (Some(line), None) => bearer(line.to_str().unwrap_or_default())
                .and_then(hash_of_token)
                .map_or(Presented::Malformed, Presented::Hash),
            (Some(_), Some(_)) => Presented::Malformed,
        }
    }

    fn session_cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie_name).map(|(_, value)| value)
    }

    /// The grant of the request's session, if it has one that is valid.
    pub(crate) async fn session(
        &self,
        headers: &HeaderMap,
        client: Client,
    ) -> Result<Option<Grant>, ApiError> {
        match self.session_cookie(headers).and_then(hash_of_session) {
            Some(hash) => self.grant(Some(hash), client).await,
            None => Ok(None),
        }
    }

    /// Exchanges a token's grant for a session; returns the value of `Set-Cookie`.
    pub(crate) async fn open_session(&self, grant: Grant) -> Result<Option<String>, ApiError> {
        let secret = Secret::new_session();
        let lifetime_ms = i64::try_from(self.session_lifetime.as_millis()).unwrap_or(i64::MAX);
        let expires_at = now_ms().saturating_add(lifetime_ms);
        if !self.store.add_session(secret.hash(), grant.token_id, expires_at).await? {
            return Ok(None);
        }
        // It must not count as a wrong token.
        self.forget_snapshot();
        Ok(Some(self.cookie(secret.as_str(), self.session_lifetime.as_secs())))
    }

    /// Ends the request's session, if it has a valid one; returns the value of `Set-Cookie` that removes the cookie.
    ///
    /// Other cookies count as wrong tokens and reach no write: anyone can send them.
    pub(crate) async fn end_session(&self, headers: &HeaderMap, client: Client) -> Result<String, ApiError> {
        if let Some(grant) = self.session(headers, client).await? {
            self.store.remove_session(grant.hash).await?;
            self.forget_snapshot();
        }
        Ok(self.cookie("", 0))
    }

    /// Removes a token with its sessions. Requests and streams of this instance end at once.
    pub(crate) async fn remove_token(&self, id: u64) -> Result<bool, StoreError> {
        let removed = self.store.remove_token(id).await?;
        self.forget_snapshot();
        Ok(removed)
    }

    fn forget_snapshot(&self) {
        self.changes.send_modify(|count| *count += 1);
        *self.snapshot.write() = Arc::default();
    }

    fn cookie(&self, value: &str, max_age: u64) -> String {
        let (name, secure) = (self.cookie_name, if self.is_secure { "; Secure" } else { "" });
        format!("{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}")
    }

    /// Completes when a grant is no longer valid: its token or session is removed or expired, or the database fails for some
    /// seconds.
    pub(crate) async fn revoked(&self, grant: Grant) {
        const MAX_FAILURES: u32 = 10;
        // Twice in the promised time: hashes of half that age, checked after the other half.
        const CHECK_INTERVAL: Duration = Duration::from_millis(500);
        let mut changes = self.changes.subscribe();
        let mut failures = 0;
        while failures < MAX_FAILURES {
            match self.loaded_after(Instant::now().checked_sub(CHECK_INTERVAL)).await {
                Ok(snapshot) if snapshot.grant(grant.hash).is_none() => return,
                Ok(_) => failures = 0,
                Err(_) => failures += 1,
            }
            // A change ends the wait early. The channel is open as long as `self` exists.
            let _ = tokio::time::timeout(CHECK_INTERVAL, changes.changed()).await;
        }
    }
}

/// The credential in a request.
enum Presented {
    Nothing,
    Malformed,
    Hash(SecretHash),
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750, section 2.1); the scheme in any case of letters.
fn bearer(line: &str) -> Option<&str> {
    let (scheme, token) = line.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
