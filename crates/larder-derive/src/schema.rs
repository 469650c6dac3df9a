//! `Schema`: computes a number from names and from the schemas of the field types.

use crate::attributes::{TypeAttributes, has_flag, refuse, refuse_on_parameters};
use crate::bounds::{all_fields, with_bound};
use crate::recursion::refuse_recursive;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Result, parse_quote};

const ALLOWED: &str = "on the type it takes `name` and `version`, on a field `opaque`";

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(input, "schema")?;
    refuse_on_parameters(input, "schema", ALLOWED)?;
    let head = format!("{}@{}", attributes.name, attributes.version.unwrap_or(0));
    let steps = match &input.data {
        Data::Struct(data) => fields(input, &data.fields)?,
        Data::Enum(data) => {
            let mut steps = TokenStream::new();
            for variant in &data.variants {
                refuse(&variant.attrs, "schema", &format!("a variant; {ALLOWED}"))?;
                let (name, fields) = (format!("/{}", variant.ident.unraw()), fields(input, &variant.fields)?);
                steps.extend(quote!(schema = ::larder::mix_schema(schema, #name, 0); #fields));
            }
            steps
        }
        Data::Union(data) => {
            return Err(syn::Error::new(data.union_token.span, "a union cannot be stored"));
        }
    };
    let name = &input.ident;
    let mut field_types = Vec::new();
    for field in all_fields(&input.data) {
        if !has_flag(&field.attrs, "schema", "opaque")? {
            field_types.push(&field.ty);
        }
    }
    let generics = with_bound(&input.generics, &parse_quote!(::larder::Schema), field_types);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics ::larder::Schema for #name #type_generics #where_clause {
            const SCHEMA: u64 = {
                let mut schema = ::larder::mix_schema(0, #head, 0);
                #steps
                schema
            };
        }
    })
}

/// One step for each field: its name or index, and the schema of its type.
fn fields(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let mut steps = TokenStream::new();
    for (index, field) in fields.iter().enumerate() {
        let field_type = &field.ty;
        let name = field.ident.as_ref().map_or_else(|| index.to_string(), |name| name.unraw().to_string());
        steps.extend(if has_flag(&field.attrs, "schema", "opaque")? {
            let name = format!(".{name}: {}", field_type.to_token_stream());
            quote!(schema = ::larder::mix_schema(schema, #name, 0);)
        } else {
            refuse_recursive(input, field_type)?;
            let name = format!(".{name}");
            quote!(schema = ::larder::mix_schema(schema, #name, <#field_type as ::larder::Schema>::SCHEMA);)
        });
    }
    Ok(steps)
}
