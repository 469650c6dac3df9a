//! The attributes that both derives know: a name, a version, and marks on fields.

use syn::{Attribute, DeriveInput, Generics, LitInt, LitStr, Result, parse_quote};

/// What the attributes of a type say.
pub(crate) struct TypeAttributes {
    pub(crate) name: String,
    pub(crate) version: Option<u32>,
}

impl TypeAttributes {
    /// Reads `#[word(name = "…", version = …)]`.
    pub(crate) fn of(input: &DeriveInput, word: &str) -> Result<Self> {
        let mut found = TypeAttributes { name: input.ident.to_string(), version: None };
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident(word)) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    let name: LitStr = meta.value()?.parse()?;
                    found.name = name.value();
                    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                    if found.name.is_empty() || !found.name.chars().all(plain) {
                        return Err(syn::Error::new(name.span(), "a name is of letters, digits and _-."));
                    }
                } else if meta.path.is_ident("version") {
                    found.version = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
                } else {
                    return Err(meta.error("neither name nor version"));
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// Whether a field has the mark `#[word(mark)]`.
pub(crate) fn is_marked(attributes: &[Attribute], word: &str, mark: &str) -> Result<bool> {
    let mut marked = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(word)) {
        attribute.parse_nested_meta(|meta| {
            marked |= meta.path.is_ident(mark);
            if marked { Ok(()) } else { Err(meta.error(format!("a field can only be {mark}"))) }
        })?;
    }
    Ok(marked)
}

/// The generics with a bound on every type parameter.
pub(crate) fn bounded(generics: &Generics, bound: &syn::Path) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#bound));
    }
    generics
}
