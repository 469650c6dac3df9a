//! What may cross threads: a cache and all that belongs to it if keys and values are `Send`, and nothing otherwise.

use larder_engine::{Builder, Cache, Clock, Follower, Iter, Load, Ticket};
use std::cell::Cell;

fn send<T: Send>() {}
fn sync<T: Sync>() {}

/// `Send`, and not `Sync`.
type Movable = Cell<u32>;

#[test]
fn values_that_can_be_moved_make_a_cache_that_can_be_shared() {
    send::<Cache<u32, Movable>>();
    sync::<Cache<u32, Movable>>();
    send::<Ticket<u32, Movable>>();
    send::<Follower<u32, Movable>>();
    send::<Load<u32, Movable>>();
    send::<Iter<'static, u32, Movable>>();
    send::<Builder<u32, Movable>>();
    send::<Clock>();
    sync::<Clock>();
}

/// What is not, is not: each answers by which of two functions of the same name the compiler finds first.
#[test]
fn values_that_cannot_be_moved_keep_their_cache_where_it_is() {
    trait Otherwise {
        const SENDS: bool = false;
    }
    impl<T> Otherwise for T {}
    struct Asked<T>(std::marker::PhantomData<T>);
    impl<T: Send> Asked<T> {
        const SENDS: bool = true;
    }
    type Immovable = std::rc::Rc<u32>;
    const { assert!(Asked::<Cache<u32, Movable>>::SENDS, "the question works") };
    const { assert!(!Asked::<Cache<u32, Immovable>>::SENDS) };
    const { assert!(!Asked::<Cache<Immovable, u32>>::SENDS) };
    const { assert!(!Asked::<&Cache<u32, Immovable>>::SENDS, "a shared reference is sent if the cache is Sync") };
    const { assert!(!Asked::<Ticket<u32, Immovable>>::SENDS) };
    const { assert!(!Asked::<Follower<u32, Immovable>>::SENDS) };
}

/// `Send` by itself is not enough for the machine to agree: values are moved in by one thread, changed by another, and
/// dropped by a third.
#[test]
fn what_can_be_moved_is_moved() {
    let cache: Cache<u32, Movable> = Cache::builder().entries(64).build().expect("valid options");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..1_000 {
                    cache.get_with(&(n % 100), |value| value.set(value.get() + 1));
                    cache.insert(n % 100, Cell::new(0));
                }
            });
        }
    });
    let clone = cache.clone();
    drop(cache);
    std::thread::spawn(move || drop(clone)).join().expect("no panic");
}
