//! What is refused in the signature of a cached function, and the types that it returns.

use super::names::{borrows, is_opaque};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, GenericParam, PathArguments, Result, ReturnType, Signature, Type};

/// Refuses functions that cannot be cached.
pub(super) fn check(signature: &Signature) -> Result<()> {
    if signature.asyncness.is_none() {
        return Err(syn::Error::new_spanned(signature.fn_token, "a cached function is `async`"));
    }
    let of_type = |parameter: &&GenericParam| !matches!(parameter, GenericParam::Lifetime(_));
    if let Some(parameter) = signature.generics.params.iter().find(of_type) {
        let message = "a cached function has no type parameters, since its view has one type of values";
        return Err(syn::Error::new_spanned(parameter, message));
    }
    if let Some(unsafety) = signature.unsafety {
        return Err(syn::Error::new(unsafety.span, "a cached function is not `unsafe`"));
    }
    Ok(())
}

/// The types of the value and of the error, from the type that the function returns.
pub(super) fn value_and_error(signature: &Signature) -> Result<(TokenStream, TokenStream)> {
    let message = "a cached function returns a `Result`, or an alias of one whose name ends with it";
    let ReturnType::Type(_, output) = &signature.output else {
        return Err(syn::Error::new_spanned(&signature.ident, message));
    };
    if borrows(output) || is_opaque(output) {
        let message = "the value of a cached function is stored: name its type, which borrows nothing";
        return Err(syn::Error::new_spanned(output, message));
    }
    let last = match &**output {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    let Some(last) = last.filter(|last| last.ident.to_string().ends_with("Result")) else {
        return Err(syn::Error::new_spanned(output, message));
    };
    if let PathArguments::AngleBracketed(arguments) = &last.arguments
        && last.ident == "Result"
        && arguments.args.len() == 2
        && let [GenericArgument::Type(value), GenericArgument::Type(error)] =
            [&arguments.args[0], &arguments.args[1]]
    {
        return Ok((value.to_token_stream(), error.to_token_stream()));
    }
    // An alias, such as that of `std::io`.
    let span = output.span();
    let part = |part: TokenStream| quote_spanned!(span=> <#output as ::larder::cached_fn::FnResult>::#part);
    Ok((part(quote!(Value)), part(quote!(Error))))
}
