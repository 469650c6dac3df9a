//! The attributes of both derive macros: name and version of a type, and flags of fields.

use syn::{Attribute, DeriveInput, Generics, LitInt, LitStr, Result, parse_quote};

/// The attributes of a type.
pub(crate) struct TypeAttributes {
    pub(crate) name: String,
    pub(crate) version: Option<u32>,
}

impl TypeAttributes {
    /// Parses `#[attribute(name = "…", version = …)]`.
    pub(crate) fn parse(input: &DeriveInput, attribute_name: &str) -> Result<Self> {
        let mut attributes = TypeAttributes { name: input.ident.to_string(), version: None };
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident(attribute_name)) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    let name: LitStr = meta.value()?.parse()?;
                    attributes.name = name.value();
                    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                    if attributes.name.is_empty() || !attributes.name.chars().all(is_allowed) {
                        return Err(syn::Error::new(
                            name.span(),
                            "a name consists of letters, digits and the characters _-.",
                        ));
                    }
                } else if meta.path.is_ident("version") {
                    attributes.version = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
                } else {
                    return Err(meta.error("unknown attribute, expected name or version"));
                }
                Ok(())
            })?;
        }
        Ok(attributes)
    }
}

/// Whether a field has the flag `#[attribute(flag)]`.
pub(crate) fn has_flag(attributes: &[Attribute], attribute_name: &str, flag: &str) -> Result<bool> {
    let mut has_flag = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(attribute_name)) {
        attribute.parse_nested_meta(|meta| {
            has_flag |= meta.path.is_ident(flag);
            if has_flag { Ok(()) } else { Err(meta.error(format!("unknown attribute, expected {flag}"))) }
        })?;
    }
    Ok(has_flag)
}

/// Adds a bound to every type parameter.
pub(crate) fn with_bound(generics: &Generics, bound: &syn::Path) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#bound));
    }
    generics
}
