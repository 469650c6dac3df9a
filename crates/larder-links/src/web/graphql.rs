//! The schema of the GraphQL API, which is read only, and the limits of one query.

use crate::service::Links;
use crate::service::api_error::ApiError;
use crate::store::{MAX_PAGE_LINKS, Sort};
use crate::web::input::{self, DEFAULT_PAGE_LINKS};
use crate::web::view::{DetailView, PageView};
use async_graphql::{Context, EmptyMutation, EmptySubscription, Object, Result, Schema};
use larder_http::CacheCtx;

pub(crate) const GRAPHQL_PATH: &str = "/api/graphql";
/// The introspection query of GraphiQL has this depth.
const MAX_DEPTH: usize = 15;
/// A search for the largest page with all its fields costs 4,000.
const MAX_COMPLEXITY: usize = 4_200;
const LINK_COMPLEXITY: usize = 100;
const LIST_COMPLEXITY: usize = 200;
/// A search may examine 50,000 rows.
const SEARCH_COMPLEXITY: usize = 1_200;

const MAX_DOCUMENT_BYTES: usize = 8 << 10;
/// The parser and the destructor of a nested value call themselves for each level.
const MAX_BRACKETS: usize = 256;
/// The limits of depth and complexity are checked after all fragments are inserted where they are used. With twelve uses
/// a field is visited at most 81 times; the introspection query has eight.
const MAX_SPREADS: usize = 12;

pub(crate) type LinksSchema = Schema<Query, EmptyMutation, EmptySubscription>;

pub(crate) fn schema() -> LinksSchema {
    Schema::build(Query, EmptyMutation, EmptySubscription)
        .limit_depth(MAX_DEPTH)
        .limit_complexity(MAX_COMPLEXITY)
        .finish()
}

/// Rejects a document that would be expensive to parse or validate, by its text alone. Brackets and dots in strings and
/// comments count too: an error is better than a lexer that the parser may disagree with.
pub(crate) fn check_document(document: &str) -> Result<(), ApiError> {
    let brackets = document.bytes().filter(|byte| matches!(byte, b'{' | b'[' | b'(')).count();
    for (count, limit, unit) in [
        (document.len(), MAX_DOCUMENT_BYTES, "bytes"),
        (brackets, MAX_BRACKETS, "opening brackets"),
        (document.matches("...").count(), MAX_SPREADS, "fragment spreads"),
    ] {
        if count > limit {
            return Err(ApiError::invalid("query", format!("may have at most {limit} {unit}"), document));
        }
    }
    Ok(())
}

/// What the resolvers need of a request.
pub(crate) struct RequestData {
    pub(crate) links: Links,
    /// The base address of short links.
    pub(crate) base: String,
    pub(crate) cache: CacheCtx,
}

pub(crate) struct Query;

#[Object]
impl Query {
    /// One link with its visits by day; null if there is none with this slug.
    #[graphql(complexity = "LINK_COMPLEXITY + child_complexity")]
    async fn link(
        &self,
        ctx: &Context<'_>,
        slug: String,
        #[graphql(desc = "The time zone of the days, such as Europe/Berlin; UTC if absent.")] tz: Option<
            String,
        >,
    ) -> Result<Option<DetailView>> {
        let RequestData { links, base, cache } = ctx.data()?;
        let zone = input::time_zone(tz.as_deref())?;
        let link = DetailView::load(links, &slug, &zone, base).await.map_err(ApiError::from)?;
        match &link {
            Some(_) => links.stored_responses().contains_link(cache, &slug),
            // A link that is created purges the list.
            None => links.stored_responses().contains_list(cache),
        }
        Ok(link)
    }

    /// A page of links. The next one starts after the `next` of this one. `q` is part of a slug, title or address.
    #[graphql(complexity = "list_complexity(limit, q.is_some(), child_complexity)")]
    async fn links(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "From 1 to 200; 50 if absent.")] limit: Option<i32>,
        after: Option<String>,
        q: Option<String>,
        #[graphql(desc = "The order; newest first if absent.")] sort: Option<Sort>,
    ) -> Result<Option<PageView>> {
        let RequestData { links, base, cache } = ctx.data()?;
        let sort = match sort.unwrap_or_default() {
            Sort::Newest => "newest",
            Sort::Visits => "visits",
        };
        let limit = limit.map(|limit| limit.to_string());
        let parameters = [("limit", limit), ("after", after), ("q", q), ("sort", Some(sort.to_owned()))];
        let parameters =
            parameters.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into())));
        let query = input::list_query(parameters, links.store().slugs())?;
        let page = PageView::load(links, query, base).await.map_err(ApiError::from)?;
        links.stored_responses().contains_list(cache);
        // Nullable: an error in one field leaves the others.
        Ok(Some(page))
    }
}

fn list_complexity(limit: Option<i32>, is_search: bool, of_link: usize) -> usize {
    let limit = limit.map_or(DEFAULT_PAGE_LINKS, |limit| usize::try_from(limit).unwrap_or(0));
    let query = if is_search { SEARCH_COMPLEXITY } else { LIST_COMPLEXITY };
    query + limit.min(MAX_PAGE_LINKS).saturating_mul(of_link)
}
