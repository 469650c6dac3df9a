//! The GraphQL API shows what the JSON API shows, to the same clients, and changes nothing.

use crate::support::{Answer, Fixture, open, open_with};
use axum::body::Body;
use http::{Method, Request, StatusCode};
use larder_links::Scope;
use larder_links::store::{MS_PER_QUARTER, TotalsOf, VisitKey};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

const PATH: &str = "/api/graphql";
const LINK: &str =
    "slug short_url url title created_at visits tags expires_at max_visits forward_query crawlable";
const DIMENSIONS: &str = "referrers { value visits } browsers { value visits } systems { value visits }
    devices { value visits } countries { value visits } bots { value visits }";

/// The introspection query of graphql-js 16, without descriptions.
const INTROSPECTION: &str = "query IntrospectionQuery { __schema { queryType { name } mutationType { name } \
    subscriptionType { name } types { ...FullType } directives { name locations args { ...InputValue } } } } \
    fragment FullType on __Type { kind name fields(includeDeprecated: true) { name args { ...InputValue } \
    type { ...TypeRef } isDeprecated deprecationReason } inputFields { ...InputValue } interfaces { ...TypeRef } \
    enumValues(includeDeprecated: true) { name isDeprecated deprecationReason } possibleTypes { ...TypeRef } } \
    fragment InputValue on __InputValue { name type { ...TypeRef } defaultValue } \
    fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { \
    kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }";

/// A shortener that needs a token, with one link.
async fn public() -> Fixture {
    let fixture = open_with(|config| {
        config.public_url = Some("https://s.example".into());
        config.listings_per_minute = 20;
    });
    fixture.link_with_token("kept", "https://kept.example/").await;
    fixture
}

fn query_method() -> Method {
    Method::from_bytes(b"QUERY").unwrap()
}

/// Sends a document by one of the three methods.
async fn send(fixture: &Fixture, method: Method, headers: &[(&str, &str)], document: &str) -> Answer {
    if method == Method::GET {
        let encoded: String = url::form_urlencoded::byte_serialize(document.as_bytes()).collect();
        return fixture.ask(method, &format!("{PATH}?query={encoded}"), headers, None).await;
    }
    fixture.ask(method, PATH, headers, Some(json!({ "query": document }))).await
}

async fn post(fixture: &Fixture, document: &str) -> Answer {
    send(fixture, Method::POST, &[], document).await
}

fn is_hit(answer: &Answer) -> bool {
    answer.header("cache-status").contains("; hit")
}

/// The message of the first error.
fn error_of(answer: &Answer) -> String {
    answer.json()["errors"][0]["message"].as_str().unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
}

#[tokio::test]
async fn fields_equal_those_of_the_json_api() {
    let fixture = open();
    for n in 0..4 {
        fixture.link(Some(&format!("n{n}")), &format!("https://example.com/{n}")).await;
    }
    assert_eq!(fixture.get("/n1").await.status, StatusCode::FOUND);
    fixture.links.flush_visits().await.unwrap();
    for method in [Method::GET, Method::POST, query_method()] {
        let document = format!(
            "{{ link(slug: \"n1\") {{ {LINK} days {{ date visits }} dimensions {{ {DIMENSIONS} }} }} }}"
        );
        let answer = send(&fixture, method.clone(), &[], &document).await;
        assert_eq!(answer.status, StatusCode::OK, "{method} {}", answer.text());
        assert_eq!(answer.header("content-type"), "application/graphql-response+json");
        let shown = fixture.get("/api/links/n1").await.json();
        assert_eq!((&shown["visits"], shown["days"].as_array().unwrap().len()), (&json!(1), 1));
        assert_eq!(answer.json(), json!({ "data": { "link": shown } }), "{method}");

        let next = fixture.get("/api/links?limit=2").await.json()["next"].as_str().unwrap().to_owned();
        for (arguments, path) in [
            ("".to_owned(), "/api/links".to_owned()),
            ("(limit: 2)".into(), "/api/links?limit=2".into()),
            (format!("(limit: 2, after: \"{next}\")"), format!("/api/links?limit=2&after={next}")),
            ("(q: \"COM/3\")".into(), "/api/links?q=COM/3".into()),
            ("(sort: VISITS, limit: 3)".into(), "/api/links?sort=visits&limit=3".into()),
        ] {
            let document = format!("{{ links{arguments} {{ links {{ {LINK} }} next }} }}");
            let answer = send(&fixture, method.clone(), &[], &document).await.json();
            let listed = fixture.get(&path).await.json();
            assert_eq!(answer, json!({ "data": { "links": listed } }), "{method} {path}");
        }
    }
    let variables =
        json!({"query": "query A($s: String!) { link(slug: $s) { url } }", "variables": {"s": "n2"}});
    let answer = fixture.post(PATH, variables).await.json();
    assert_eq!(answer["data"]["link"]["url"], "https://example.com/2");
}

