//! The modules of one crate as its files declare them: the names that each defines and imports, and the paths that it uses.
//!
//! Works on tokens, so that paths inside of macros count too. Modules for tests alone are not read.

use crate::workspace::root;
use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use std::collections::HashMap;
use std::path::PathBuf;

/// One module, which is a file or stands in braces inside of one.
#[derive(Debug)]
pub(super) struct Module {
    /// Its path from the root of the crate.
    pub(super) path: Vec<String>,
    /// Its file, relative to the folder of the crate's sources.
    pub(super) file: String,
    /// The names of the items that it defines.
    pub(super) items: Vec<String>,
    /// The names that it imports, with their paths.
    pub(super) imports: HashMap<String, Vec<String>>,
    /// The paths of the modules of which it imports every name.
    pub(super) globs: Vec<Vec<String>>,
    /// Every path that it uses, with the line.
    pub(super) uses: Vec<(Vec<String>, usize)>,
}

/// The modules of the crate in a folder of `crates/`, its roots first.
pub(super) fn modules(name: &str) -> Result<Vec<Module>> {
    let mut reader = Reader { folder: root().join("crates").join(name).join("src"), modules: Vec::new() };
    for file in ["lib.rs", "main.rs"] {
        if reader.folder.join(file).exists() {
            reader.read_file(file, &[])?;
        }
    }
    Ok(reader.modules)
}

struct Reader {
    folder: PathBuf,
    modules: Vec<Module>,
}

impl Reader {
    fn read_file(&mut self, file: &str, path: &[String]) -> Result<()> {
        let text = std::fs::read_to_string(self.folder.join(file))
            .with_context(|| format!("cannot read {}", self.folder.join(file).display()))?;
        let tokens = text.parse().map_err(|error| anyhow!("{file} is not Rust: {error}"))?;
        self.read_module(file, path, tokens)
    }

    fn read_module(&mut self, file: &str, path: &[String], tokens: TokenStream) -> Result<()> {
        let (module, children) = read(file, path, tokens);
        self.modules.push(module);
        for (name, body) in children {
            let path: Vec<String> = path.iter().cloned().chain([name]).collect();
            match body {
                Some(tokens) => self.read_module(file, &path, tokens)?,
                None => {
                    let file = self.file_of(&path)?;
                    self.read_file(&file, &path)?;
                }
            }
        }
        Ok(())
    }

    fn file_of(&self, path: &[String]) -> Result<String> {
        let stem = path.join("/");
        let mut files = [format!("{stem}.rs"), format!("{stem}/mod.rs")].into_iter();
        files
            .find(|file| self.folder.join(file).exists())
            .with_context(|| format!("{} has no file for module {stem}", self.folder.display()))
    }
}

/// The children of a module: their names, with their tokens if they have no file.
type Children = Vec<(String, Option<TokenStream>)>;

/// Reads one module without its children.
pub(super) fn read(file: &str, path: &[String], tokens: TokenStream) -> (Module, Children) {
    let mut module = Module {
        path: path.to_vec(),
        file: file.to_owned(),
        items: Vec::new(),
        imports: HashMap::new(),
        globs: Vec::new(),
        uses: Vec::new(),
    };
    let mut children = Vec::new();
    let mut rest = Tokens::new(tokens);
    let mut is_test = false;
    while let Some(token) = rest.next() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => is_test |= rest.attribute_is_test(),
            TokenTree::Punct(punct) if punct.as_char() == ';' => is_test = false,
            TokenTree::Group(group) => {
                if !is_test {
                    module.read_body(group.stream());
                }
                is_test &= group.delimiter() != Delimiter::Brace;
            }
            TokenTree::Ident(word) if is_test && word != "use" && word != "mod" => {}
            TokenTree::Ident(word) if word == "mod" => {
                let Some(name) = rest.ident() else { continue };
                let body = rest.braces();
                if !is_test {
                    module.items.push(name.clone());
                    children.push((name, body.map(|group| group.stream())));
                }
                is_test = false;
            }
            TokenTree::Ident(word) if word == "use" => {
                let tree = rest.until_semicolon();
                if !is_test {
                    module.read_import(&[], tree);
                }
                is_test = false;
            }
            TokenTree::Ident(word) if DEFINING.iter().any(|defining| word == defining) => {
                module.items.extend(rest.defined_name());
            }
            TokenTree::Ident(word) => module.read_path(word, &mut rest),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    (module, children)
}

/// The words that stand before the name of an item.
const DEFINING: [&str; 8] = ["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type"];

