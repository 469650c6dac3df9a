//! The operations of a GraphQL document, and its canonical text. Only the definitions at top level are parsed, to the
//! depth that finds every operation; a document that is not understood is never taken for a query.

use crate::status::Reason;

use super::lexer::{Lexer, Token, TokenKind};

/// Brackets may be nested to this depth.
const MAX_DEPTH: usize = 128;
/// Operations that a document may have.
const MAX_OPERATIONS: usize = 64;
/// Directives that make a server send several results, or none that lasts.
const INCREMENTAL_DIRECTIVES: [&str; 3] = ["defer", "stream", "live"];

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
        let canonical = String::with_capacity(text.len());
        let mut parser = Parser { lexer: Lexer::new(text), canonical, last: None };
        let mut names = Vec::new();
        while let Some(token) = parser.next()? {
            if let Definition::Query(name) = parser.definition(token)? {
                if names.len() == MAX_OPERATIONS || names.contains(&name) {
                    return Err(Reason::GraphqlDocument);
                }
                names.push(name);
            }
        }
        if names.len() > 1 && names.contains(&None) {
            return Err(Reason::GraphqlDocument);
        }
        Ok(Document { canonical: parser.canonical, names })
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

enum Definition<'a> {
    Query(Option<&'a str>),
    Fragment,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    canonical: String,
    /// The kind of the last token in `canonical`.
    last: Option<TokenKind>,
}

impl<'a> Parser<'a> {
    /// Parses the definition that starts with this token.
    fn definition(&mut self, token: Token<'a>) -> Result<Definition<'a>, Reason> {
        let token = match token.kind {
            TokenKind::String => self.require()?,
            _ => token,
        };
        match (token.kind, token.text) {
            (TokenKind::Punctuator(b'{'), _) => {
                self.skip_brackets(b'{')?;
                Ok(Definition::Query(None))
            }
            (TokenKind::Name, "query") => self.query().map(Definition::Query),
            (TokenKind::Name, "mutation" | "subscription") => Err(Reason::GraphqlMutation),
            (TokenKind::Name, "fragment") => {
                self.fragment()?;
                Ok(Definition::Fragment)
            }
            _ => Err(Reason::GraphqlDocument),
        }
    }

    /// Parses a query after its keyword: `Name (variables) @directives { selections }`.
    fn query(&mut self) -> Result<Option<&'a str>, Reason> {
        let mut token = self.require()?;
        let mut name = None;
        if token.kind == TokenKind::Name {
            name = Some(token.text);
            token = self.require()?;
        }
        if token.kind == TokenKind::Punctuator(b'(') {
            self.skip_brackets(b'(')?;
            token = self.require()?;
        }
        self.directives_and_selections(token)?;
        Ok(name)
    }

    /// Parses a fragment after its keyword: `Name on Type @directives { selections }`.
    fn fragment(&mut self) -> Result<(), Reason> {
        let name = self.require_name()?;
        if name == "on" || self.require_name()? != "on" {
            return Err(Reason::GraphqlDocument);
        }
        self.require_name()?;
        let token = self.require()?;
        self.directives_and_selections(token)
    }

    fn directives_and_selections(&mut self, mut token: Token<'a>) -> Result<(), Reason> {
        while token.kind == TokenKind::Punctuator(b'@') {
            self.directive_name()?;
            token = self.require()?;
            if token.kind == TokenKind::Punctuator(b'(') {
                self.skip_brackets(b'(')?;
                token = self.require()?;
            }
        }
        match token.kind {
            TokenKind::Punctuator(b'{') => self.skip_brackets(b'{'),
            _ => Err(Reason::GraphqlDocument),
        }
    }

    /// Skips to the bracket that closes `open`, which was read.
    fn skip_brackets(&mut self, open: u8) -> Result<(), Reason> {
        let mut closing = vec![closing_of(open)];
        while let Some(expected) = closing.last().copied() {
            match self.require()?.kind {
                TokenKind::Punctuator(open @ (b'(' | b'[' | b'{')) => {
                    if closing.len() == MAX_DEPTH {
                        return Err(Reason::GraphqlDocument);
                    }
                    closing.push(closing_of(open));
                }
                TokenKind::Punctuator(b'@') => self.directive_name()?,
                TokenKind::Punctuator(close @ (b')' | b']' | b'}')) => {
                    if close != expected {
                        return Err(Reason::GraphqlDocument);
                    }
                    closing.pop();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn directive_name(&mut self) -> Result<(), Reason> {
        let name = self.require_name()?;
        if INCREMENTAL_DIRECTIVES.contains(&name) { Err(Reason::GraphqlIncremental) } else { Ok(()) }
    }

    fn require_name(&mut self) -> Result<&'a str, Reason> {
        let token = self.require()?;
        if token.kind == TokenKind::Name { Ok(token.text) } else { Err(Reason::GraphqlDocument) }
    }

    fn require(&mut self) -> Result<Token<'a>, Reason> {
        self.next()?.ok_or(Reason::GraphqlDocument)
    }

    /// Reads the next token and appends it to the canonical text.
    fn next(&mut self) -> Result<Option<Token<'a>>, Reason> {
        let token = self.lexer.next().map_err(|_| Reason::GraphqlDocument)?;
        if let Some(token) = token {
            // Two tokens without a punctuator between them could be read as one: `a b`, `1 ...`, `"" "a"`.
            let is_punctuator = |kind| matches!(kind, TokenKind::Punctuator(_));
            if self.last.is_some_and(|last| !is_punctuator(last)) && !is_punctuator(token.kind) {
                self.canonical.push(' ');
            }
            self.canonical.push_str(token.text);
            self.last = Some(token.kind);
        }
        Ok(token)
    }
}

fn closing_of(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        _ => b'}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Document::parse(text).unwrap().canonical
    }

    fn refusal(text: &str) -> Reason {
        Document::parse(text).unwrap_err()
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
            "{...ona{a}}",
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
