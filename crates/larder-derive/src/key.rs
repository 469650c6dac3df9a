//! `CacheKey`: writes the name, the version, the variant, and each field with its length as a prefix.

use crate::attributes::{TypeAttributes, refuse, refuse_on_parameters};
use crate::bounds::{all_fields, with_bound};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Result, parse_quote};

const DEFAULT_VERSION: u32 = 1;

const ALLOWED: &str = "on the type it takes `name` and `version`";

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(input, "key")?;
    refuse_attributes_within(input)?;
    let head = format!("{}@{}", attributes.name, attributes.version.unwrap_or(DEFAULT_VERSION));
    let body = match &input.data {
        Data::Struct(data) => {
            let (pattern, pushes) = fields(&data.fields);
            quote! {
                out.push(#head.as_bytes());
                let Self #pattern = self;
                #pushes
            }
        }
        // An empty enum cannot be matched by reference.
        Data::Enum(data) if data.variants.is_empty() => quote!(match *self {}),
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let (name, (pattern, pushes)) = (&variant.ident, fields(&variant.fields));
                let head = format!("{head}/{}", name.unraw());
                quote! {
                    Self::#name #pattern => {
                        out.push(#head.as_bytes());
                        #pushes
                    }
                }
            });
            quote!(match self { #(#arms)* })
        }
        Data::Union(data) => return Err(syn::Error::new(data.union_token.span, "a union cannot be a key")),
    };
    let name = &input.ident;
    let field_types = all_fields(&input.data).into_iter().map(|field| &field.ty);
    let generics = with_bound(&input.generics, &parse_quote!(::larder::CacheKey), field_types);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    Ok(quote! {
        impl #impl_generics ::larder::CacheKey for #name #type_generics #where_clause {
            fn write_key(&self, out: &mut ::larder::KeyBuf) {
                #body
            }
        }
    })
}

/// Every field and the name of every variant are parts of the key, so they have no attributes.
fn refuse_attributes_within(input: &DeriveInput) -> Result<()> {
    let refuse_on_fields = |fields: &Fields| {
        let reason = format!("a field: every field is a part of the key; {ALLOWED}");
        fields.iter().try_for_each(|field| refuse(&field.attrs, "key", &reason))
    };
    match &input.data {
        Data::Struct(data) => refuse_on_fields(&data.fields)?,
        Data::Enum(data) => {
            let reason = format!("a variant: the name of a variant is a part of the key; {ALLOWED}");
            for variant in &data.variants {
                refuse(&variant.attrs, "key", &reason)?;
                refuse_on_fields(&variant.fields)?;
            }
        }
        Data::Union(_) => {}
    }
    refuse_on_parameters(input, "key", ALLOWED)
}

/// The pattern that binds the fields, and the statements that write them.
fn fields(fields: &Fields) -> (TokenStream, TokenStream) {
    let bindings: Vec<_> = (0..fields.len()).map(|index| format_ident!("field_{index}")).collect();
    let pattern = match fields {
        Fields::Named(named) => {
            let names = named.named.iter().map(|field| &field.ident);
            quote!({ #(#names: #bindings),* })
        }
        Fields::Unnamed(_) => quote!((#(#bindings),*)),
        Fields::Unit => quote!(),
    };
    (pattern, quote!(#(out.push_field(#bindings);)*))
}