impl Module {
    /// Reads the paths in the body of an item, and the imports of a function.
    fn read_body(&mut self, tokens: TokenStream) {
        let mut rest = Tokens::new(tokens);
        while let Some(token) = rest.next() {
            match token {
                TokenTree::Group(group) => self.read_body(group.stream()),
                TokenTree::Ident(word) if word == "use" => {
                    let tree = rest.until_semicolon();
                    self.read_import(&[], tree);
                }
                TokenTree::Ident(word) => self.read_path(&word, &mut rest),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn read_path(&mut self, first: &Ident, rest: &mut Tokens) {
        let mut path = vec![first.to_string()];
        while let Some(name) = rest.segment() {
            path.push(name);
        }
        if path.len() > 1 {
            self.uses.push((path, first.span().start().line));
        }
    }

    /// Reads what follows `use`: a path, which may end in a star, a new name or a list in braces.
    fn read_import(&mut self, before: &[String], tokens: TokenStream) {
        let mut rest = Tokens::new(tokens);
        let mut path = before.to_vec();
        let mut line = 0;
        while let Some(token) = rest.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    let name = rest.ident().unwrap_or_default();
                    self.import(name, std::mem::take(&mut path), line);
                }
                TokenTree::Ident(word) => {
                    line = word.span().start().line;
                    path.push(word.to_string());
                }
                TokenTree::Group(group) => self.read_import(&std::mem::take(&mut path), group.stream()),
                TokenTree::Punct(punct) if punct.as_char() == '*' => {
                    self.uses.push((path.clone(), line));
                    self.globs.push(std::mem::take(&mut path));
                }
                TokenTree::Punct(punct) if punct.as_char() == ',' => {
                    self.import_last(std::mem::replace(&mut path, before.to_vec()), before.len(), line);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        self.import_last(path, before.len(), line);
    }

    /// Imports a path under its last name, unless nothing was added to what stands before the braces.
    fn import_last(&mut self, mut path: Vec<String>, before: usize, line: usize) {
        if path.len() <= before {
            return;
        }
        if path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        let name = path.last().cloned().unwrap_or_default();
        self.import(name, path, line);
    }

    fn import(&mut self, name: String, path: Vec<String>, line: usize) {
        self.uses.push((path.clone(), line));
        self.imports.insert(name, path);
    }
}

/// Tokens, read from the front.
struct Tokens {
    rest: std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
}

impl Tokens {
    fn new(tokens: TokenStream) -> Self {
        Self { rest: tokens.into_iter().peekable() }
    }

    fn next(&mut self) -> Option<TokenTree> {
        self.rest.next()
    }

    /// The next name, past the exclamation mark of `macro_rules!`.
    fn ident(&mut self) -> Option<String> {
        if matches!(self.rest.peek(), Some(TokenTree::Punct(punct)) if punct.as_char() == '!') {
            self.rest.next();
        }
        match self.rest.next_if(|token| matches!(token, TokenTree::Ident(_)))? {
            TokenTree::Ident(name) => Some(name.to_string()),
            _ => None,
        }
    }

    /// The name that an item has after its first word, as in `const fn name` and `static mut NAME`.
    fn defined_name(&mut self) -> Option<String> {
        let mut name = self.ident();
        while name.as_deref().is_some_and(|name| ["extern", "fn", "mut", "unsafe"].contains(&name)) {
            name = self.ident();
        }
        name
    }

    fn braces(&mut self) -> Option<Group> {
        match self.rest.next() {
            Some(TokenTree::Group(group)) => Some(group),
            _ => None,
        }
    }

    fn until_semicolon(&mut self) -> TokenStream {
        let is_end = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';');
        self.rest.by_ref().take_while(|token| !is_end(token)).collect()
    }

    /// The name after `::`, if a path goes on.
    fn segment(&mut self) -> Option<String> {
        let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
        self.rest.next_if(is_colon)?;
        self.rest.next_if(is_colon)?;
        self.ident()
    }

    /// Whether the attribute that comes next restricts an item to tests.
    fn attribute_is_test(&mut self) -> bool {
        let Some(TokenTree::Group(group)) = self.rest.peek() else { return false };
        let text = group.stream().to_string().replace(' ', "");
        self.rest.next();
        ["cfg(test)", "cfg(all(test,", "cfg(doctest)"].iter().any(|start| text.starts_with(start))
    }
}

/// The path of a file's module, by which `a/mod.rs` and `a.rs` are the same.
pub(super) fn stem(file: &str) -> &str {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    stem.strip_suffix("/mod").unwrap_or(stem)
}
