//! Names that every binding checks or shows in the same words.

use larder::CoherenceMode;

/// A name that cannot be one, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(pub(crate) String);

/// Checks the name of a view, of which [`Cache::view`](larder::Cache::view) would panic.
pub(crate) fn check_view_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() || name.contains([':', '/']) {
        return Err(NameError(format!(
            "the name of a view is {name:?}; it must be a name without ':' and '/'"
        )));
    }
    Ok(())
}

/// Checks the name of a schema, of which [`View::with_shared_schema`](larder::View::with_shared_schema) would panic.
pub(crate) fn check_schema_name(name: &str) -> Result<(), NameError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !(1..=64).contains(&name.len()) || !name.bytes().all(is_allowed) {
        return Err(NameError(format!(
            "the name of a schema is {name:?}; it must have 1 to 64 of the ASCII letters, digits and _-."
        )));
    }
    Ok(())
}

/// The name of a mode, as in the metrics of larder.
pub fn mode_name(mode: CoherenceMode) -> &'static str {
    match mode {
        CoherenceMode::Memory => "memory",
        CoherenceMode::Full => "full",
        CoherenceMode::Lost => "lost",
        CoherenceMode::Unsupported(_) => "unsupported",
        CoherenceMode::Forked => "forked",
        CoherenceMode::ShutDown => "shut down",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_larder_takes() {
        assert_eq!((check_view_name("price of"), check_schema_name("a-Z_0.9")), (Ok(()), Ok(())));
        for name in ["", "a:b", "a/b"] {
            let said = check_view_name(name).expect_err("no name of a view").to_string();
            assert!(said.contains(&format!("{name:?}")), "{said}");
        }
        for name in ["", "a b", "é", &"x".repeat(65)] {
            check_schema_name(name).expect_err("no name of a schema");
        }
    }
}
