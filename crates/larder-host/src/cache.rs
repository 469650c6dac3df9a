//! A cache of a host, with a runtime of its own, in each process that uses it.

use crate::options::{CallOptions, builder_of, max_value_bytes};
use crate::process::PerProcess;
use crate::schemas::{FormTaken, ViewForm, ViewForms};
use crate::value::HostValue;
use crate::wait::{WAIT_SLICE, WaitError, wait};
use larder::{BuildError, Builder, Cache, View};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

/// The threads of a runtime. Calls poll on the threads of the host where they can.
const WORKERS: usize = 2;

/// The reason why a cache could not be started in this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The options are wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The cache was closed ([`HostCache::close`]). It does not start again.
    #[error("the cache was closed")]
    Closed,
    /// The system gave the runtime no threads or files.
    #[error("cannot start the threads of larder: {0}")]
    Runtime(#[source] std::io::Error),
}

/// A cache that is started in each process by its first use: with a runtime, whose two threads have names that begin with
/// `larder-`. Cheap to clone: clones are handles of the same cache.
///
/// In a forked child this is another cache with the same options and an empty memory, and handles from before the fork work.
/// What a call got from the parent's cache, such as a value, a lease or a future, is the parent's: drop or forget it.
///
/// # Examples
/// ```
/// use larder::{Cache, View};
/// use larder_host::{HostCache, HostCodec, HostValue, HostView, Objects};
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// let cache = HostCache::new(|| Ok(Cache::builder("shop").ttl(Duration::from_secs(60))))?;
/// let codec = HostCodec::message_pack();
/// let products: HostView<String, Infallible> = cache.view({
///     let codec = codec.clone();
///     move |cache| codec.view(cache, "product", ("product", 3), Objects::kept())
/// })?;
///
/// let value = codec.value(b"apple", b"\x03".to_vec());
/// cache.wait(products.get()?.write(b"apple", value), None, || Ok::<_, Infallible>(()))??;
/// assert!(products.get()?.hit(b"apple").is_some());
/// assert_eq!(cache.close(Duration::from_secs(2))?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HostCache {
    state: Arc<State>,
}

struct State {
    options: Box<dyn Fn() -> Result<Builder, BuildError> + Send + Sync>,
    running: PerProcess<Running>,
    forms: ViewForms,
    max_value_bytes: usize,
    /// Of all handles, and of the children that are forked afterwards.
    is_closed: AtomicBool,
}

/// A cache and its runtime, in one process.
struct Running {
    cache: Cache,
    runtime: Handle,
    /// Until the cache is closed. Read while a waiting thread polls: a timer that is polled after its runtime panics.
    threads: RwLock<Option<Runtime>>,
    closed: Notify,
}

impl HostCache {
    /// A cache with the options that `options` returns, in every process anew: it may read files, and fail in a later process
    /// although it did not in the first. It must not run code of the host. Starts no
    /// thread and opens no connection.
    ///
    /// # Errors
    /// If the options are wrong.
    pub fn new(
        options: impl Fn() -> Result<Builder, BuildError> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        HostCache::with_max_value_bytes(options, usize::MAX)
    }

    /// A cache with a namespace and options of [`Builder::option`], of which one has another default: `redis_connections` is 1,
    /// since a server of a host has many processes. Begins to collect the [log](crate::take_logs) of the process.
    ///
    /// # Errors
    /// If the namespace or an option is wrong.
    ///
    /// # Examples
    /// ```
    /// let options = vec![("ttl".to_owned(), "1m".to_owned())];
    /// let cache = larder_host::HostCache::with_options("shop", options)?;
    /// assert_eq!(cache.max_value_bytes(), 64 << 20);
    /// # Ok::<(), larder::BuildError>(())
    /// ```
    pub fn with_options(namespace: &str, options: Vec<(String, String)>) -> Result<Self, BuildError> {
        crate::collect_logs();
        let (namespace, longest) = (namespace.to_owned(), max_value_bytes(&options));
        HostCache::with_max_value_bytes(move || builder_of(&namespace, &options), longest)
    }

