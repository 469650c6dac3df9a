//! A key is deleted on one node while the other loads it: at each step of the load, with the announcement in time, late or
//! lost, and with each answer given or lost.

use crate::mutation::Mutation;
use crate::{Fixture, Origin, is_step_reply, is_step_request, settled};
use larder_testkit::{Gate, Hold, RedisServer};

/// How far the load of the far node has come when the near node deletes the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its look is on its way.
    Look,
    /// It has its lease, and does not know it.
    Leased,
    /// Its loader has read the origin.
    Loading,
    /// Its commit is on its way.
    Commit,
    /// Its commit was accepted, and it does not know it.
    Committed,
}

/// What becomes of the announcement of the deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Push {
    BeforeTheReply,
    AfterTheFetch,
    Lost,
}

/// What becomes of what was held at the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Holds,
    Breaks,
}

#[tokio::test]
async fn delete_at_any_step_of_load_is_known_in_time() {
    let Some(server) = RedisServer::start() else { return };
    let steps = [Step::Look, Step::Leased, Step::Loading, Step::Commit, Step::Committed];
    let mut orders = Vec::new();
    for step in steps {
        for push in [Push::BeforeTheReply, Push::AfterTheFetch, Push::Lost] {
            for line in [Line::Holds, Line::Breaks] {
                // Nothing is held while the loader runs.
                if step != Step::Loading || line == Line::Holds {
                    orders.push(play(&server, step, push, line));
                }
            }
        }
    }
    assert_eq!(orders.len(), 27);
    // All at once: they have nothing in common but the server, and spend their time waiting.
    let mut orders: Vec<_> = orders.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        orders.retain_mut(|order| order.as_mut().poll(context).is_pending());
        if orders.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn play(server: &RedisServer, step: Step, push: Push, line: Line) {
    let what = format!("{step:?}, push {push:?}, line {line:?}");
    let key = format!("{step:?}-{push:?}-{line:?}");
    let fixture = Fixture::new(server, false).await;
    let (origin, gate) = (Origin::new(), Gate::closed());
    let name = key.clone();
    let pushes = fixture.proxy.hold(move |frame| frame.is_push(&name));
    let at_look = fixture.hold(step, Step::Look, Step::Leased, &key);

    let (far, loads, passes, name) = (fixture.far.clone(), origin.clone(), gate.clone(), key.clone());
    let fetching = tokio::spawn(async move {
        let loader = move |_| async move {
            let version = loads.read();
            passes.pass().await;
            Ok(version)
        };
        far.fetch(&name).load(loader).await.map(|value| *value)
    });

    let held = match at_look {
        Some(held) => held,
        None => {
            gate.arrival().await;
            let at_commit = fixture.hold(step, Step::Commit, Step::Committed, &key);
            if step != Step::Loading {
                gate.open(1);
            }
            at_commit.unwrap_or_else(|| fixture.proxy.hold(|_| false))
        }
    };
    if step != Step::Loading {
        held.arrival().await;
    }

    origin.change();
    fixture.near.delete(&key).await.everywhere();
    let floor = origin.read();
    assert!(
        fixture.near.read(&key).await.is_none_or(|version| *version >= floor),
        "{what}: where it was deleted"
    );

    let pushed = pushes.arrival().await;
    assert!(pushed.contains(&key), "{what}: announced");
    match push {
        Push::BeforeTheReply => pushes.release_one(),
        Push::Lost => pushes.lose_one(),
        Push::AfterTheFetch => {}
    }
    if step != Step::Loading {
        match line {
            Line::Holds => held.release_one(),
            Line::Breaks => held.lose_one(),
        }
    }
    drop(held);
    // One for this load, one for a loader that is asked again.
    gate.open(2);
    let fetched = fetching.await.expect("no panic").expect("a fetch has a value whatever happens to Redis");
    assert!(fetched == 1 || fetched == floor, "{what}: {fetched}");
    drop(pushes);
    settled(server, &fixture, &key, floor, &what).await;

    let (loads, name) = (origin.clone(), key.clone());
    let again =
        fixture.far.fetch(&name).load(move |_| async move { Ok(loads.read()) }).await.expect("a value");
    assert_eq!(*again, floor, "{what}: loads anew");
}

impl Fixture {
    /// Holds the request, or the reply, of the next step that is about the key, if the play is at that step.
    fn hold(&self, step: Step, at_request: Step, at_reply: Step, key: &str) -> Option<Hold> {
        let key = key.to_owned();
        if step == at_request {
            Some(self.proxy.hold(move |frame| is_step_request(frame, &key)))
        } else if step == at_reply {
            Some(self.proxy.hold(move |frame| is_step_reply(frame, &key)))
        } else {
            None
        }
    }
}
