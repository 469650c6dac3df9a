//! A server that breaks one point of the protocol, to see that the checker notices.

/// Which point is broken. The promise may then be broken too, and the checker must find a history in which it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lie {
    /// None.
    #[default]
    None,
    /// A commit stores without comparing what is there with what was seen.
    CommitsEverything,
    /// Changes are made and not announced.
    AnnouncesNothing,
    /// A beat is answered although announcements are still on their way.
    BeatsOvertake,
    /// A beat is answered although the connection is gone.
    BeatsAlways,
    /// A load is given the clock of a later moment than its beginning.
    ClockOfTheEnd,
    /// A lost ledger begins at one instead of now.
    LedgerBeginsAtOne,
    /// An invalidated tag gets no stamp.
    StampsNothing,
    /// A restarted server passes for the one that was there before.
    SameServer,
}

impl Lie {
    /// Every lie, with the number of histories within which the checker has to find it.
    pub(crate) const ALL: [Lie; 8] = [
        Lie::CommitsEverything,
        Lie::AnnouncesNothing,
        Lie::BeatsOvertake,
        Lie::BeatsAlways,
        Lie::ClockOfTheEnd,
        Lie::LedgerBeginsAtOne,
        Lie::StampsNothing,
        Lie::SameServer,
    ];
}