    fn with_max_value_bytes(
        options: impl Fn() -> Result<Builder, BuildError> + Send + Sync + 'static,
        max_value_bytes: usize,
    ) -> Result<Self, BuildError> {
        options()?.build()?;
        let state = State {
            options: Box::new(options),
            running: PerProcess::new(),
            forms: ViewForms::default(),
            max_value_bytes,
            is_closed: AtomicBool::new(false),
        };
        Ok(HostCache { state: Arc::new(state) })
    }

    /// The longest value that the options allow: the binding refuses longer ones while it encodes them.
    pub fn max_value_bytes(&self) -> usize {
        self.state.max_value_bytes
    }

    /// The cache of this process, which starts it.
    ///
    /// # Errors
    /// [`StartError::Closed`], or if the threads cannot be started: the next call tries that again.
    pub fn cache(&self) -> Result<&Cache, StartError> {
        Ok(&self.running()?.cache)
    }

    /// The runtime of this process, which starts the cache: for [`Completions`](crate::Completions), of which a process has
    /// its own too ([`PerProcess`]).
    ///
    /// # Errors
    /// As [`HostCache::cache`].
    pub fn runtime(&self) -> Result<&Handle, StartError> {
        Ok(&self.running()?.runtime)
    }

    /// Notes how the values of a view are written, before it is made. Memory knows a view by its name alone, so two views of
    /// one name with different schemas would read each other's values there, and nowhere else.
    pub(crate) fn claim_view(&self, name: &str, form: ViewForm) -> Result<(), FormTaken> {
        self.state.forms.claim(name, form)
    }

    /// A view that is made in each process by `make`, which must not run code of the host, nor use this `HostCache`.
    ///
    /// Cost: `make` is called once here, with a cache that is then dropped, so that a mistake in a name shows at once.
    ///
    /// # Errors
    /// If the options are wrong.
    ///
    /// # Panics
    /// If `make` panics, as [`Cache::view`] does for a name that is wrong.
    pub fn view<O, X>(
        &self,
        make: impl Fn(&Cache) -> View<[u8], HostValue<O>, X> + Send + Sync + 'static,
    ) -> Result<HostView<O, X>, BuildError>
    where
        O: Send + Sync + 'static,
    {
        make(&(self.state.options)()?.build()?);
        let defaults = CallOptions::default();
        Ok(HostView { view: PerProcess::new(), make: Box::new(make), cache: self.clone(), defaults })
    }

    /// Blocks the calling thread on a call of this cache, as [`wait()`] does, and no longer than the cache is open.
    ///
    /// # Errors
    /// [`WaitError`].
    ///
    /// # Panics
    /// As [`wait()`].
    pub fn wait<F: Future, I>(
        &self,
        call: F,
        deadline: Option<Instant>,
        interrupted: impl FnMut() -> Result<(), I>,
    ) -> Result<F::Output, WaitError<I>> {
        match self.state.running.get() {
            Some(running) => {
                wait(running.unless_closed(call), deadline, interrupted)?.ok_or(WaitError::Closed)
            }
            None => wait(call, deadline, interrupted),
        }
    }

    /// Blocks until Redis has confirmed every invalidation of this process ([`Cache::close`]), for `limit` at most. Returns how
    /// many are still pending. For the exit of an interpreter, whose lock the thread must not have: calls under way go on.
    ///
    /// Where the cache was not started, or is closed, this does nothing.
    ///
    /// # Errors
    /// [`WaitError::InRuntime`].
    pub fn drain(&self, limit: Duration) -> Result<usize, WaitError<Infallible>> {
        let Some(running) = self.state.running.get() else { return Ok(0) };
        match self.wait(running.cache.close(limit), None, || Ok(())) {
            Err(WaitError::Closed) => Ok(0),
            drained => drained,
        }
    }

