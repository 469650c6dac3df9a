//! Random responses, decided by this cache and by the crate `http-cache-semantics`, which decides by the older RFC 7234. Every
//! difference is one of a list. `LARDER_SOAK` compares a million.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_cache_semantics::{CacheOptions, CachePolicy};

use crate::fuzz::{ITERATIONS, pick};
use crate::rfc::freshness::Received;
use crate::rfc::storing::{self, Asked, Operator, Terms};
use crate::status::Reason;

/// When each response is received, in time since 1970.
const NOW: Duration = Duration::from_secs(1_577_926_800);

const STATUSES: &[u16] = &[200, 200, 200, 200, 204, 301, 302, 302, 404, 501, 503, 201, 206, 403];
const MEMBERS: &[&str] = &[
    "max-age=60",
    "max-age=0",
    "max-age=\"30\"",
    "max-age",
    "max-age=x",
    "max-age=99999999999",
    "Max-Age=45",
    "s-maxage=90",
    "s-maxage=0",
    "s-maxage",
    "no-store",
    "No-Store",
    "no-cache",
    "no-cache=\"x-a\"",
    "private",
    "private=\"x-a\"",
    "public",
    "public",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
    "stale-while-revalidate=30",
    "ext=\"a, no-store, b\"",
    "foo",
];
const AGES: &[&str] = &["", "", "", "20", "100", "50, 0", "x"];
/// Seconds after the receipt, or a text.
const EXPIRES: &[&str] = &["", "", "", "+50", "+20", "-50", "0", "+50 UT", "+50 asctime"];
const DATES: &[&str] = &["", "", "+0", "+0", "-30", "+30", "x"];
const MODIFIED: &[&str] = &["", "", "-500", "-90000", "+100", "x"];

/// Whether a field is present.
const PRESENT: &[bool] = &[false, false, false, true];

/// The choices of the tables, the fields that are present or absent, and the members of `Cache-Control`.
type Choices = ([u8; 5], [u8; 5], (u8, [u8; 4]));

struct Case {
    status: StatusCode,
    request: HeaderMap,
    response: HeaderMap,
    members: Vec<&'static str>,
    expires: &'static str,
    date: &'static str,
    modified: &'static str,
    age: &'static str,
    ours: Result<Terms, Reason>,
    /// How long the peer serves it; `None` if it does not store it.
    theirs: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq)]
enum Difference {
    OnlyWeStore,
    OnlyTheyStore,
    /// Both store it, and serve it for different times.
    Remaining,
}

