//! No request makes the cache see a query where a server may see something else, and none gets the response to another.

use crate::api::{JSON, Site};

/// A body, parameters of the URI and the method decide together in some servers; the cache answers only if one does.
#[tokio::test]
async fn parameters_beside_a_body_are_forwarded() {
    let site = Site::new();
    assert!(site.query("{stock}").await.is_stored());
    for query in ["query=mutation%7Ba%7D", "operationName=x", "variables=%7B%7D", "documentId=1", "x"] {
        let target = format!("/graphql?{query}");
        let reply = site.send("POST", &target, &[JSON], r#"{"query":"{stock}"}"#).await;
        assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-request", "{query}");
    }
}

#[tokio::test]
async fn names_that_a_lenient_parser_takes_for_another_are_forwarded() {
    let site = Site::new();
    for body in [
        r#"{"query":"{stock}","Query":"mutation{a}"}"#,
        r#"{"query":"{stock}","QUERY":"mutation{a}"}"#,
        r#"{"query":"{stock}","\u0071uery":"mutation{a}"}"#,
        r#"{"query":"{stock}","mutation":"mutation{a}"}"#,
        r#"{"query":"{stock}","variables":{"a":1,"a":2}}"#,
        "\u{feff}{\"query\":\"{stock}\"}",
        r#"{"query":"{stock}"}{"query":"mutation{a}"}"#,
        r#"{"query":"{stock}",}"#,
        "{\"query\":\"{stock}\"}\0",
    ] {
        let reply = site.post(body).await;
        assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-request", "{body}");
    }
}

#[tokio::test]
async fn documents_with_a_hidden_mutation_are_forwarded() {
    let site = Site::new();
    for document in [
        "query mutation{stock} mutation query{a}",
        "#query\nmutation{a}",
        "{stock}#\rmutation{a}",
        "{stock} # \u{2028} mutation{a}",
        "{echo(text:\"\"\"\\\"\"\"}\"\"\")} mutation{a}",
        "{echo(text:\"\\\"}\")} mutation{a}",
        "\u{feff}\u{feff},,mutation{a}",
        "mutation{a}".to_owned().leak(),
    ] {
        let reply = site.query(document).await;
        assert!(reply.cache_status.starts_with("fwd=bypass; detail=graphql-"), "{reply:?} {document}");
    }
    assert_eq!(site.cache.stats().entries, 0);
}

/// The server of the test reads every content as JSON.
#[tokio::test]
async fn json_that_is_called_a_document_is_forwarded() {
    let site = Site::new();
    for body in [
        r#"{"query":"mutation{rename(id:1,name:\"x\"){name}}"}"#,
        r#"{"query":"{stock}"}"#,
        r#"{"query":"mutation M{a}","operationName":"M","variables":{"a":[1]}}"#,
        r#"[{"query":"mutation{a}"}]"#,
    ] {
        for _ in 0..2 {
            let fields = [("content-type", "application/graphql")];
            let reply = site.send("POST", "/graphql", &fields, body).await;
            assert_eq!(reply.cache_status, "fwd=bypass; detail=graphql-document", "{body}");
        }
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn method_override_is_forwarded() {
    let site = Site::new();
    assert!(site.query("{stock}").await.is_stored());
    let fields = [JSON, ("x-http-method-override", "DELETE")];
    let reply = site.send("POST", "/graphql", &fields, r#"{"query":"{stock}"}"#).await;
    assert_eq!(reply.cache_status, "fwd=bypass; detail=method-override");
}

/// Parsing takes time linear in the request, and memory in a bound.
#[tokio::test]
async fn hostile_requests_are_forwarded() {
    let site = Site::new();
    let nested_object = format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    for body in [
        format!(r#"{{"query":"{}"}}"#, "{".repeat(60_000)),
        format!(
            r#"{{"query":"{{stock}}","variables":{{"a":{}{}}}}}"#,
            "[".repeat(30_000),
            "]".repeat(30_000)
        ),
        format!(r#"{{"query":"{{stock}}","variables":{nested_object}}}"#),
        format!(r#"{{"query":"{}"}}"#, "query a{a}".repeat(6_000)),
        format!("{{{}", "\"a\":1,".repeat(9_000)),
        "[".repeat(60_000),
    ] {
        let reply = site.post(body).await;
        assert!(reply.cache_status.starts_with("fwd=bypass; detail=graphql-"), "{reply:?}");
    }
    assert_eq!(site.cache.stats().entries, 0);
}
