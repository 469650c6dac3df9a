//! The arguments of a cached function: the cache, the context of the load, and those that the loader needs.

use super::names::{borrows, is_opaque};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, Ident, Pat, PatType, Result, Signature, Type, TypeReference};

/// An argument with a name.
pub(super) struct Argument<'f> {
    pub(super) name: &'f Ident,
    pub(super) of_type: &'f Type,
    pub(super) role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Cache,
    /// The context of the load, which the loader gets and no caller passes.
    Context,
    Other,
}

impl<'f> Argument<'f> {
    /// The arguments of a function. One of them is the cache.
    pub(super) fn all_of(signature: &'f Signature) -> Result<Vec<Self>> {
        let arguments: Vec<Self> = signature.inputs.iter().map(Self::parse).collect::<Result<_>>()?;
        let mut caches = arguments.iter().filter(|argument| argument.role == Role::Cache);
        match (caches.next(), caches.next()) {
            (Some(_), None) => Ok(arguments),
            (None, _) => {
                let message = "a cached function has an argument of type `&Cache` or `&LocalCache`";
                Err(syn::Error::new_spanned(&signature.ident, message))
            }
            (Some(_), Some(second)) => {
                Err(syn::Error::new_spanned(second.of_type, "a cached function has one cache"))
            }
        }
    }

    fn parse(input: &'f FnArg) -> Result<Self> {
        let PatType { pat, ty: of_type, .. } = match input {
            FnArg::Typed(argument) => argument,
            FnArg::Receiver(receiver) => {
                let message = "a method cannot be cached: its loader would have to own `self`. Write a function outside of \
                               the `impl`, whose arguments are what the loader needs";
                return Err(syn::Error::new_spanned(receiver, message));
            }
        };
        let name = match &**pat {
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => &name.ident,
            other => {
                let message = "an argument of a cached function is a name: take it apart in the body";
                return Err(syn::Error::new_spanned(other, message));
            }
        };
        let role = match last_name(of_type) {
            Some(last) if last == "Cache" || last == "LocalCache" => Role::Cache,
            Some(last) if last == "LoadCx" => Role::Context,
            _ => Role::Other,
        };
        let argument = Argument { name, of_type, role };
        argument.check()?;
        Ok(argument)
    }

    /// Refuses what a loader cannot own.
    fn check(&self) -> Result<()> {
        let message = match self.of_type {
            Type::Reference(TypeReference { mutability: Some(_), .. }) => {
                "the loader of a cached function runs in a task of its own, which cannot borrow mutably"
            }
            of_type if is_opaque(of_type) => {
                "a cached function has no type parameters, since its view has one type of values: name the type"
            }
            Type::Reference(reference) if !borrows(&reference.elem) => return Ok(()),
            of_type if !borrows(of_type) || self.is_static() => return Ok(()),
            _ => {
                "the loader of a cached function owns its arguments, and cannot own a borrow inside of a type: pass a \
                 reference, such as `&str`, or an owned value"
            }
        };
        Err(syn::Error::new_spanned(self.of_type, message))
    }

    /// The type without a reference.
    pub(super) fn target(&self) -> &'f Type {
        match self.of_type {
            Type::Reference(reference) => &reference.elem,
            other => other,
        }
    }

    fn is_reference(&self) -> bool {
        matches!(self.of_type, Type::Reference(_))
    }

    fn is_static(&self) -> bool {
        matches!(self.of_type, Type::Reference(TypeReference { lifetime: Some(lifetime), elem, .. })
            if lifetime.ident == "static" && !borrows(elem))
    }

    /// Whether the loader gets a clone of what the caller lends.
    fn is_cloned(&self) -> bool {
        self.is_reference() && !self.is_static()
    }

    /// A reference to its value.
    pub(super) fn reference(&self) -> TokenStream {
        let name = self.name;
        if self.is_reference() { quote!(#name) } else { quote!(&#name) }
    }

    /// The statement that makes it the loader's own.
    pub(super) fn owned(&self) -> TokenStream {
        let Argument { name, role, .. } = self;
        let (span, reference) = (self.of_type.span(), self.reference());
        match role {
            Role::Context => TokenStream::new(),
            // The view borrows from the cache of the caller.
            Role::Cache => quote!(let #name = ::std::clone::Clone::clone(#reference);),
            Role::Other if self.is_cloned() => {
                quote_spanned!(span=> let #name = ::larder::cached_fn::cloned_for_loader(#name);)
            }
            Role::Other => quote_spanned!(span=> let #name = ::larder::cached_fn::moved_to_loader(#name);),
        }
    }

    /// What the loader passes to the function, of what it owns.
    pub(super) fn passed(&self, context: &Ident) -> TokenStream {
        let name = if self.role == Role::Context { context } else { self.name };
        match self.role {
            Role::Other if self.is_cloned() => quote!(::std::borrow::Borrow::borrow(&#name)),
            Role::Cache | Role::Context if self.is_reference() => quote!(&#name),
            _ => quote!(#name),
        }
    }
}

/// As callers pass it.
impl ToTokens for Argument<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Argument { name, of_type, .. } = self;
        tokens.extend(quote!(#name: #of_type));
    }
}

/// The last name in the path of a type, or of what it refers to.
fn last_name(of_type: &Type) -> Option<&Ident> {
    match of_type {
        Type::Reference(reference) => last_name(&reference.elem),
        Type::Path(path) => path.path.segments.last().map(|segment| &segment.ident),
        _ => None,
    }
}

/// A name for a variable that no argument can have.
pub(super) fn own_name(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}