/// Why we differ, and which cases that explains.
type Exception = (&'static str, Difference, fn(&Case) -> bool);

const EXCEPTIONS: &[Exception] = &[
    ("they know few statuses, and RFC 9111 any with explicit freshness", Difference::OnlyWeStore, |case| {
        matches!(case.status.as_u16(), 201 | 403 | 503)
    }),
    ("they do not know must-understand", Difference::OnlyWeStore, |case| {
        case.has("must-understand") && case.has("no-store")
    }),
    ("they take a qualified private for the plain one", Difference::OnlyWeStore, |case| {
        case.has("private=\"x-a\"")
    }),
    ("they find directives in quotes", Difference::OnlyWeStore, |case| case.has("ext=\"a, no-store, b\"")),
    ("their names are case-sensitive", Difference::OnlyWeStore, |case| {
        case.status == 302 && case.has("Max-Age=45")
    }),
    ("we store nothing that nobody can be served", Difference::OnlyTheyStore, |case| {
        let is_useless = matches!(case.ours, Err(Reason::NoCache | Reason::ZeroTtl | Reason::NoFreshness));
        is_useless
            && !case.has_validator()
            && (case.theirs == Some(Duration::ZERO) || case.is_explained(Difference::Remaining))
    }),
    ("we need public for Set-Cookie", Difference::OnlyTheyStore, |case| case.ours == Err(Reason::SetCookie)),
    ("we need freshness for a request with Cookie", Difference::OnlyTheyStore, |case| {
        case.ours == Err(Reason::Cookie)
    }),
    ("we store no 5xx for its validator", Difference::OnlyTheyStore, |case| {
        case.ours == Err(Reason::Status)
            && case.status.is_server_error()
            && case.theirs == Some(Duration::ZERO)
    }),
    ("their names are case-sensitive", Difference::OnlyTheyStore, |case| {
        case.ours == Err(Reason::NoStore) && case.has("No-Store")
    }),
    (
        "a conflict is must-revalidate to them, which permits Authorization",
        Difference::OnlyTheyStore,
        |case| case.ours == Err(Reason::Authorization) && case.has_conflict(),
    ),
    ("they serve nothing with proxy-revalidate", Difference::Remaining, |case| case.has("proxy-revalidate")),
    ("they serve no Set-Cookie without public", Difference::Remaining, |case| {
        case.response.contains_key("set-cookie")
    }),
    ("they take a qualified no-cache for the plain one", Difference::Remaining, |case| {
        case.has("no-cache=\"x-a\"")
    }),
    ("they obey Pragma in a response", Difference::Remaining, |case| case.response.contains_key("pragma")),
    ("their names are case-sensitive", Difference::Remaining, |case| case.has("Max-Age=45")),
    ("they use the first of several values", Difference::Remaining, Case::has_conflict),
    ("a directive without its number is none to them", Difference::Remaining, |case| {
        case.has("max-age") || case.has("s-maxage")
    }),
    ("we limit numbers as RFC 9111 says", Difference::Remaining, |case| case.has("max-age=99999999999")),
    ("they ignore the apparent age", Difference::Remaining, |case| case.date == "-30"),
    ("they ignore an Age that is a list", Difference::Remaining, |case| case.age == "50, 0"),
    ("they accept the zones of mail", Difference::Remaining, |case| case.expires == "+50 UT"),
    ("they accept one form of date", Difference::Remaining, |case| case.expires == "+50 asctime"),
    ("we limit heuristic lifetimes to an hour", Difference::Remaining, |case| {
        case.modified == "-90000" && case.ours.as_ref().is_ok_and(|terms| terms.is_heuristic)
    }),
];

impl Case {
    fn new((choices, present, (count, members)): &Choices) -> Case {
        let [status, age, expires, date, modified] = *choices;
        let members = members.iter().take(usize::from(*count % 5)).map(|choice| pick(MEMBERS, *choice));
        let mut case = Case {
            status: StatusCode::from_u16(pick(STATUSES, status)).unwrap(),
            request: HeaderMap::new(),
            response: HeaderMap::new(),
            members: members.collect(),
            expires: pick(EXPIRES, expires),
            date: pick(DATES, date),
            modified: pick(MODIFIED, modified),
            age: pick(AGES, age),
            ours: Err(Reason::Status),
            theirs: None,
        };
        let [authorization, cookie, set_cookie, etag, pragma] = present.map(|choice| pick(PRESENT, choice));
        for (name, value, is_present) in [("authorization", "x", authorization), ("cookie", "a=b", cookie)] {
            if is_present {
                case.request.insert(name, HeaderValue::from_static(value));
            }
        }
        for (name, value) in [
            ("cache-control", case.members.join(", ")),
            ("age", case.age.to_owned()),
            ("expires", date_text(case.expires)),
            ("date", date_text(case.date)),
            ("last-modified", date_text(case.modified)),
            ("set-cookie", if set_cookie { "a=b" } else { "" }.to_owned()),
            ("etag", if etag { "\"a\"" } else { "" }.to_owned()),
            ("pragma", if pragma { "no-cache" } else { "" }.to_owned()),
        ] {
            if !value.is_empty() {
                case.response.insert(HeaderName::from_static(name), HeaderValue::try_from(value).unwrap());
            }
        }
        let received = Received { at: UNIX_EPOCH + NOW, delay: Duration::ZERO };
        let asked = Asked::of(&case.request);
        case.ours = storing::terms(Operator::default(), asked, case.status, &case.response, received);
        case.theirs = theirs(&case, received.at);
        case
    }

    /// How long we serve it.
    fn our_remaining(terms: &Terms) -> Duration {
        if terms.must_validate { Duration::ZERO } else { terms.lifetime.saturating_sub(terms.age) }
    }

    fn difference(&self) -> Option<Difference> {
        match (&self.ours, self.theirs) {
            (Ok(_), None) => Some(Difference::OnlyWeStore),
            (Err(_), Some(_)) => Some(Difference::OnlyTheyStore),
            (Ok(terms), Some(theirs)) if Case::our_remaining(terms).as_secs() != theirs.as_secs() => {
                Some(Difference::Remaining)
            }
            _ => None,
        }
    }

    fn explanations(&self, difference: Difference) -> impl Iterator<Item = usize> {
        EXCEPTIONS
            .iter()
            .enumerate()
            .filter(move |(_, (_, kind, explains))| *kind == difference && explains(self))
            .map(|(index, _)| index)
    }

    fn is_explained(&self, difference: Difference) -> bool {
        self.explanations(difference).next().is_some()
    }

    fn has(&self, member: &str) -> bool {
        self.members.contains(&member)
    }

    /// Whether a directive has several values to the peer, for which a value with quotes differs from itself.
    fn has_conflict(&self) -> bool {
        let name = |member: &'static str| member.split('=').next();
        self.members.iter().enumerate().any(|(index, one)| {
            let mut others = self.members[index + 1..].iter().filter(|other| name(other) == name(one));
            others.any(|other| other != one || one.contains('"'))
        })
    }

    fn has_validator(&self) -> bool {
        self.response.contains_key("etag") || matches!(self.modified, "-500" | "-90000" | "+100")
    }
}

fn theirs(case: &Case, now: SystemTime) -> Option<Duration> {
    let mut request = Request::new(());
    *request.headers_mut() = case.request.clone();
    let mut response = Response::new(());
    *response.status_mut() = case.status;
    *response.headers_mut() = case.response.clone();
    let options = CacheOptions { immutable_min_time_to_live: Duration::ZERO, ..CacheOptions::default() };
    let policy = CachePolicy::new_options(&request, &response, now, options);
    policy.is_storable().then(|| policy.time_to_live(now))
}

/// The date so many seconds after the receipt, in a form; or the text itself.
fn date_text(text: &str) -> String {
    let (seconds, form) = text.split_once(' ').unwrap_or((text, ""));
    let Some(seconds) = seconds.strip_prefix(['+', '-']).and_then(|digits| digits.parse().ok()) else {
        return text.to_owned();
    };
    let offset = Duration::from_secs(seconds);
    let moment = UNIX_EPOCH + if text.starts_with('-') { NOW - offset } else { NOW + offset };
    let date = httpdate::fmt_http_date(moment);
    match form {
        "UT" => date.replace("GMT", "UT"),
        "asctime" => {
            let parts: Vec<&str> = date.split([' ', ',']).collect();
            let [day_name, _, day, month, year, time, _] = parts[..] else { unreachable!("{date}") };
            format!("{day_name} {month} {:>2} {time} {year}", day.trim_start_matches('0'))
        }
        _ => date,
    }
}

#[test]
fn decisions_differ_from_those_of_the_peer_as_listed() {
    let iterations = if std::env::var_os("LARDER_SOAK").is_some() { 1_000_000 } else { ITERATIONS };
    let used = Mutex::new(HashSet::new());
    bolero::check!().with_type::<Choices>().with_iterations(iterations).for_each(|choices| {
        let case = Case::new(choices);
        let Some(difference) = case.difference() else { return };
        let explanations: Vec<usize> = case.explanations(difference).collect();
        assert!(
            !explanations.is_empty(),
            "{} {:?} {:?}: we {:?}, they {:?}",
            case.status,
            case.request,
            case.response,
            case.ours,
            case.theirs,
        );
        // One that is never the only explanation would hide others.
        if let [only] = explanations[..] {
            used.lock().unwrap().insert(only);
        }
    });
    let used = used.into_inner().unwrap();
    let unused = EXCEPTIONS.iter().enumerate().filter(|(index, _)| !used.contains(index));
    assert_eq!(unused.map(|(_, (why, ..))| *why).collect::<Vec<_>>(), Vec::<&str>::new());
}