#[tokio::test]
async fn document_whose_fields_are_all_left_out_has_no_data() {
    let fixture = open();
    for document in
        ["{ link(slug: \"x\") @skip(if: true) { slug } }", "{ links @include(if: false) { next } }"]
    {
        let answer = post(&fixture, document).await;
        assert_eq!((answer.status, answer.json()), (StatusCode::OK, json!({"data": {}})), "{document}");
    }
}

#[tokio::test]
async fn read_token_is_required_and_suffices() {
    let fixture = public().await;
    let (id, bearer) = fixture.bearer(Scope::Read).await;
    let token = ("authorization", &*bearer);
    for document in ["{ links { links { url } } }", "{ link(slug: \"kept\") { url } }"] {
        for method in [Method::GET, Method::POST, query_method()] {
            let what = format!("{method} {document}");
            let first = send(&fixture, method.clone(), &[token], document).await;
            assert_eq!(first.status, StatusCode::OK, "{what}: {}", first.text());
            let second = send(&fixture, method.clone(), &[token], document).await;
            assert!(is_hit(&second), "{what}: {}", second.header("cache-status"));
            assert_eq!(second.body, first.body, "{what}");
            assert_eq!(second.header("cache-control"), "private, no-store", "{what}");
            assert_closed(&send(&fixture, method, &[], document).await, &what);
        }
    }
    // Introspection and what is not a query are closed too.
    for document in [INTROSPECTION, "{ __typename }", "mutation { a }", "{"] {
        assert_closed(&send(&fixture, Method::POST, &[], document).await, document);
    }
    let document = "{ links { next } }";
    send(&fixture, Method::POST, &[token], document).await;
    assert!(is_hit(&send(&fixture, Method::POST, &[token], document).await));
    assert!(fixture.links.remove_token(id).await.unwrap());
    assert_closed(&send(&fixture, Method::POST, &[token], document).await, "a removed token");
}

