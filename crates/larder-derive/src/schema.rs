//! `Schema`: a number out of names, and the numbers of the fields' types.

use crate::attributes::{TypeAttributes, bounded, is_marked};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Fields, Result, parse_quote};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::of(input, "schema")?;
    let head = format!("{}@{}", attributes.name, attributes.version.unwrap_or(0));
    let steps = match &input.data {
        Data::Struct(of) => fields(&of.fields)?,
        Data::Enum(of) => {
            let mut steps = TokenStream::new();
            for variant in &of.variants {
                let (name, fields) = (format!("/{}", variant.ident), fields(&variant.fields)?);
                steps.extend(quote!(schema = ::larder::mix_schema(schema, #name, 0); #fields));
            }
            steps
        }
        Data::Union(of) => {
            return Err(syn::Error::new(of.union_token.span, "a union cannot be stored"));
        }
    };
    let name = &input.ident;
    let generics = bounded(&input.generics, &parse_quote!(::larder::Schema));
    let (of, names, bounds) = generics.split_for_impl();
    Ok(quote! {
        impl #of ::larder::Schema for #name #names #bounds {
            const SCHEMA: u64 = {
                let mut schema = ::larder::mix_schema(0, #head, 0);
                #steps
                schema
            };
        }
    })
}

/// One step for each field: its name, or its place, and its type's schema.
fn fields(fields: &Fields) -> Result<TokenStream> {
    let mut steps = TokenStream::new();
    for (at, field) in fields.iter().enumerate() {
        let of = &field.ty;
        let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
        steps.extend(if is_marked(&field.attrs, "schema", "opaque")? {
            let name = format!(".{name}: {}", of.to_token_stream());
            quote!(schema = ::larder::mix_schema(schema, #name, 0);)
        } else {
            let name = format!(".{name}");
            quote!(schema = ::larder::mix_schema(schema, #name, <#of as ::larder::Schema>::SCHEMA);)
        });
    }
    Ok(steps)
}