    /// Ends the cache of this process ([`Cache::shutdown`]) and its threads, and blocks for `limit` at most, and one
    /// [`WAIT_SLICE`]. Returns how many invalidations are still pending: they are lost. The thread must not have the lock of an
    /// interpreter.
    ///
    /// Calls for which threads [wait](HostCache::wait) end, and later calls of whatever kind are errors that say so
    /// ([`StartError::Closed`]), also where the cache was not started, and in children that are forked afterwards. To close it again
    /// does nothing.
    ///
    /// # Errors
    /// [`WaitError::InRuntime`].
    pub fn close(&self, limit: Duration) -> Result<usize, WaitError<Infallible>> {
        if Handle::try_current().is_ok() {
            return Err(WaitError::InRuntime);
        }
        self.state.is_closed.store(true, Ordering::Release);
        // A call that starts the cache at this moment has done so afterwards.
        let Ok(running) = self.state.running.get_or_make(|| Err(())) else { return Ok(0) };
        let pending = wait(running.cache.shutdown(limit), None, || Ok(()))?;
        let threads = running.threads.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(threads) = threads {
            running.closed.notify_waiters();
            threads.shutdown_timeout(WAIT_SLICE);
        }
        Ok(pending)
    }

    fn running(&self) -> Result<&Running, StartError> {
        self.check_open()?;
        self.state.running.get_or_make(|| {
            self.check_open()?;
            Running::start((self.state.options)()?)
        })
    }

    /// Whether it was closed ([`HostCache::close`]).
    pub fn is_closed(&self) -> bool {
        self.check_open().is_err()
    }

    /// Cost: a load of memory.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), StartError> {
        if self.state.is_closed.load(Ordering::Acquire) { Err(StartError::Closed) } else { Ok(()) }
    }
}

impl Running {
    fn start(options: Builder) -> Result<Self, StartError> {
        let named = AtomicUsize::new(0);
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name_fn(move || format!("larder-{}", named.fetch_add(1, Ordering::Relaxed)))
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let runtime = threads.handle().clone();
        let cache = options.runtime(runtime.clone()).build()?;
        Ok(Running { cache, runtime, threads: RwLock::new(Some(threads)), closed: Notify::new() })
    }

    /// The result of a call; `None` if the cache is closed before.
    async fn unless_closed<F: Future>(&self, call: F) -> Option<F::Output> {
        let (mut call, mut closed) = (pin!(call), pin!(self.closed.notified()));
        std::future::poll_fn(|context| {
            let threads = self.threads.read().unwrap_or_else(PoisonError::into_inner);
            if threads.is_none() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(result) = call.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            closed.as_mut().poll(context).map(|()| None)
        })
        .await
    }
}

impl Drop for Running {
    /// Waits for no thread: this may be one of them.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            threads.shutdown_background();
        }
    }
}

type MakeView<O, X> = dyn Fn(&Cache) -> View<[u8], HostValue<O>, X> + Send + Sync;

/// A view of a [`HostCache`], in each process that uses it. `O` is an object of the host, `X` its errors.
pub struct HostView<O, X> {
    // Dropped before the cache.
    view: PerProcess<View<[u8], HostValue<O>, X>>,
    make: Box<MakeView<O, X>>,
    cache: HostCache,
    defaults: CallOptions,
}

impl<O: Send + Sync + 'static, X> HostView<O, X> {
    /// The same view, whose options are these.
    pub(crate) fn with_defaults(mut self, defaults: CallOptions) -> Self {
        self.defaults = defaults;
        self
    }

    /// The view of this process, which starts its cache. Take it for each call, and keep no clone of it: a forked child would
    /// inherit that.
    ///
    /// # Errors
    /// As [`HostCache::cache`].
    #[inline]
    pub fn get(&self) -> Result<&View<[u8], HostValue<O>, X>, StartError> {
        self.cache.check_open()?;
        match self.view.get() {
            Some(view) => Ok(view),
            None => self.view.get_or_make(|| Ok((self.make)(self.cache.cache()?))),
        }
    }

    /// Whether a fetch with these options loads a value again that is due: the options of the view are those of
    /// [`HostCache::open_view`].
    pub fn loads_ahead(&self, options: &CallOptions) -> bool {
        options.loads_ahead_in(&self.defaults)
    }

    /// Its cache.
    pub fn cache(&self) -> &HostCache {
        &self.cache
    }
}

impl std::fmt::Debug for HostCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let running = self.state.running.get().map(|running| &running.cache);
        f.debug_struct("HostCache").field("running", &running).finish_non_exhaustive()
    }
}

impl<O, X> std::fmt::Debug for HostView<O, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostView").field("view", &self.view.get()).finish_non_exhaustive()
    }
}