fn assert_closed(answer: &Answer, what: &str) {
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}: {}", answer.text());
    assert!(answer.header("www-authenticate").starts_with("Bearer"), "{what}");
    assert!(answer.header("cache-status").is_empty(), "{what}: the cache was asked");
    assert!(!answer.text().contains("kept"), "{what}");
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused() {
    let fixture = open();
    fixture.link(Some("kept"), "https://kept.example/").await;
    let document = "{ links { links { url } } }";
    for method in [Method::GET, Method::POST, query_method()] {
        assert_eq!(send(&fixture, method.clone(), &[], document).await.status, StatusCode::OK);
        let foreign =
            Request::builder().method(method.clone()).uri(format!("{PATH}?query=%7Blinks%7Bnext%7D%7D"));
        let foreign = foreign.header("host", "evil.example:8080").header("content-type", "application/json");
        let answer =
            fixture.send(foreign.body(Body::from(json!({"query": document}).to_string())).unwrap()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {}", answer.text());
    }
    for method in [Method::POST, query_method()] {
        let answer = send(&fixture, method.clone(), &[("origin", "https://evil.example")], document).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method}");
        let form = Request::builder().method(method).uri(PATH).header("host", "localhost:8080");
        let form = form.header("content-type", "text/plain").body(Body::from(document)).unwrap();
        assert_eq!(fixture.send(form).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}

#[tokio::test]
async fn change_by_the_json_api_is_visible_at_once() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let both = "{ link(slug: \"a\") { url } links { links { slug } } }";
    let absent = "{ link(slug: \"b\") { url } }";
    /// The second answer, which comes out of the cache.
    async fn stored(fixture: &Fixture, document: &str) -> Value {
        post(fixture, document).await;
        let answer = post(fixture, document).await;
        assert!(is_hit(&answer), "{document}: {}", answer.header("cache-status"));
        answer.json()["data"].clone()
    }
    assert_eq!(stored(&fixture, both).await["link"]["url"], "https://a.example/");
    assert_eq!(stored(&fixture, absent).await, json!({ "link": null }));

    fixture.link(Some("b"), "https://b.example/").await;
    assert_eq!(stored(&fixture, absent).await["link"]["url"], "https://b.example/");
    assert_eq!(stored(&fixture, both).await["links"]["links"], json!([{"slug": "b"}, {"slug": "a"}]));

    let change = json!({"url": "https://new.example/"});
    assert_eq!(fixture.send_json(Method::PATCH, "/api/links/b", change).await.status, StatusCode::OK);
    assert_eq!(post(&fixture, absent).await.json()["data"]["link"]["url"], "https://new.example/");
    assert_eq!(
        fixture.send_json(Method::DELETE, "/api/links/a", json!({})).await.status,
        StatusCode::NO_CONTENT
    );
    let expected = json!({"data": {"link": null, "links": {"links": [{"slug": "b"}]}}});
    assert_eq!(post(&fixture, both).await.json(), expected);
}

#[tokio::test]
async fn schema_is_read_only() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    for (document, message) in [
        ("mutation { delete(slug: \"a\") }", "Schema is not configured for mutations."),
        ("subscription { links { next } }", "Schema is not configured for subscriptions."),
    ] {
        for method in [Method::GET, Method::POST, query_method()] {
            let answer = send(&fixture, method.clone(), &[], document).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{method} {document}");
            assert_eq!(error_of(&answer), message, "{method} {document}");
        }
    }
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = send(&fixture, method.clone(), &[], "{ links { next } }").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    let schema = post(&fixture, INTROSPECTION).await.json()["data"]["__schema"].clone();
    assert_eq!((&schema["queryType"]["name"], &schema["mutationType"]), (&json!("Query"), &Value::Null));
}

