//! What one server says of its cluster: the primaries, their slots and where they are.
//!
//! `CLUSTER NODES` tells the slots and their epochs: of two servers that claim a slot, the one with the higher epoch has it.
//! `CLUSTER SLOTS` tells the places by which clients shall reach the servers, which may be names.

use super::slots::{SLOTS, SlotSet};
use crate::tier::TierError;
use crate::tier::redis::sentinel::Place;
use crate::tier::redis::values::{array, bytes, checked, int, text};
use redis::{Pipeline, Value};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// The identity of a server in its cluster. A restart keeps it.
pub(super) type NodeId = String;

#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) primaries: Vec<Claimant>,
    /// The slots that the server gives away or receives.
    pub(super) moving: SlotSet,
}

/// A primary with the slots that it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimant {
    pub(super) id: NodeId,
    pub(super) place: Place,
    pub(super) epoch: u64,
    /// Whether the server that tells is this one.
    pub(super) is_itself: bool,
    /// Whether the others reach it.
    pub(super) works: bool,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

/// Adds the commands whose replies [`parse`] needs.
pub(super) fn ask(pipeline: &mut Pipeline) {
    pipeline.cmd("CLUSTER").arg("NODES");
    pipeline.cmd("CLUSTER").arg("SLOTS");
}

/// Parses the two replies of a server that was reached at this host.
///
/// # Errors
/// If it is no part of a cluster, or refuses to tell.
pub(super) fn parse(nodes: Value, slots: Value, asked: &str) -> Result<View, TierError> {
    let nodes = text(nodes)?;
    let places = preferred_places(slots, asked)?;
    let mut view = View { primaries: Vec::new(), moving: SlotSet::new() };
    for line in nodes.lines() {
        let unreadable = || TierError::Refused(format!("CLUSTER NODES has the line {line:?}"));
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let [id, address, flags, _, _, _, epoch, _, slots @ ..] = &fields[..] else {
            return Err(unreadable());
        };
        let has = |name| flags.split(',').any(|flag| flag == name);
        if !has("master") || has("noaddr") || has("handshake") {
            continue;
        }
        let mut owned = Vec::new();
        for slot in slots {
            match slot.strip_prefix('[') {
                // One of its own that moves: [slot->-node] or [slot-<-node].
                Some(moving) => {
                    let slot = moving.split('-').next().and_then(|slot| slot.parse().ok());
                    let slot = slot.filter(|slot| usize::from(*slot) < SLOTS);
                    view.moving.insert(slot.ok_or_else(unreadable)?);
                }
                None => owned.push(range(slot).ok_or_else(unreadable)?),
            }
        }
        view.primaries.push(Claimant {
            id: (*id).to_owned(),
            place: match places.get(*id) {
                Some(place) => place.clone(),
                None => place_of(address, asked).ok_or_else(unreadable)?,
            },
            epoch: epoch.parse().map_err(|_| unreadable())?,
            is_itself: has("myself"),
            works: !has("fail") && !has("fail?"),
            slots: owned,
        });
    }
    Ok(view)
}

/// `first-last`, or one slot.
fn range(slots: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty() && usize::from(*range.end()) < SLOTS).then_some(range)
}

/// The place in `host:port@port[,name]`. A server does not always know its own host: then it is that which was asked.
fn place_of(address: &str, asked: &str) -> Option<Place> {
    let address = address.split(['@', ',']).next()?;
    let (host, port) = address.rsplit_once(':')?;
    let host = if host.is_empty() { asked } else { host };
    Some((host.to_owned(), port.parse().ok()?))
}

/// The place of each primary with slots that clients shall use.
fn preferred_places(slots: Value, asked: &str) -> Result<HashMap<NodeId, Place>, TierError> {
    let mut places = HashMap::new();
    for range in array(slots)? {
        // The first and the last slot, the primary, the replicas.
        let Some(primary) = array(range)?.into_iter().nth(2) else { continue };
        let mut fields = array(primary)?.into_iter();
        let mut next = || fields.next().unwrap_or_default();
        let (host, port, id) = (bytes(next())?, int(next())?, text(checked(next())?)?);
        let host = match host.as_deref() {
            // Unknown: CLUSTER NODES has the address.
            Some(b"?") => continue,
            None | Some(b"") => asked.to_owned(),
            Some(host) => String::from_utf8_lossy(host).into_owned(),
        };
        if let Ok(port) = port.try_into() {
            places.insert(id, (host, port));
        }
    }
    Ok(places)
}

