//! `CacheKey`: name, version, variant, and each field behind its length.

use crate::attributes::{TypeAttributes, bounded};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Fields, Result, parse_quote};

const DEFAULT_VERSION: u32 = 1;

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = TypeAttributes::of(input, "key")?;
    let head = format!("{}@{}", attributes.name, attributes.version.unwrap_or(DEFAULT_VERSION));
    let body = match &input.data {
        Data::Struct(of) => {
            let (pattern, pushes) = fields(&of.fields);
            quote! {
                out.push(#head.as_bytes());
                let Self #pattern = self;
                #pushes
            }
        }
        // There is nothing to match by reference.
        Data::Enum(of) if of.variants.is_empty() => quote!(match *self {}),
        Data::Enum(of) => {
            let arms = of.variants.iter().map(|variant| {
                let (name, (pattern, pushes)) = (&variant.ident, fields(&variant.fields));
                let head = format!("{head}/{name}");
                quote! {
                    Self::#name #pattern => {
                        out.push(#head.as_bytes());
                        #pushes
                    }
                }
            });
            quote!(match self { #(#arms)* })
        }
        Data::Union(of) => return Err(syn::Error::new(of.union_token.span, "a union cannot be a key")),
    };
    let name = &input.ident;
    let generics = bounded(&input.generics, &parse_quote!(::larder::CacheKey));
    let (of, names, bounds) = generics.split_for_impl();
    Ok(quote! {
        impl #of ::larder::CacheKey for #name #names #bounds {
            fn write_key(&self, out: &mut ::larder::KeyBuf) {
                #body
            }
        }
    })
}

/// The pattern that binds the fields, and the pushes of all of them.
fn fields(fields: &Fields) -> (TokenStream, TokenStream) {
    let bindings: Vec<_> = (0..fields.len()).map(|at| format_ident!("field_{at}")).collect();
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
