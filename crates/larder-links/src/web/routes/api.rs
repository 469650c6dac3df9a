//! `/api/links`: create, list, show, update and delete links, as JSON.

use crate::model::address::AddressError;
use crate::service::Links;
use crate::service::api_error::ApiError;
use crate::store::{CreateOutcome, Duplicates, NewLink, StoreHealth};
use crate::web::input::{self, MAX_BATCH_BODY_BYTES, MAX_BODY_BYTES};
use crate::web::view::{DetailView, LinkView, PageView};
use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, MatchedPath, Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION};
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use serde::Serialize;

/// The path of batches, and of the link with this slug.
pub(crate) const BATCH_PATH: &str = "/api/links/batch";

/// The slug in a path. A slug that is not UTF-8 is an unknown link.
pub(crate) struct Slug(String);

impl<S: Send + Sync> FromRequestParts<S> for Slug {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Slug, ApiError> {
        // The one route whose slug is no parameter.
        if parts.extensions.get::<MatchedPath>().is_some_and(|path| path.as_str() == BATCH_PATH) {
            return Ok(Slug("batch".into()));
        }
        let slug = Path::<String>::from_request_parts(parts, state).await;
        slug.map(|Path(slug)| Slug(slug)).map_err(|_| ApiError::no_link(parts.uri.path()))
    }
}

/// `POST /api/links` with `{"url", "slug"?, "title"?}`: 201, or 409 if the slug belongs to another link.
pub(crate) async fn create(State(links): State<Links>, request: Request<Body>) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let input = input::read_json(request, MAX_BODY_BYTES).await?;
    let new = input::new_link(&input).and_then(|new| refuse_loop(&links, new, &headers))?;
    let slug = new.slug.clone().unwrap_or_default();
    match links.create(vec![new], Duplicates::Allow).await?.pop() {
        Some(CreateOutcome::Created(link) | CreateOutcome::Existing(link)) => {
            let link = LinkView::new(link, &links.hosts().base(&headers));
            let location = format!("/api/links/{}", link.slug);
            Ok((StatusCode::CREATED, [(LOCATION, location)], Json(link)).into_response())
        }
        Some(CreateOutcome::SlugTaken) => Err(ApiError::slug_taken(&slug)),
        None => Err(ApiError::internal()),
    }
}

/// The result of one item of a batch.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum ItemJson {
    Created { slug: String },
    Existing { slug: String },
    Invalid { error: ApiError },
}

/// `POST /api/links/batch` with an array of at most 1,000 links: 200 with one result for each, in their order.
///
/// An item with the address and title of an existing link creates no second one, so a batch can be sent twice.
pub(crate) async fn create_batch(
    State(links): State<Links>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    input::check_json_type(&headers)?;
    // Acquired before the body is read: it bounds the bodies in memory.
    let _permit = links.batch_permit().await?;
    let body = input::read_body(&headers, request.into_body(), MAX_BATCH_BODY_BYTES).await?;
    let this = links.clone();
    let parse = move || -> Result<Vec<_>, ApiError> {
        let items = input::batch(&body)?.into_iter();
        Ok(items.map(|item| item.and_then(|new| refuse_loop(&this, new, &headers))).collect())
    };
    let items = links.parse_batch(parse).await?;
    let valid: Vec<NewLink> = items.iter().filter_map(|item| item.as_ref().ok().cloned()).collect();
    let outcomes = if valid.is_empty() { Vec::new() } else { links.create(valid, Duplicates::Reuse).await? };

    let mut outcomes = outcomes.into_iter();
    let results: Vec<ItemJson> = items
        .into_iter()
        .map(|item| match item.map(|new| (new.slug, outcomes.next())) {
            Ok((_, Some(CreateOutcome::Created(link)))) => ItemJson::Created { slug: link.slug },
            Ok((_, Some(CreateOutcome::Existing(link)))) => ItemJson::Existing { slug: link.slug },
            Ok((slug, _)) => ItemJson::Invalid { error: ApiError::slug_taken(&slug.unwrap_or_default()) },
            Err(error) => ItemJson::Invalid { error },
        })
        .collect();
    Ok(Json(serde_json::json!({ "results": results })).into_response())
}

