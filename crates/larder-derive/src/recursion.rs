//! Finds the fields by which the schema of a type would contain itself. The compiler reports such a schema as a cycle in
//! the evaluation of a constant, and cannot say what to do.

use syn::{DeriveInput, GenericArgument, PathArguments, Result, Type};

/// The types whose schema is computed from those of all their arguments.
const CONTAINERS: [&str; 10] =
    ["Arc", "BTreeMap", "BTreeSet", "Box", "Cow", "HashMap", "HashSet", "Option", "Result", "Vec"];

/// Refuses the type of a field that contains the type itself, directly or in containers. Other types may have a schema
/// that does not depend on their arguments, and a type of another name may be recursive too: these are left to the
/// compiler.
pub(crate) fn refuse_recursive(input: &DeriveInput, field_type: &Type) -> Result<()> {
    if contains_itself(input, field_type) {
        let message = format!(
            "the schema of `{}` would contain itself: mark this field with `#[schema(opaque)]`",
            input.ident
        );
        return Err(syn::Error::new_spanned(field_type, message));
    }
    Ok(())
}

fn contains_itself(input: &DeriveInput, of: &Type) -> bool {
    match of {
        Type::Array(array) => contains_itself(input, &array.elem),
        Type::Group(group) => contains_itself(input, &group.elem),
        Type::Paren(paren) => contains_itself(input, &paren.elem),
        Type::Reference(reference) => contains_itself(input, &reference.elem),
        Type::Slice(slice) => contains_itself(input, &slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter().any(|element| contains_itself(input, element)),
        Type::Path(path) if path.qself.is_none() => {
            let segments = &path.path.segments;
            let Some(last) = segments.last() else { return false };
            if segments.len() == 1 && (last.ident == "Self" || is_own_name(input, &last.ident)) {
                return true;
            }
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
            CONTAINERS.iter().any(|container| last.ident == container)
                && arguments.args.iter().any(|argument| match argument {
                    GenericArgument::Type(argument) => contains_itself(input, argument),
                    _ => false,
                })
        }
        _ => false,
    }
}

/// Whether a name in the fields is that of the type, and not that of a parameter.
fn is_own_name(input: &DeriveInput, name: &syn::Ident) -> bool {
    *name == input.ident && input.generics.type_params().all(|parameter| parameter.ident != *name)
}
