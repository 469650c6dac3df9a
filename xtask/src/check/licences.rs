//! Checks that every dependency has a permissive licence.

use crate::workspace::{array, text};
use serde_json::Value;

const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "Unicode-3.0",
    "0BSD",
    "CC0-1.0",
    "Unlicense",
];

pub(super) fn check(metadata: &Value) -> Vec<String> {
    array(&metadata["packages"])
        .filter(|package| !allows(text(&package["license"])))
        .map(|package| {
            let (name, licence) = (text(&package["name"]), text(&package["license"]));
            format!("{name}: licence {licence:?} is not on the list in xtask/src/check/licences.rs")
        })
        .collect()
}

/// Whether the allowed licences satisfy an SPDX expression. `OR` has a lower precedence than `AND`; a slash is an old
/// form of `OR`.
fn allows(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let expression = expression.trim();
    if let Some(parts) = split(expression, " OR ") {
        return parts.iter().any(|part| allows(part));
    }
    if let Some(parts) = split(expression, " AND ") {
        return parts.iter().all(|part| allows(part));
    }
    match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => allows(inner),
        None => ALLOWED.contains(&expression),
    }
}

/// Splits at an operator outside of parentheses; `None` if it does not occur there.
fn split<'a>(expression: &'a str, operator: &str) -> Option<Vec<&'a str>> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (index, byte) in expression.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && index >= start && expression[index..].starts_with(operator) => {
                parts.push(expression[start..index].trim());
                start = index + operator.len();
            }
            _ => {}
        }
    }
    parts.push(expression[start..].trim());
    (parts.len() > 1).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn allows_evaluates_spdx_expressions() {
        for allowed in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-3.0 OR MIT",
        ] {
            assert!(allows(allowed), "{allowed}");
        }
        for refused in ["", "GPL-3.0", "MIT AND MPL-2.0", "(MIT OR Apache-2.0) AND GPL-2.0", "MPL-2.0"] {
            assert!(!allows(refused), "{refused}");
        }
    }
}
