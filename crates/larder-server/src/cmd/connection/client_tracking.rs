//! `CLIENT TRACKING`, `CACHING`, `TRACKINGINFO`, `GETREDIR`: messages about keys that a client may have cached.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_resp::Args;

use crate::cmd::options::integer;
use crate::cmd::tracking::{Mode, Prefixes, Tracking, first_overlapping, overlap};
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::{Tracker, TrackerOptions};

/// The options of `CLIENT TRACKING ON`.
struct Request<'a> {
    mode: Mode,
    options: TrackerOptions,
    prefixes: Vec<&'a [u8]>,
}

/// `args` are those after `CLIENT TRACKING`.
pub(crate) fn tracking(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let request = parse(cx, args.skip(1))?;
    if args[0].eq_ignore_ascii_case(b"OFF") {
        cx.session.set_tracking(None);
        return cx.ok();
    }
    if !args[0].eq_ignore_ascii_case(b"ON") {
        return Err(CommandError::Syntax);
    }
    check(cx.session.tracking(), &request)?;
    let (observers, client) = (&cx.state.store.observers, Arc::clone(&cx.session.client));
    let mut tracking = cx.session.take_tracking().unwrap_or_else(|| {
        let is_broadcast = request.mode == Mode::Broadcast;
        let tracker = Tracker::new(client, is_broadcast, TrackerOptions::default());
        observers.tracking.add(&tracker);
        observers.update_tracking();
        let observers = Arc::clone(observers);
        Box::new(Tracking {
            observers,
            tracker,
            mode: request.mode,
            prefixes: Prefixes::default(),
            caching: None,
        })
    });
    tracking.mode = request.mode;
    tracking.tracker.set_options(request.options);
    let mut prefixes = request.prefixes;
    // Without a prefix, all keys are meant, also if the connection has had prefixes.
    if request.mode == Mode::Broadcast && prefixes.is_empty() {
        prefixes.push(b"");
    }
    for prefix in prefixes {
        tracking.observers.tracking.add_prefix(prefix, &tracking.tracker);
        tracking.prefixes.insert(prefix);
    }
    cx.session.set_tracking(Some(tracking));
    cx.ok()
}

