//! The bounds of a derived implementation: the type parameters and associated types that its fields consist of.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Data, Field, GenericArgument, Generics, Ident, Path, PathArguments, ReturnType, Type, parse_quote,
};

/// Adds a bound to every type parameter in the types of the fields, and to every associated type of one. A parameter of
/// which only an associated type occurs, as `I` in `<I as Iterator>::Item`, needs no bound.
pub(crate) fn with_bound<'a>(
    generics: &Generics,
    bound: &Path,
    field_types: impl IntoIterator<Item = &'a Type>,
) -> Generics {
    let parameters = generics.type_params().map(|parameter| parameter.ident.clone()).collect();
    let mut used = Used { parameters, bare: Vec::new(), associated: Vec::new() };
    field_types.into_iter().for_each(|field_type| used.visit(field_type));
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut().filter(|parameter| used.bare.contains(&parameter.ident)) {
        parameter.bounds.push(parse_quote!(#bound));
    }
    if !used.associated.is_empty() {
        let clause = generics.make_where_clause();
        for associated in used.associated {
            clause.predicates.push(parse_quote!(#associated: #bound));
        }
    }
    generics
}

/// The fields of a struct, or of all variants of an enum.
pub(crate) fn all_fields(data: &Data) -> Vec<&Field> {
    match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(data) => data.fields.named.iter().collect(),
    }
}

/// What the types of the fields use of the type parameters.
struct Used {
    parameters: Vec<Ident>,
    bare: Vec<Ident>,
    associated: Vec<Type>,
}

impl Used {
    fn visit(&mut self, of: &Type) {
        match of {
            Type::Array(array) => self.visit(&array.elem),
            Type::Group(group) => self.visit(&group.elem),
            Type::Paren(paren) => self.visit(&paren.elem),
            Type::Reference(reference) => self.visit(&reference.elem),
            Type::Slice(slice) => self.visit(&slice.elem),
            Type::Tuple(tuple) => tuple.elems.iter().for_each(|element| self.visit(element)),
            Type::Path(path) => {
                let first = path.path.segments.first();
                let is_of_parameter = path.path.segments.len() > 1
                    && first.is_some_and(|first| self.parameters.contains(&first.ident));
                if path.qself.is_some() || is_of_parameter {
                    if !self.parameters_in(of.to_token_stream()).is_empty() {
                        self.associated.push(of.clone());
                    }
                    return;
                }
                if let Some(parameter) = path.path.get_ident().filter(|ident| self.parameters.contains(ident))
                {
                    self.bare.push(parameter.clone());
                }
                for segment in &path.path.segments {
                    self.visit_arguments(&segment.arguments);
                }
            }
            // Functions, pointers, trait objects and macros: which parts they use is unknown.
            other => self.bare.extend(self.parameters_in(other.to_token_stream())),
        }
    }

    fn visit_arguments(&mut self, arguments: &PathArguments) {
        match arguments {
            PathArguments::None => {}
            PathArguments::AngleBracketed(arguments) => {
                for argument in &arguments.args {
                    match argument {
                        GenericArgument::Type(argument) => self.visit(argument),
                        GenericArgument::AssocType(argument) => self.visit(&argument.ty),
                        _ => {}
                    }
                }
            }
            PathArguments::Parenthesized(arguments) => {
                arguments.inputs.iter().for_each(|input| self.visit(input));
                if let ReturnType::Type(_, output) = &arguments.output {
                    self.visit(output);
                }
            }
        }
    }

    fn parameters_in(&self, tokens: TokenStream) -> Vec<Ident> {
        let mut found = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if self.parameters.contains(&ident) => found.push(ident),
                TokenTree::Group(group) => found.extend(self.parameters_in(group.stream())),
                _ => {}
            }
        }
        found
    }
}
