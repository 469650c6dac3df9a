//! The grammar of executable GraphQL documents (specification of October 2021, section 2), read token by token. A document
//! that is not in it is refused whole: some servers read every content as JSON, and what they find in it is no query that
//! was seen here.

use crate::status::Reason;

use super::lexer::{Lexer, Token, TokenKind};

/// Brackets may be nested to this depth.
pub(super) const MAX_DEPTH: usize = 128;
/// Directives that make a server send several results, or none that lasts.
const INCREMENTAL_DIRECTIVES: [&str; 3] = ["defer", "stream", "live"];

pub(super) enum Definition<'a> {
    /// With its name, if it has one.
    Query(Option<&'a str>),
    Fragment,
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    canonical: String,
    /// The kind of the last token in `canonical`.
    last: Option<TokenKind>,
    /// Brackets that are open.
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        let canonical = String::with_capacity(text.len());
        Parser { lexer: Lexer::new(text), canonical, last: None, depth: 0 }
    }

    /// The tokens that were read. Equal texts have equal tokens, and different ones do not.
    pub(super) fn into_canonical(self) -> String {
        self.canonical
    }

    /// Parses the next definition. `None` at the end of the document.
    ///
    /// # Errors
    /// `GraphqlMutation`, `GraphqlIncremental`, `GraphqlDocument`.
    pub(super) fn definition(&mut self) -> Result<Option<Definition<'a>>, Reason> {
        let Some(mut token) = self.next()? else { return Ok(None) };
        if token.kind == TokenKind::String {
            // A description, which newer servers allow.
            token = self.require()?;
        }
        let definition = match (token.kind, token.text) {
            (OPEN_BRACE, _) => {
                self.selections()?;
                Definition::Query(None)
            }
            (TokenKind::Name, "query") => Definition::Query(self.query()?),
            (TokenKind::Name, "mutation" | "subscription") => return Err(Reason::GraphqlMutation),
            (TokenKind::Name, "fragment") => {
                self.fragment()?;
                Definition::Fragment
            }
            _ => return Err(Reason::GraphqlDocument),
        };
        Ok(Some(definition))
    }

    /// Parses a query after its keyword, `Name (variables) @directives { selections }`, and returns its name.
    fn query(&mut self) -> Result<Option<&'a str>, Reason> {
        let mut token = self.require()?;
        let mut name = None;
        if token.kind == TokenKind::Name {
            name = Some(token.text);
            token = self.require()?;
        }
        if token.kind == OPEN_PARENTHESIS {
            self.nested(Parser::variables)?;
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

    fn directives_and_selections(&mut self, token: Token<'a>) -> Result<(), Reason> {
        match self.directives(token)?.kind {
            OPEN_BRACE => self.selections(),
            _ => Err(Reason::GraphqlDocument),
        }
    }

    /// Parses selections after their bracket, of which there is at least one, to the bracket that closes them.
    fn selections(&mut self) -> Result<(), Reason> {
        self.nested(|parser| {
            let mut token = parser.require()?;
            loop {
                token = match token.kind {
                    TokenKind::Name => parser.field()?,
                    TokenKind::Spread => parser.spread()?,
                    _ => return Err(Reason::GraphqlDocument),
                };
                if token.kind == CLOSE_BRACE {
                    return Ok(());
                }
            }
        })
    }

    /// Parses a field after its first name, `alias: name (arguments) @directives { selections }`, and returns the token
    /// after it.
    fn field(&mut self) -> Result<Token<'a>, Reason> {
        let mut token = self.require()?;
        if token.kind == COLON {
            self.require_name()?;
            token = self.require()?;
        }
        if token.kind == OPEN_PARENTHESIS {
            self.arguments()?;
            token = self.require()?;
        }
        token = self.directives(token)?;
        if token.kind == OPEN_BRACE {
            self.selections()?;
            token = self.require()?;
        }
        Ok(token)
    }

    /// Parses what follows `...`: the name of a fragment, or `on Type { selections }`, or selections alone. Returns the
    /// token after it.
    fn spread(&mut self) -> Result<Token<'a>, Reason> {
        let mut token = self.require()?;
        let is_fragment_name = token.kind == TokenKind::Name && token.text != "on";
        if token.kind == TokenKind::Name {
            if !is_fragment_name {
                self.require_name()?;
            }
            token = self.require()?;
        }
        if is_fragment_name {
            return self.directives(token);
        }
        self.directives_and_selections(token)?;
        self.require()
    }

    /// Parses the directives that start with this token, if any do, and returns the token after them.
    fn directives(&mut self, mut token: Token<'a>) -> Result<Token<'a>, Reason> {
        while token.kind == AT {
            if INCREMENTAL_DIRECTIVES.contains(&self.require_name()?) {
                return Err(Reason::GraphqlIncremental);
            }
            token = self.require()?;
            if token.kind == OPEN_PARENTHESIS {
                self.arguments()?;
                token = self.require()?;
            }
        }
        Ok(token)
    }

    /// Parses arguments after their bracket, of which there is at least one.
    fn arguments(&mut self) -> Result<(), Reason> {
        self.nested(|parser| {
            let token = parser.require()?;
            if token.kind == CLOSE_PARENTHESIS {
                return Err(Reason::GraphqlDocument);
            }
            parser.named_values(token, CLOSE_PARENTHESIS)
        })
    }

    /// Parses `name: value`, as often as it occurs from this token on, to the bracket that closes them.
    fn named_values(&mut self, mut token: Token<'a>, close: TokenKind) -> Result<(), Reason> {
        while token.kind != close {
            if token.kind != TokenKind::Name || self.require()?.kind != COLON {
                return Err(Reason::GraphqlDocument);
            }
            let value = self.require()?;
            self.value(value)?;
            token = self.require()?;
        }
        Ok(())
    }

    /// Parses the value that starts with this token.
    fn value(&mut self, token: Token<'a>) -> Result<(), Reason> {
        match token.kind {
            TokenKind::Name | TokenKind::Number | TokenKind::String => Ok(()),
            DOLLAR => self.require_name().map(drop),
            OPEN_BRACKET => self.nested(|parser| {
                loop {
                    let token = parser.require()?;
                    if token.kind == CLOSE_BRACKET {
                        return Ok(());
                    }
                    parser.value(token)?;
                }
            }),
            OPEN_BRACE => self.nested(|parser| {
                let token = parser.require()?;
                parser.named_values(token, CLOSE_BRACE)
            }),
            _ => Err(Reason::GraphqlDocument),
        }
    }

    /// Parses variables after their bracket, `$name: Type = value @directives`, of which there is at least one.
    fn variables(&mut self) -> Result<(), Reason> {
        let mut token = self.require()?;
        loop {
            if token.kind != DOLLAR {
                return Err(Reason::GraphqlDocument);
            }
            self.require_name()?;
            if self.require()?.kind != COLON {
                return Err(Reason::GraphqlDocument);
            }
            token = self.require()?;
            token = self.variable_type(token)?;
            if token.kind == EQUALS {
                let value = self.require()?;
                self.value(value)?;
                token = self.require()?;
            }
            token = self.directives(token)?;
            if token.kind == CLOSE_PARENTHESIS {
                return Ok(());
            }
        }
    }

    /// Parses the type that starts with this token, `Name`, `[Type]`, each perhaps with `!`, and returns the token after it.
    fn variable_type(&mut self, token: Token<'a>) -> Result<Token<'a>, Reason> {
        match token.kind {
            TokenKind::Name => {}
            OPEN_BRACKET => self.nested(|parser| {
                let token = parser.require()?;
                match parser.variable_type(token)?.kind {
                    CLOSE_BRACKET => Ok(()),
                    _ => Err(Reason::GraphqlDocument),
                }
            })?,
            _ => return Err(Reason::GraphqlDocument),
        }
        let token = self.require()?;
        if token.kind == EXCLAMATION { self.require() } else { Ok(token) }
    }

    /// Parses what is between brackets, one of which was read.
    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Result<(), Reason>) -> Result<(), Reason> {
        if self.depth == MAX_DEPTH {
            return Err(Reason::GraphqlDocument);
        }
        self.depth += 1;
        parse(self)?;
        self.depth -= 1;
        Ok(())
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

const OPEN_BRACE: TokenKind = TokenKind::Punctuator(b'{');
const CLOSE_BRACE: TokenKind = TokenKind::Punctuator(b'}');
const OPEN_PARENTHESIS: TokenKind = TokenKind::Punctuator(b'(');
const CLOSE_PARENTHESIS: TokenKind = TokenKind::Punctuator(b')');
const OPEN_BRACKET: TokenKind = TokenKind::Punctuator(b'[');
const CLOSE_BRACKET: TokenKind = TokenKind::Punctuator(b']');
const AT: TokenKind = TokenKind::Punctuator(b'@');
const COLON: TokenKind = TokenKind::Punctuator(b':');
const DOLLAR: TokenKind = TokenKind::Punctuator(b'$');
const EQUALS: TokenKind = TokenKind::Punctuator(b'=');
const EXCLAMATION: TokenKind = TokenKind::Punctuator(b'!');
