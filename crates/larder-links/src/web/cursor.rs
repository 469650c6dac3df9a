//! The cursors of the API: where the next page of a list begins, as text.
//!
//! A cursor has the link's id in the form of a slug, so it works after that link is deleted, and reveals no count. In the
//! list by visits the visits are in front, as `12-4fKz9`.

use crate::model::slug::SlugCodec;
use crate::store::{Position, Sort};

/// The cursor of a position; `None` beyond the last id that has a slug.
pub(crate) fn encode(position: Position, sort: Sort, slugs: &SlugCodec) -> Option<String> {
    let id = slugs.encode(position.id)?;
    Some(match sort {
        Sort::Newest => id,
        Sort::Visits => format!("{}-{id}", position.visits),
    })
}

/// The position of a cursor; `None` if [`encode`] cannot return it for this order.
pub(crate) fn decode(cursor: &str, sort: Sort, slugs: &SlugCodec) -> Option<Position> {
    let (visits, id) = match sort {
        Sort::Newest => ("0", cursor),
        Sort::Visits => cursor.split_once('-')?,
    };
    let position = Position { visits: visits.parse().ok()?, id: slugs.decode(id)? };
    // The database has signed numbers.
    let is_storable = |number: u64| i64::try_from(number).is_ok();
    Some(position).filter(|position| is_storable(position.id) && is_storable(position.visits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_returns_its_position_in_its_own_order_only() {
        let slugs = SlugCodec::new([7; 16]);
        let position = Position { visits: 12, id: 99 };
        let by_visits = encode(position, Sort::Visits, &slugs).unwrap();
        let newest = encode(position, Sort::Newest, &slugs).unwrap();
        assert_eq!(decode(&by_visits, Sort::Visits, &slugs), Some(position));
        assert_eq!(decode(&newest, Sort::Newest, &slugs), Some(Position { visits: 0, id: 99 }));
        assert_eq!(decode(&by_visits, Sort::Newest, &slugs), None);
        assert_eq!(decode(&newest, Sort::Visits, &slugs), None);
        for wrong in ["", "-", "12-", "-1-abcdef", "9223372036854775808-abcdef", "1-2-abcdef", "+1--"] {
            assert_eq!(decode(wrong, Sort::Visits, &slugs), None, "{wrong}");
        }
    }
}
