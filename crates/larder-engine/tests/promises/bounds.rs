//! `Send` and `Sync`: a cache and its types have them if keys and values are `Send`, and not otherwise.

use larder_engine::{Builder, Cache, Clock, Follower, Iter, Load, Ticket};
use std::cell::Cell;

fn send<T: Send>() {}
fn sync<T: Sync>() {}

/// `Send`, and not `Sync`.
type Movable = Cell<u32>;

#[test]
fn cache_of_send_values_is_send_and_sync() {
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

/// Detects a missing trait: the compiler picks one of two functions of the same name, by whether the bound holds.
#[test]
fn cache_of_non_send_values_is_neither() {
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

/// The traits alone prove nothing about the machine: one thread inserts values, another changes them, a third drops them.
#[test]
fn send_values_move_between_threads() {
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