#[tokio::test]
async fn queries_count_as_listings() {
    let fixture = public().await;
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    let mut passed = 0;
    while send(&fixture, Method::POST, &[("authorization", &bearer)], "{ __typename }").await.status
        != StatusCode::TOO_MANY_REQUESTS
    {
        passed += 1;
        assert!(passed <= 20);
    }
    assert_eq!(passed, 20);
    let listing = fixture.ask(Method::GET, "/api/links", &[("authorization", &bearer)], None).await;
    assert_eq!(listing.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn invalid_argument_has_the_error_of_the_json_api_and_is_not_stored() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    for (arguments, field, path) in [
        ("limit: 0", "limit", "/api/links?limit=0"),
        ("limit: 201", "limit", "/api/links?limit=201"),
        ("limit: -1", "limit", "/api/links?limit=-1"),
        ("after: \"!\"", "after", "/api/links?after=!"),
    ] {
        let document = format!("{{ links({arguments}) {{ next }} link(slug: \"a\") {{ url }} }}");
        let expected = fixture.get(path).await.json()["error"].clone();
        for _ in 0..2 {
            let answer = post(&fixture, &document).await;
            assert!(!is_hit(&answer), "{document}");
            assert_eq!(error_of(&answer), expected["message"].as_str().unwrap(), "{document}");
            let extensions = json!({"status": 422, "field": field, "value": expected["value"]});
            assert_eq!(answer.json()["errors"][0]["extensions"], extensions, "{document}");
            let data = answer.json()["data"].clone();
            assert_eq!((&data["links"], &data["link"]["url"]), (&Value::Null, &json!("https://a.example/")));
        }
    }
}

#[tokio::test]
async fn expensive_documents_are_refused() {
    let fixture = open();
    let page = |alias: &str, arguments: &str| {
        format!("{alias}: links({arguments}) {{ __typename links {{ __typename {LINK} }} next }}")
    };
    let search = page("a", "limit: 200, q: \"x\"");
    assert_eq!(post(&fixture, &format!("{{ {search} }}")).await.status, StatusCode::OK);
    let (deep, closed) = ("fields { type { ".repeat(7), "} }".repeat(7));
    let lists: String = (0..21).map(|n| format!("a{n}: links(limit: 1) {{ next }} ")).collect();
    for (document, message) in [
        (format!("{{ {search} {} }}", page("b", "limit: 200")), "Query is too complex."),
        (format!("{{ {lists} }}"), "Query is too complex."),
        (format!("{{ __schema {{ types {{ {deep} name {closed} }} }} }}"), "Query is nested too deep."),
    ] {
        let answer = post(&fixture, &document).await;
        assert_eq!(
            (answer.status, error_of(&answer)),
            (StatusCode::BAD_REQUEST, message.to_owned()),
            "{document}"
        );
    }

    // Within the limit of brackets the parser's stack suffices.
    let nested = format!("{{ link(slug: {}1{}) {{ slug }} }}", "[".repeat(250), "]".repeat(250));
    assert_eq!(post(&fixture, &nested).await.status, StatusCode::BAD_REQUEST);

    // Each fragment has the next one twice: 2^40 fields.
    let doubling: String =
        (0..40).map(|n| format!("fragment f{n} on Query {{ ...f{0} ...f{0} }} ", n + 1)).collect();
    for (document, limit) in [
        (
            format!("{{ link(slug: {}1{}) {{ url }} }}", "[".repeat(4_000), "]".repeat(4_000)),
            "256 opening brackets",
        ),
        (format!("{{ ...f0 }} {doubling} fragment f40 on Query {{ __typename }}"), "12 fragment spreads"),
        (format!("{{ __typename }} #{}", "x".repeat(9_000)), "8192 bytes"),
    ] {
        let answer = post(&fixture, &document).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", answer.text());
        assert_eq!(answer.json()["error"]["message"], format!("may have at most {limit}"));
    }
}

#[tokio::test]
async fn malformed_request_has_its_own_status() {
    let fixture = open();
    let long = json!({ "query": "x".repeat(70_000) });
    let too_large = fixture.post(PATH, long.clone()).await;
    assert_eq!(too_large.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(too_large.json(), fixture.post("/api/links", long).await.json());
    for body in [json!([{"query": "{ __typename }"}]), json!({}), json!({"query": 1}), json!(null)] {
        let answer = fixture.post(PATH, body.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer.json()["error"]["message"].is_string(), "{body}");
    }
    assert_eq!(fixture.get(PATH).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        error_of(&post(&fixture, "{ nothing }").await),
        "Unknown field \"nothing\" on type \"Query\"."
    );
}

#[tokio::test]
async fn counts_beyond_32_bits_are_whole_numbers_of_the_type_float() {
    let fixture = open();
    let link = json!({ "url": "https://example.com/", "slug": "many", "max_visits": 1_000_000_000_000_u64 });
    assert_eq!(fixture.post("/api/links", link).await.status, StatusCode::CREATED);
    let store = fixture.links.store();
    let link_id = store.find("many").await.unwrap().unwrap().id;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let quarter = now / MS_PER_QUARTER;
    store.add_visits(vec![(VisitKey { link_id, quarter }, 3_000_000_000)], TotalsOf::None).await.unwrap();

    let document = r#"{ link(slug: "many") { visits max_visits days { visits } } }"#;
    let answer = post(&fixture, document).await.text();
    let expected =
        r#"{"link":{"visits":3000000000,"max_visits":1000000000000,"days":[{"visits":3000000000}]}}"#;
    assert_eq!(answer, format!(r#"{{"data":{expected}}}"#));

    let document = "{ __schema { types { name fields { name type { name ofType { name } } } } } }";
    let schema = post(&fixture, document).await.json();
    let types = schema["data"]["__schema"]["types"].as_array().unwrap();
    let fields: Vec<String> = types
        .iter()
        .flat_map(|own| own["fields"].as_array().into_iter().flatten().map(move |field| (own, field)))
        .filter(|(_, field)| field["type"].to_string().contains(r#""Int""#))
        .map(|(own, field)| format!("{}.{}", own["name"], field["name"]))
        .collect();
    assert!(fields.is_empty(), "{fields:?}");
}
