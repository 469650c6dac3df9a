//! The shops in all languages, for the page: a browser asks one service alone, so this one passes its requests on.

use crate::shop::refuse;
use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Shops {
    /// Names and addresses.
    addresses: Arc<[(String, String)]>,
    client: Client<HttpConnector, Body>,
}

impl Shops {
    /// Of a text such as `Django=http://localhost:8000 Express=http://localhost:3001`.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let shop = |word: &str| -> Result<(String, String)> {
            let (name, address) =
                word.split_once('=').with_context(|| format!("SHOPS has {word:?}; it must be NAME=URL"))?;
            Ok((name.to_owned(), address.to_owned()))
        };
        let addresses = text.split_whitespace().map(shop).collect::<Result<_>>()?;
        Ok(Shops { addresses, client: Client::builder(TokioExecutor::new()).build_http() })
    }

    pub(crate) fn routes(self) -> Router {
        let pass_on = get(pass_on).put(pass_on);
        Router::new()
            .route("/shops", get(names))
            .route("/shops/{name}/products/{id}", pass_on)
            .with_state(self)
    }
}

async fn names(State(shops): State<Shops>) -> Response {
    let names: Vec<&String> = shops.addresses.iter().map(|(name, _)| name).collect();
    Json(names).into_response()
}

async fn pass_on(
    State(shops): State<Shops>,
    Path((name, id)): Path<(String, String)>,
    mut request: Request,
) -> Response {
    let Some((_, address)) = shops.addresses.iter().find(|(known, _)| *known == name) else {
        return refuse(StatusCode::NOT_FOUND, format!("there is no shop {name:?}"));
    };
    let Ok(uri) = format!("{address}/products/{id}").parse::<Uri>() else {
        return refuse(StatusCode::BAD_REQUEST, format!("{id:?} is no name of a product"));
    };
    *request.uri_mut() = uri;
    // That of this service.
    request.headers_mut().remove("host");
    match shops.client.request(request).await {
        Ok(response) => response.map(Body::new).into_response(),
        Err(error) => refuse(StatusCode::BAD_GATEWAY, format!("{name} does not answer: {error}")),
    }
}
