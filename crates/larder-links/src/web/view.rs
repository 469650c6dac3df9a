//! Links as the JSON and the GraphQL API show them: the same fields with the same meanings.

use crate::model::count::Count;
use crate::model::tag::Tag;
use crate::service::Links;
use crate::service::chart;
use crate::store::{
    DayCount, DimensionCounts, Link, LinkOptions, ListQuery, QUARTERS_PER_DAY, StoreError, now_ms,
};
use crate::web::cursor;
use async_graphql::{SimpleObject, scalar};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// How many days the chart of a link shows.
const CHART_DAYS: i32 = 30;

/// Milliseconds since 1970. The integers of GraphQL have 32 bits only.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Timestamp(i64);

scalar!(Timestamp, "Timestamp", "Milliseconds since 1970, an integer.");

/// A short link.
#[derive(Serialize, SimpleObject)]
#[graphql(name = "Link", rename_fields = "snake_case")]
pub(crate) struct LinkView {
    /// The path of the short link.
    pub(crate) slug: String,
    short_url: String,
    /// The target address.
    url: String,
    title: String,
    created_at: Timestamp,
    visits: Count,
    tags: Vec<String>,
    /// From when on the link no longer redirects.
    expires_at: Option<Timestamp>,
    /// After how many visits the link no longer redirects.
    max_visits: Option<Count>,
    /// Whether a redirect adds the query of the request to the target.
    forward_query: bool,
    /// Whether crawlers may follow and index the link, also if the service refuses them.
    crawlable: bool,
    /// When the link was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[graphql(skip)]
    deleted_at: Option<Timestamp>,
}

impl LinkView {
    pub(crate) fn new(link: Link, base: &str) -> LinkView {
        let LinkOptions { tags, expires_at, max_visits, forward_query, crawlable } = link.options;
        LinkView {
            short_url: format!("{base}{}", link.slug),
            slug: link.slug,
            url: link.url,
            title: link.title,
            created_at: Timestamp(link.created_at),
            visits: link.visits.into(),
            tags: tags.iter().map(Tag::to_string).collect(),
            expires_at: expires_at.map(Timestamp),
            max_visits: max_visits.map(Count::from),
            forward_query,
            crawlable,
            deleted_at: link.deleted_at.map(Timestamp),
        }
    }
}

/// A link with its visits on each of the last 30 days that has any.
#[derive(Serialize, SimpleObject)]
#[graphql(name = "LinkDetail")]
pub(crate) struct DetailView {
    #[serde(flatten)]
    #[graphql(flatten)]
    link: LinkView,
    days: Vec<DayCount>,
    /// Where the visits since the first of these days in UTC come from.
    dimensions: DimensionCounts,
}

impl DetailView {
    pub(crate) async fn load(
        links: &Links,
        slug: &str,
        zone: &TimeZone,
        base: &str,
    ) -> Result<Option<DetailView>, StoreError> {
        let Some(link) = links.store().find(slug).await? else { return Ok(None) };
        let since = chart::first_quarter(now_ms(), CHART_DAYS, zone);
        let days = chart::by_day(&links.store().history(link.id, since).await?, zone);
        let dimensions = links.store().dimensions(link.id, since.div_euclid(QUARTERS_PER_DAY)).await?;
        Ok(Some(DetailView { link: LinkView::new(link, base), days, dimensions }))
    }
}

/// A page of links.
#[derive(Serialize, SimpleObject)]
#[graphql(name = "LinkPage")]
pub(crate) struct PageView {
    links: Vec<LinkView>,
    /// The cursor of the next page.
    next: Option<String>,
}

impl PageView {
    pub(crate) async fn load(links: &Links, query: ListQuery, base: &str) -> Result<PageView, StoreError> {
        let sort = query.sort;
        let page = links.store().list(query).await?;
        Ok(PageView {
            links: page.links.into_iter().map(|link| LinkView::new(link, base)).collect(),
            next: page.next.and_then(|position| cursor::encode(position, sort, links.store().slugs())),
        })
    }
}
