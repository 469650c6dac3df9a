//! The attributes of both derive macros: name and version of a type, and flags of fields. What a macro does not know is
//! refused, wherever it is: an attribute without an effect would be a mistake that nobody sees.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, DeriveInput, GenericParam, Lit, LitStr, Result};

/// The attributes of a type.
pub(crate) struct TypeAttributes {
    pub(crate) name: String,
    pub(crate) version: Option<u32>,
}

impl TypeAttributes {
    /// Parses `#[attribute(name = "…", version = …)]`.
    pub(crate) fn parse(input: &DeriveInput, attribute_name: &str) -> Result<Self> {
        let (mut type_name, mut version) = (None, None);
        for attribute in with_name(&input.attrs, attribute_name) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    let name: LitStr = meta.value()?.parse()?;
                    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                    if name.value().is_empty() || !name.value().chars().all(is_allowed) {
                        return Err(syn::Error::new(
                            name.span(),
                            "a name consists of letters, digits and the characters _-.",
                        ));
                    }
                    set_once(&mut type_name, name.value(), &meta)
                } else if meta.path.is_ident("version") {
                    set_once(&mut version, parse_version(&meta)?, &meta)
                } else {
                    Err(unknown(&meta, attribute_name, "a type takes `name` and `version`"))
                }
            })?;
        }
        Ok(TypeAttributes { name: type_name.unwrap_or_else(|| input.ident.unraw().to_string()), version })
    }
}

/// A value that is out of range is named with the range.
fn parse_version(meta: &ParseNestedMeta<'_>) -> Result<u32> {
    let value = meta.value()?;
    let span = value.span();
    let range = format!("0 to {}", u32::MAX);
    match value.parse() {
        Ok(Lit::Int(integer)) => integer.base10_parse().map_err(|_| {
            let message = format!("version {integer} is out of range: {range}");
            syn::Error::new(integer.span(), message)
        }),
        Ok(other) => {
            let message = format!("version {} is no integer from {range}", other.to_token_stream());
            Err(syn::Error::new(other.span(), message))
        }
        Err(_) => Err(syn::Error::new(span, format!("a version is a literal integer from {range}"))),
    }
}

/// Whether a field has the flag `#[attribute(flag)]`.
pub(crate) fn has_flag(attributes: &[Attribute], attribute_name: &str, flag: &str) -> Result<bool> {
    let mut has_flag = None;
    for attribute in with_name(attributes, attribute_name) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident(flag) {
            true => set_once(&mut has_flag, true, &meta),
            false => Err(unknown(&meta, attribute_name, &format!("a field takes `{flag}`"))),
        })?;
    }
    Ok(has_flag.unwrap_or(false))
}

/// Refuses the attribute where it has no meaning.
pub(crate) fn refuse(attributes: &[Attribute], attribute_name: &str, reason: &str) -> Result<()> {
    match with_name(attributes, attribute_name).next() {
        None => Ok(()),
        Some(attribute) => {
            let message = format!("`#[{attribute_name}(…)]` is not allowed on {reason}");
            Err(syn::Error::new_spanned(attribute, message))
        }
    }
}

/// Refuses the attribute on lifetimes, type parameters and constants.
pub(crate) fn refuse_on_parameters(input: &DeriveInput, attribute_name: &str, allowed: &str) -> Result<()> {
    input.generics.params.iter().try_for_each(|parameter| {
        let attributes = match parameter {
            GenericParam::Lifetime(parameter) => &parameter.attrs,
            GenericParam::Type(parameter) => &parameter.attrs,
            GenericParam::Const(parameter) => &parameter.attrs,
        };
        refuse(attributes, attribute_name, &format!("a generic parameter; {allowed}"))
    })
}

fn with_name<'a>(attributes: &'a [Attribute], name: &'a str) -> impl Iterator<Item = &'a Attribute> {
    attributes.iter().filter(move |attribute| attribute.path().is_ident(name))
}

fn set_once<T>(slot: &mut Option<T>, value: T, meta: &ParseNestedMeta<'_>) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("`{}` is given more than once", name_of(meta)))),
    }
}

fn unknown(meta: &ParseNestedMeta<'_>, attribute_name: &str, allowed: &str) -> syn::Error {
    meta.error(format!("unknown `{}` in `#[{attribute_name}(…)]`: {allowed}", name_of(meta)))
}

fn name_of(meta: &ParseNestedMeta<'_>) -> String {
    let segments: Vec<_> = meta.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    segments.join("::")
}
