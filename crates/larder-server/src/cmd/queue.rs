//! The commands of a transaction, which wait for `EXEC`.

use larder_resp::{Args, ArgsBuffer};

use crate::spec::CommandSpec;
use crate::values::large;

/// The commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    requests: ArgsBuffer,
    /// The command of each request.
    commands: Vec<&'static CommandSpec>,
    /// Whether a command could not be queued: `EXEC` executes nothing then.
    is_aborted: bool,
}

impl Transaction {
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Adds a command. If it is too large, the transaction is aborted, and the result is false.
    pub(super) fn push(&mut self, spec: &'static CommandSpec, args: Args<'_>) -> bool {
        // Nothing is executed after an error, so nothing has to be kept.
        if self.is_aborted {
            return true;
        }
        self.is_aborted = !self.requests.push(args);
        if !self.is_aborted {
            self.commands.push(spec);
        }
        !self.is_aborted
    }

    /// Whether it may change keys or send messages.
    pub(super) fn writes(&self) -> bool {
        self.commands.iter().any(|spec| spec.may_write())
    }

    /// The memory that it needs, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.requests.bytes_allocated() + self.commands.capacity() * size_of::<&CommandSpec>()
    }

    /// The commands with their requests, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static CommandSpec, Args<'_>)> {
        self.commands.iter().enumerate().map(|(index, spec)| (*spec, self.requests.get(index)))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.requests.take_long_arguments().into_iter().for_each(large::release);
    }
}