fn parse<'a>(cx: &Context<'_>, args: Args<'a>) -> Result<Request<'a>, CommandError> {
    let (mut is_broadcast, mut opt_in, mut opt_out) = (false, false, false);
    let (mut options, mut prefixes) = (TrackerOptions::default(), Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.to_ascii_lowercase().as_slice() {
            b"redirect" => {
                let id = integer(words.next().ok_or(CommandError::Syntax)?)?;
                let target = cx.state.clients.find(id as u64);
                options.redirect =
                    Some(target.ok_or(CommandError::Fixed(
                        "ERR The client ID you want redirect to does not exist",
                    ))?);
            }
            b"bcast" => is_broadcast = true,
            b"optin" => opt_in = true,
            b"optout" => opt_out = true,
            b"noloop" => options.no_loop = true,
            b"prefix" => prefixes.push(words.next().ok_or(CommandError::Syntax)?),
            _ => return Err(CommandError::Syntax),
        }
    }
    if !is_broadcast && !prefixes.is_empty() {
        return Err(CommandError::Fixed("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    let mode = match (is_broadcast, opt_in, opt_out) {
        (false, false, false) => Mode::Default,
        (true, false, false) => Mode::Broadcast,
        (true, ..) => {
            return Err(CommandError::Fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
        }
        (_, true, true) => {
            return Err(CommandError::Fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
        }
        (_, true, false) => Mode::OptIn,
        (_, false, true) => Mode::OptOut,
    };
    Ok(Request { mode, options, prefixes })
}

/// Whether a connection that may track already can track in this way.
fn check(before: Option<&Tracking>, request: &Request<'_>) -> Outcome {
    if let Some(before) = before {
        if (before.mode == Mode::Broadcast) != (request.mode == Mode::Broadcast) {
            return Err(CommandError::Fixed(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        if before.mode != request.mode && before.mode != Mode::Default && request.mode != Mode::Default {
            return Err(CommandError::Fixed(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
    }
    check_prefixes(before.map(|before| &before.prefixes), &request.prefixes)
}

/// Refuses prefixes that overlap. The error names the pair that Redis names, which compares each prefix with all known ones
/// and then with all that follow it.
fn check_prefixes(known: Option<&Prefixes>, prefixes: &[&[u8]]) -> Outcome {
    let first = first_overlapping(prefixes);
    for (index, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = known.and_then(|known| known.overlapping(prefix)) {
            return Err(overlap_error(prefix, "an existing", other));
        }
        if first == Some(index)
            && let Some(other) = prefixes[index + 1..].iter().find(|other| overlap(prefix, other))
        {
            return Err(overlap_error(prefix, "another provided", other));
        }
    }
    Ok(())
}

fn overlap_error(prefix: &[u8], kind: &str, other: &[u8]) -> CommandError {
    let [prefix, other] = [prefix, other].map(String::from_utf8_lossy);
    CommandError::Other(format!(
        "Prefix '{prefix}' overlaps with {kind} prefix '{other}'. Prefixes for a single client must not overlap."
    ))
}

pub(crate) fn caching(cx: &mut Context<'_>, value: &[u8]) -> Outcome {
    let Some(tracking) = cx.session.tracking_mut() else {
        return Err(CommandError::Fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ));
    };
    let (is_valid, caching) = match value.to_ascii_lowercase().as_slice() {
        b"yes" => (tracking.mode == Mode::OptIn, true),
        b"no" => (tracking.mode == Mode::OptOut, false),
        _ => return Err(CommandError::Syntax),
    };
    if !is_valid {
        return Err(CommandError::Fixed(match caching {
            true => "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            false => "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        }));
    }
    tracking.caching = Some(caching);
    cx.ok()
}

pub(crate) fn getredir(cx: &mut Context<'_>) -> Outcome {
    let redirect = redirect(cx.session.tracking());
    cx.integer(redirect)
}

/// -1 without tracking, 0 without redirection.
fn redirect(tracking: Option<&Tracking>) -> i64 {
    tracking.map_or(-1, |tracking| tracking.redirect().unwrap_or(0) as i64)
}

pub(crate) fn trackinginfo(cx: &mut Context<'_>) -> Outcome {
    let tracking = cx.session.tracking();
    let redirect = redirect(tracking);
    let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
    let mut prefixes = BTreeSet::new();
    if let Some(tracking) = tracking {
        let options = tracking.tracker.options();
        let caching = tracking.caching.map(|yes| if yes { "caching-yes" } else { "caching-no" });
        let mode = match tracking.mode {
            Mode::Default => None,
            Mode::OptIn => Some("optin"),
            Mode::OptOut => Some("optout"),
            Mode::Broadcast => Some("bcast"),
        };
        flags.extend(mode.into_iter().chain(caching));
        flags.extend(options.no_loop.then_some("noloop"));
        flags.extend(options.is_broken.then_some("broken_redirect"));
        prefixes.clone_from(&tracking.prefixes.names);
    }
    let mut reply = cx.reply();
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// As Redis does it.
    fn check_all_pairs(known: &Prefixes, prefixes: &[&[u8]]) -> Outcome {
        for (index, prefix) in prefixes.iter().enumerate() {
            if let Some(other) = known.names.iter().find(|known| overlap(known, prefix)) {
                return Err(overlap_error(prefix, "an existing", other));
            }
            if let Some(other) = prefixes[index + 1..].iter().find(|other| overlap(prefix, other)) {
                return Err(overlap_error(prefix, "another provided", other));
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn overlap_of_prefixes_is_that_of_all_pairs(
            before in vec("[ab]{1,3}", 0..4),
            has_all in any::<bool>(),
            given in vec("[ab]{0,4}", 0..6),
        ) {
            let mut known = Prefixes::default();
            for prefix in before {
                if known.overlapping(prefix.as_bytes()).is_none() {
                    known.insert(prefix.as_bytes());
                }
            }
            if has_all {
                known.insert(b"");
            }
            let prefixes: Vec<&[u8]> = given.iter().map(|prefix| prefix.as_bytes()).collect();
            let [checked, expected] = [check_prefixes(Some(&known), &prefixes), check_all_pairs(&known, &prefixes)]
                .map(|outcome| outcome.map_err(|error| error.to_string()));
            prop_assert_eq!(checked, expected);
        }
    }
}
