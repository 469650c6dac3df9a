//! What a soak has measured: the samples in a file, the slopes, the page with the charts, and the table in the terminal.

mod judgement;
mod page;
mod plot;
mod samples;
mod slope;
mod table;

pub(super) use judgement::growth;
pub(super) use page::write;
pub(super) use samples::{Sample, Samples};
pub(super) use table::print;