/// Where another server of the cluster is, in a reply to a command for a key that the asked one does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// It owns the slot.
    Moved(Place),
    /// It receives the slot, and has the key, or will have it.
    Ask(Place),
}

/// The redirection in a reply of a server that was reached at this host.
pub(super) fn redirect(answer: &Value, asked: &str) -> Option<Redirect> {
    let Value::ServerError(error) = answer else { return None };
    let redirect: fn(Place) -> Redirect = match error.code() {
        "MOVED" => Redirect::Moved,
        "ASK" => Redirect::Ask,
        _ => return None,
    };
    let (_, address) = error.details()?.split_once(' ')?;
    place_of(address, asked).map(redirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
aaa 127.0.0.1:7000@17000 myself,master - 0 0 3 connected 0-5460 7000 [93-<-bbb] [77->-bbb]
bbb 10.0.0.2:7001@17001,cache-b.internal master - 0 1 2 connected 5461-6999 7001-16383
ccc 127.0.0.1:7002@17002 slave aaa 0 1 3 connected
ddd :0@0 master,noaddr - 1 1 1 disconnected
eee :7004@17004 master,fail - 1 1 9 connected
";

    fn slots(host: Value) -> Value {
        let primary = vec![host, Value::Int(8001), Value::BulkString(b"bbb".to_vec())];
        Value::Array(vec![Value::Array(vec![Value::Int(5461), Value::Int(16_383), Value::Array(primary)])])
    }

    fn view(host: Value) -> View {
        parse(Value::BulkString(NODES.into()), slots(host), "asked").expect("readable")
    }

    #[test]
    fn view_has_primaries_with_slots_epochs_and_places() {
        let view = view(Value::BulkString(b"cache-b.internal".to_vec()));
        let place = |host: &str, port| (host.to_owned(), port);
        let expected = [
            ("aaa", place("127.0.0.1", 7000), 3, vec![0..=5460, 7000..=7000]),
            ("bbb", place("cache-b.internal", 8001), 2, vec![5461..=6999, 7001..=16_383]),
            ("eee", place("asked", 7004), 9, vec![]),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(id, place, epoch, slots)| Claimant {
                id: id.into(),
                place,
                epoch,
                is_itself: id == "aaa",
                works: epoch != 9,
                slots,
            })
            .collect();
        assert_eq!(view.primaries, expected);
        let mut moving = SlotSet::new();
        [93, 77].into_iter().for_each(|slot| moving.insert(slot));
        assert_eq!(view.moving, moving);
    }

    #[test]
    fn place_without_host_is_that_of_the_asked_server_and_unknown_one_is_the_address() {
        for (host, expected) in [
            (Value::Nil, ("asked", 8001)),
            (Value::BulkString(Vec::new()), ("asked", 8001)),
            (Value::BulkString(b"?".to_vec()), ("10.0.0.2", 7001)),
        ] {
            let (host, port) = &view(host).primaries[1].place;
            assert_eq!((host.as_str(), *port), expected);
        }
    }

    #[test]
    fn unreadable_view_is_an_error_with_its_line() {
        for line in [
            "aaa",
            "aaa 127.0.0.1:7000@17000 master - 0 0 x connected",
            "aaa x master - 0 0 1 connected",
            "aaa h:1@2 master - 0 0 1 connected 5-x",
            "aaa h:1@2 master - 0 0 1 connected 0-16384",
            "aaa h:1@2 master - 0 0 1 connected 5-3",
            "aaa h:1@2 master - 0 0 1 connected [16384-<-bbb]",
        ] {
            let nodes = Value::BulkString(line.into());
            let error = parse(nodes, Value::Array(Vec::new()), "asked").expect_err("unreadable");
            assert!(error.to_string().contains(line), "{error}");
        }
    }

    #[test]
    fn redirection_names_the_place() {
        let redirect = |sent: &str| match redis::parse_redis_value(format!("-{sent}\r\n").as_bytes()) {
            Ok(answer) => redirect(&answer, "asked"),
            Err(error) => panic!("{error}"),
        };
        let place = |host: &str| (host.to_owned(), 7001);
        assert_eq!(redirect("MOVED 8579 ::1:7001"), Some(Redirect::Moved(place("::1"))));
        assert_eq!(redirect("MOVED 8579 :7001"), Some(Redirect::Moved(place("asked"))));
        assert_eq!(redirect("ASK 8579 b.internal:7001"), Some(Redirect::Ask(place("b.internal"))));
        assert_eq!(redirect("ERR no"), None);
    }
}
