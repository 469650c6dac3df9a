//! A server that breaks one point of the protocol. It proves that the checker notices.

/// Which point the server breaks. The promise may then be broken too, and the checker must find a history in which it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forgery {
    /// None.
    #[default]
    None,
    /// A commit stores without comparing the expected bytes with those that are there.
    CommitsUnconditionally,
    /// Invalidations are made and not announced.
    AnnouncesNothing,
    /// A heartbeat is answered although announcements are still on their way.
    HeartbeatsOvertake,
    /// A heartbeat is answered although the connection is lost.
    HeartbeatsAlways,
    /// A load gets the clock of a later moment than its start.
    ClockOfTheEnd,
    /// A ledger that was lost starts at one instead of the current time, and heartbeats do not tell.
    LedgerStartsAtOne,
    /// An invalidated tag gets no stamp.
    StampsNothing,
    /// A restarted server has the identity of the one before.
    HidesRestarts,
    /// The owner of a slot that moves removes a key that has moved: it says that there was none, instead of where it is.
    ExecutesAtSource,
    /// A server announces only what it has executed itself just before.
    AnnouncesOnlyItsOwn,
    /// A server that hands over, or was replaced, says that it has stored the marker of a heartbeat, and answers reads, as with
    /// the option `cluster-allow-reads-when-down`.
    ProvesWithoutWriting,
    /// Where nothing passes, heartbeats do.
    LosesAnnouncements,
}

impl Forgery {
    pub(crate) const ALL: [Forgery; 8] = [
        Forgery::CommitsUnconditionally,
        Forgery::AnnouncesNothing,
        Forgery::HeartbeatsOvertake,
        Forgery::HeartbeatsAlways,
        Forgery::ClockOfTheEnd,
        Forgery::LedgerStartsAtOne,
        Forgery::StampsNothing,
        Forgery::HidesRestarts,
    ];

    /// Those of a cluster.
    pub(crate) const OF_CLUSTERS: [Forgery; 3] =
        [Forgery::AnnouncesNothing, Forgery::ExecutesAtSource, Forgery::LosesAnnouncements];

    /// Those of a cluster that break the promise in one history out of thousands only.
    pub(crate) const RARE_OF_CLUSTERS: [Forgery; 2] =
        [Forgery::ProvesWithoutWriting, Forgery::AnnouncesOnlyItsOwn];
}
