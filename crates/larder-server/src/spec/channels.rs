//! Which arguments of a command are channels, for the rights of users.

use larder_resp::Args;

/// Which arguments of a command are channels that it publishes to or subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    None,
    /// The first one.
    First,
    All,
    /// All of them are patterns.
    Patterns,
}

impl Channels {
    /// The channels of a request.
    pub(crate) fn of<'a>(self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let count = match self {
            Channels::None => 0,
            Channels::First => 1,
            Channels::All | Channels::Patterns => usize::MAX,
        };
        args.skip(1).iter().take(count)
    }
}
