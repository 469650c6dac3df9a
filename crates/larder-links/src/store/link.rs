//! The types of a link: as it is stored, as it is created, and as it is changed.

use crate::model::address::Address;
use crate::model::tag::Tag;
use std::time::Duration;
use twox_hash::XxHash3_64;

/// The longest title, in bytes.
pub const MAX_TITLE_BYTES: usize = 512;

/// How long a deleted link can be restored.
pub const RESTORE_PERIOD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A link as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The row's id, never reused.
    pub id: u64,
    /// The path of the short link.
    pub slug: String,
    /// The target address.
    pub url: String,
    /// The owner's title; may be empty.
    pub title: String,
    /// When it was created, in milliseconds since 1970.
    pub created_at: i64,
    /// Visits in the database, without those still in memory.
    pub visits: u64,
    /// What the owner chose for it.
    pub options: LinkOptions,
    /// When it was deleted, in milliseconds since 1970; `None` for a link that is not.
    pub deleted_at: Option<i64>,
}

/// What the owner can choose for a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOptions {
    /// Its tags, in ascending order, without duplicates.
    pub tags: Vec<Tag>,
    /// From when on it no longer redirects, in milliseconds since 1970. Default never.
    pub expires_at: Option<i64>,
    /// After how many visits it no longer redirects. Default never.
    pub max_visits: Option<u64>,
    /// Whether a redirect adds the query of the request to the target. Default false.
    pub forward_query: bool,
    /// Whether crawlers may follow and index it, also if the service refuses them. Default false.
    pub crawlable: bool,
}

/// A new link. Slug and title are valid already.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// The target address.
    pub url: Address,
    /// The slug that the user chose, or `None` to derive one.
    pub slug: Option<String>,
    /// The owner's title; may be empty.
    pub title: String,
    /// What the owner chose for it.
    pub options: LinkOptions,
}

impl NewLink {
    /// A hash of the fields that identify an imported link. The columns themselves decide equality.
    pub(super) fn fingerprint(&self) -> i64 {
        fingerprint(self.url.as_str(), &self.title)
    }
}

pub(super) fn fingerprint(url: &str, title: &str) -> i64 {
    XxHash3_64::oneshot(&[url.as_bytes(), b"\0", title.as_bytes()].concat()) as i64
}

/// The outcome of one [`NewLink`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The link was created.
    Created(Link),
    /// An equal link exists.
    Existing(Link),
    /// The slug that the user chose belongs to another link, which may be deleted.
    SlugTaken,
}

/// What to do with a new link that equals an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Create another link.
    Allow,
    /// Return the existing link with this address and title, if it leads anywhere or the new one has an end too.
    Reuse,
}

/// The update of a link; `None` leaves a field unchanged, and `Some(None)` removes it.
#[derive(Clone, Debug, Default)]
pub struct LinkUpdate {
    /// The new address.
    pub url: Option<Address>,
    /// The new title.
    pub title: Option<String>,
    /// The new tags, all of them.
    pub tags: Option<Vec<Tag>>,
    /// The new date of expiry.
    pub expires_at: Option<Option<i64>>,
    /// The new limit of visits.
    pub max_visits: Option<Option<u64>>,
    /// Whether redirects add the query of the request.
    pub forward_query: Option<bool>,
    /// Whether crawlers may follow and index it.
    pub crawlable: Option<bool>,
}

impl LinkUpdate {
    /// The link after this update.
    pub(super) fn apply(&self, link: &Link) -> Link {
        let old = &link.options;
        Link {
            url: self.url.as_ref().map_or(&*link.url, Address::as_str).to_owned(),
            title: self.title.as_ref().unwrap_or(&link.title).clone(),
            options: LinkOptions {
                tags: self.tags.as_ref().unwrap_or(&old.tags).clone(),
                expires_at: self.expires_at.unwrap_or(old.expires_at),
                max_visits: self.max_visits.unwrap_or(old.max_visits),
                forward_query: self.forward_query.unwrap_or(old.forward_query),
                crawlable: self.crawlable.unwrap_or(old.crawlable),
            },
            ..link.clone()
        }
    }
}

/// What a redirect needs of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The link's id.
    pub link_id: u64,
    /// The target address.
    pub url: String,
    /// See [`LinkOptions::expires_at`].
    pub expires_at: Option<i64>,
    /// See [`LinkOptions::max_visits`].
    pub max_visits: Option<u64>,
    /// See [`LinkOptions::forward_query`].
    pub forward_query: bool,
    /// See [`LinkOptions::crawlable`].
    pub crawlable: bool,
    /// Whether the link is deleted and can be restored.
    pub is_deleted: bool,
}
