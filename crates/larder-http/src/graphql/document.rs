//! The operations of a GraphQL document, and its canonical text. A document that is not understood is never taken for a query.

use crate::status::Reason;

use super::parser::{Definition, Parser};

/// Operations that a document may have.
const MAX_OPERATIONS: usize = 64;

/// A document whose operations are all queries.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// The tokens of the document. Equal texts have equal tokens, and different ones do not.
    pub(super) canonical: String,
    /// The names of the queries; `None` is the query without a name, which is the only one.
    names: Vec<Option<&'a str>>,
}

impl<'a> Document<'a> {
    /// Parses a document.
    ///
    /// # Errors
    /// `GraphqlMutation` if one of its operations is a mutation or a subscription, `GraphqlIncremental` if it asks for
    /// incremental delivery, and `GraphqlDocument` if it is not understood.
    pub(super) fn parse(text: &'a str) -> Result<Document<'a>, Reason> {
        let mut parser = Parser::new(text);
        let mut names = Vec::new();
        while let Some(definition) = parser.definition()? {
            if let Definition::Query(name) = definition {
                if names.len() == MAX_OPERATIONS || names.contains(&name) {
                    return Err(Reason::GraphqlDocument);
                }
                names.push(name);
            }
        }
        if names.len() > 1 && names.contains(&None) {
            return Err(Reason::GraphqlDocument);
        }
        Ok(Document { canonical: parser.into_canonical(), names })
    }

    /// Checks that the document has the operation that a request names, or exactly one if it names none.
    ///
    /// # Errors
    /// `GraphqlOperation`
    pub(super) fn check_operation(&self, name: Option<&str>) -> Result<(), Reason> {
        let is_known = match name {
            Some(_) => self.names.contains(&name),
            None => self.names.len() == 1,
        };
        if is_known { Ok(()) } else { Err(Reason::GraphqlOperation) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::MAX_DEPTH;
    use super::*;

    fn canonical(text: &str) -> String {
        Document::parse(text).unwrap().canonical
    }

    fn refusal(text: &str) -> Reason {
        Document::parse(text).unwrap_err()
    }

    #[test]
    fn every_form_of_the_grammar_is_understood() {
        for text in [
            "query Q($a: I = 1 @d, $b: [[I!]!] = [[1] []] $c: T! = {d: {} e: \"f\"}) @d(e: $a) @f {a}",
            "{a: b(c: 1.5, d: null, e: [$f, ENUM, true]) @d @e(f: {g: {h: $i}}) {j k {l}} m}",
            "{...F @d ...on T @d {a} ...@d {b} ...{c}} fragment F on T @d {on}",
            "\"described\" query {query mutation: fragment subscription on}",
            "{a(b: {c: [{d: \"\"\"e\"\"\"}]})}",
        ] {
            assert!(Document::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn insignificant_characters_do_not_change_canonical_text() {
        let compact = r#"query Q($a:[Int!]=[1 2]){b:c(d:$a e:"x  y")@include(if:true){...F...on T{f}}}fragment F on T{g}"#;
        let spread = "\u{feff}# comment\nquery Q ( $a : [Int!] = [1, 2] ) {\n  b: c(d: $a, e: \"x  y\") @include(if: true)\n\
                      {\r\n...F\t... on T { f } # more\n} }\n\nfragment F on T { g , }";
        assert_eq!(canonical(spread), canonical(compact));
        assert_eq!(canonical("{a}"), "{a}");
    }

    #[test]
    fn significant_characters_change_canonical_text() {
        let documents = [
            "{a}",
            "{ab}",
            "{a b}",
            "{a:b}",
            "{a(b:\"x y\")}",
            "{a(b:\"x  y\")}",
            "{a(b:\"\"\"x y\"\"\")}",
            "{a(b:\"#\")}",
            "{a(b:1)}",
            "{a(b:1.0)}",
            "{a(b:[1 1])}",
            "{a(b:[11])}",
            "{a(b:[\"\" \"a\"])}",
            "{a(b:[\"\"\"a\"\"\"])}",
            "query{a}",
            "query a{a}",
            "{...a}",
            "{...on a{a}}",
            "{...ona}",
            "{a @b}",
        ];
        for (index, one) in documents.iter().enumerate() {
            for other in &documents[index + 1..] {
                assert_ne!(canonical(one), canonical(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn canonical_text_is_its_own_canonical_text() {
        for text in ["{a ...b ...on c{d}}", "query a($b:[c!]!={d:\"\"\"e\"\"\"}){f(g:[\"\" \"\"] h:-1)}"] {
            assert_eq!(canonical(&canonical(text)), canonical(text));
        }
    }

    #[test]
    fn operation_must_be_known() {
        let known = |text: &str, name| Document::parse(text).unwrap().check_operation(name).is_ok();
        assert!(known("{a}", None) && known("query A{a}", None) && known("query A{a}", Some("A")));
        assert!(known("query A{a} query B{b}", Some("B")));
        assert!(!known("query A{a} query B{b}", None));
        assert!(
            !known("query A{a}", Some("B")) && !known("{a}", Some("a")) && !known("query A{a}", Some(""))
        );
        assert!(
            !known("", None) && !known("fragment F on T{a}", None) && !known("fragment F on T{a}", Some("F"))
        );
    }

    #[test]
    fn document_with_mutation_or_subscription_is_refused() {
        for text in [
            "mutation{a}",
            "mutation M{a}",
            " # query\n mutation M{a}",
            "\u{feff},mutation{a}",
            "query Q{a} mutation M{b}",
            "mutation M{b} query Q{a}",
            "{a} subscription{b}",
            "\"query\" mutation M{a}",
            "fragment F on T{a} mutation{...F}",
            "query Q($a:S=\"}\"){a(b:\"}{\")} mutation M{b}",
            "query Q{a(b:\"\"\"\\\"\"\"}\"\"\")} mutation M{b}",
            // Without block strings, what is between the quotes in the middle would be a string.
            "query Q{a(b:\"\"\" \" \"\"\")} mutation M{b(c:\"x\")} #\")}",
        ] {
            assert_eq!(refusal(text), Reason::GraphqlMutation, "{text}");
        }
    }

    #[test]
    fn words_inside_a_query_are_no_mutation() {
        for text in [
            "{mutation}",
            "query mutation{a}",
            "{a(b:\"mutation{c}\")} #mutation",
            "{...mutation}fragment mutation on T{a}",
        ] {
            assert!(Document::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn incremental_delivery_is_refused() {
        for text in [
            "{...@defer{a}}",
            "{a @stream(initialCount:1)}",
            "query @live{a}",
            "{a @ defer}",
            "{...F}fragment F on T@defer{a}",
        ] {
            assert_eq!(refusal(text), Reason::GraphqlIncremental, "{text}");
        }
        assert!(Document::parse("{defer(stream:live)@include(if:true)}").is_ok());
    }

    #[test]
    fn document_that_is_not_understood_is_refused() {
        for text in [
            "querya{b}",
            "mutationA{b}",
            "Query{a}",
            "{a",
            "{a}}",
            "{a)}",
            "query Q",
            "query Q(",
            "query Q Q{a}",
            "query{a}{b}",
            "{a}{b}",
            "query A{a} query A{b}",
            "query A{a} {b}",
            "fragment on on T{a}",
            "fragment F(a:Int) on T{a}",
            "fragment F T{a}",
            "query @{a}",
            "query [a]{a}",
            "type T{a:Int}",
            "extend type T{a:Int}",
            "schema{query:Q}",
            "\"a\" \"b\" query{a}",
            "query Q\"a\"{a}",
            "\"a\"",
            "...",
            "$",
            "{a};",
            "@a query{a}",
            "{a(b:\"x)}",
            "{@}",
            // What a server may read as JSON.
            "{}",
            "{\"query\":\"mutation{a}\"}",
            "{query:\"mutation{a}\"}",
            "{\"id\":\"a\"}",
            "{\"a\"}",
            "{1}",
            "{$}",
            "{a=b}",
            "{a!}",
            "{a{}}",
            "{a:}",
            "{a:b:c}",
            "{a()}",
            "{a(b)}",
            "{a(b:)}",
            "{a(1:b)}",
            "{a(b:{c})}",
            "{a(b:[)]}",
            "{a(b:$)}",
            "{a[b]}",
            "{...}",
            "{...on}",
            "{...on{a}}",
            "{...F{a}}",
            "query(){a}",
            "query(mutation{b}){a}",
            "query($a){a}",
            "query($a:){a}",
            "query($a:[I){a}",
            "query($a:I!!){a}",
            "query($a:I=){a}",
            "query(a:I){a}",
        ] {
            assert_eq!(refusal(text), Reason::GraphqlDocument, "{text}");
        }
    }

    #[test]
    fn nesting_and_number_of_operations_are_bounded() {
        let nested = |depth: usize| format!("{}a{}", "{a".repeat(depth), "}".repeat(depth));
        assert!(Document::parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(refusal(&nested(MAX_DEPTH + 1)), Reason::GraphqlDocument);
        assert_eq!(refusal(&"{".repeat(100_000)), Reason::GraphqlDocument);
        let operations = |n: usize| (0..n).map(|n| format!("query q{n}{{a}}")).collect::<String>();
        assert!(Document::parse(&operations(MAX_OPERATIONS)).is_ok());
        assert_eq!(refusal(&operations(MAX_OPERATIONS + 1)), Reason::GraphqlDocument);
    }
}