/// `GET /api/links?limit=50&sort=visits&after=CURSOR&q=TEXT`: a page of links, and the cursor of the next one.
pub(crate) async fn list(
    State(links): State<Links>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let parameters = url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let query = input::list_query(parameters, links.store().slugs())?;
    let page = PageView::load(&links, query, &links.hosts().base(&headers)).await?;
    Ok(links.stored_responses().list(Json(page)))
}

/// `GET /api/links/{slug}?tz=Europe/Berlin`: one link with its visits on each of the last 30 days that has any.
pub(crate) async fn show(
    State(links): State<Links>,
    Slug(slug): Slug,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let zone = input::link_query(query.as_deref())?;
    let link = DetailView::load(&links, &slug, &zone, &links.hosts().base(&headers)).await?;
    let link = link.ok_or_else(|| ApiError::no_link(&slug))?;
    Ok(links.stored_responses().link(&slug, Json(link)))
}

/// `PATCH /api/links/{slug}` with the fields to change: the updated link.
pub(crate) async fn update(
    State(links): State<Links>,
    Slug(slug): Slug,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let input = input::read_json(request, MAX_BODY_BYTES).await?;
    let change = input::link_update(&input)?;
    if let Some(url) = change.url.as_ref().filter(|url| links.hosts().is_own(url.authority(), &headers)) {
        return Err(ApiError::address(&AddressError::OwnHost, url.as_str()));
    }
    let changed = links.update(&slug, change).await?.ok_or_else(|| ApiError::no_link(&slug))?;
    Ok(Json(LinkView::new(changed, &links.hosts().base(&headers))).into_response())
}

/// `DELETE /api/links/{slug}/visits`: 204. The visits of the link are forgotten, its total included.
pub(crate) async fn forget_visits(
    State(links): State<Links>,
    Slug(slug): Slug,
) -> Result<StatusCode, ApiError> {
    if links.forget_visits(&slug).await? { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::no_link(&slug)) }
}

/// `POST /api/links/{slug}/restore`: the deleted link, which redirects again; 404 if no deleted link has this slug.
pub(crate) async fn restore(
    State(links): State<Links>,
    Slug(slug): Slug,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let restored = links.restore(&slug).await?.ok_or_else(|| ApiError::no_link(&slug))?;
    Ok(Json(LinkView::new(restored, &links.hosts().base(&headers))).into_response())
}

/// `DELETE /api/links/{slug}`: 204. The slug answers 410 for 30 days, in which the link can be restored.
pub(crate) async fn delete(State(links): State<Links>, Slug(slug): Slug) -> Result<StatusCode, ApiError> {
    if links.delete(&slug).await? { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::no_link(&slug)) }
}

/// `GET /healthz`: 200 as long as the database is open and its writer runs.
pub(crate) async fn health(State(links): State<Links>) -> Response {
    let (status, text) = match links.store().health() {
        StoreHealth::WriterDown { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "the database's writer is down\n")
        }
        StoreHealth::Closed => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        StoreHealth::Writes | StoreHealth::Fails { .. } => (StatusCode::OK, "ok\n"),
    };
    (status, [(CACHE_CONTROL, "no-store")], text).into_response()
}

/// Any other path below `/api`.
pub(crate) async fn unknown() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "the API has no such path")
}

/// A short link to a short link of the same service could be a redirect loop.
fn refuse_loop(links: &Links, new: NewLink, headers: &HeaderMap) -> Result<NewLink, ApiError> {
    if links.hosts().is_own(new.url.authority(), headers) {
        return Err(ApiError::address(&AddressError::OwnHost, new.url.as_str()));
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Deps};

    #[tokio::test]
    async fn health_is_503_while_the_writer_is_down() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("links.db"), folder.path().join("away.db"));
        let config = Config { database: path.display().to_string(), ..Config::default() };
        let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
        let status = async || health(State(links.clone())).await.status();
        assert_eq!(status().await, StatusCode::OK);
        // Without its file the database cannot be opened again.
        std::fs::rename(&path, &away).unwrap();
        links.store().panic_in_writer().await;
        let is = async |expected: StatusCode| {
            while status().await != expected {
                tokio::task::yield_now().await;
            }
        };
        let patience = std::time::Duration::from_secs(30);
        tokio::time::timeout(patience, is(StatusCode::SERVICE_UNAVAILABLE))
            .await
            .expect("the health check reports the failure");
        std::fs::rename(&away, &path).unwrap();
        tokio::time::timeout(patience, is(StatusCode::OK))
            .await
            .expect("the health check reports the recovery");
    }
}
