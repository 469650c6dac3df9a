//! What commands write: results to the standard output, remarks to the standard error.

pub(crate) use larder_terminal::{PRINT_FAILURE, exit, print, remark};

/// An error and its causes in one line. A cause that the error itself contains is not repeated.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let texts = error.chain().map(|cause| cause.to_string());
    let line =
        texts.reduce(|line, cause| if line.ends_with(&cause) { line } else { format!("{line}: {cause}") });
    line.unwrap_or_default().trim_end().replace('\n', " ")
}
