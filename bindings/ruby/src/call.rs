//! A call of larder: it ends at once, or its caller waits for it.

use crate::cache::Node;
use crate::fibers;
use crate::log;
use crate::raised::{Raised, Result, of_wait};
use crate::ruby::gvl::Interrupt;
use crate::ruby::kept::release_dropped;
use crate::ruby::{Ruby, Value};
use larder_host::HostCache;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// Makes the result of a call, on a thread that has the GVL.
pub(crate) type Answer = Box<dyn for<'r> FnOnce(Ruby<'r>) -> Result<Value<'r>> + Send>;

/// The result of a call, which `answer` makes. It has no values of Ruby meanwhile: they would be freed.
///
/// A caller that is interrupted drops the call. What that means is documented with each call of larder.
pub(crate) fn run<'r, R: Send + 'static>(
    ruby: Ruby<'r>,
    node: &Arc<Node>,
    call: impl Future<Output = R> + Send + 'static,
    answer: impl for<'a> FnOnce(Ruby<'a>, R) -> Result<Value<'a>> + Send + 'static,
) -> Result<Value<'r>> {
    let mut call = Box::pin(call);
    let result = match poll_once(node.host(), call.as_mut())? {
        Poll::Ready(result) => result,
        Poll::Pending if ruby.has_fiber_scheduler() => {
            let answered = async move {
                let result = call.await;
                let answer: Answer = Box::new(move |ruby| answer(ruby, result));
                answer
            };
            return fibers::wait(ruby, node, Box::pin(answered));
        }
        Poll::Pending => block(ruby, node.host(), call.as_mut())?,
    };
    upkeep(ruby)?;
    answer(ruby, result)
}

/// What larder has left for a thread with the GVL.
pub(crate) fn upkeep(ruby: Ruby<'_>) -> Result<()> {
    release_dropped(ruby);
    log::write(ruby)
}

/// Most calls that need no Redis end here, and other threads of Ruby do not get the GVL meanwhile.
fn poll_once<F: Future>(host: &HostCache, mut call: Pin<&mut F>) -> Result<Poll<F::Output>> {
    let polled = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
    host.wait(polled, None, || Ok::<_, Infallible>(())).map_err(|error| of_wait(&error))
}

/// Blocks this thread without the GVL. Interrupts end that within [`larder_host::WAIT_SLICE`].
fn block<F>(ruby: Ruby<'_>, host: &HostCache, mut call: Pin<&mut F>) -> Result<F::Output>
where
    F: Future + Send,
    F::Output: Send,
{
    let interrupt = Interrupt::new(ruby);
    loop {
        let asked = || if interrupt.is_set() { Err(()) } else { Ok(()) };
        let waited = ruby.without_gvl(&interrupt, || host.wait(call.as_mut(), None, asked));
        match waited {
            Some(Ok(result)) => return Ok(result),
            Some(Err(larder_host::WaitError::Interrupted(()))) | None => {}
            Some(Err(error)) => return Err(of_wait(&error)),
        }
        interrupt.clear();
        // A handler of a signal may return: then the call goes on.
        ruby.check_interrupts()?;
    }
}

/// Calls something that blocks, and cannot be interrupted.
pub(crate) fn blocking<R: Send>(ruby: Ruby<'_>, call: impl Fn() -> R + Send + Sync) -> Result<R> {
    let interrupt = Interrupt::new(ruby);
    loop {
        match ruby.without_gvl(&interrupt, &call) {
            Some(result) => return Ok(result),
            None => ruby.check_interrupts()?,
        }
    }
}

/// For a call that was cancelled by the end of its cache.
pub(crate) fn closed() -> Raised {
    Raised::new(larder_host::ErrorClass::Closed, "the cache was closed before the call ended")
}
