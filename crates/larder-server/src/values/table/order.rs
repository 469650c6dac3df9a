//! An order of members or fields: a B+-tree of handles in which each node has the number of handles below it, so that
//! ranks are found in O(log n) (Donald Comer, "The Ubiquitous B-Tree", ACM Computing Surveys 11(2), 1979).
//!
//! The tree does not know what it orders: callers pass the comparison. A node stores the first handle of each child; it
//! is the separator.

use std::ops::Range;

use super::slots::Handle;

/// The most handles in a leaf: 256 bytes.
const LEAF: usize = 64;
/// The most children of an inner node.
const CHILDREN: usize = 32;

#[derive(Debug)]
pub(in crate::values) struct Order {
    root: Node,
    len: usize,
    /// The memory of all nodes.
    bytes: usize,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Handle>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    node: Node,
    /// The number of handles below it.
    len: u32,
    first: Handle,
}

impl Order {
    pub(in crate::values) fn new() -> Self {
        Order { root: Node::Leaf(Vec::new()), len: 0, bytes: 0 }
    }

    pub(in crate::values) fn len(&self) -> usize {
        self.len
    }

    /// The memory that was allocated.
    pub(in crate::values) fn bytes_allocated(&self) -> usize {
        self.bytes
    }

    /// The number of handles that satisfy `precedes`, which are the first ones.
    pub(in crate::values) fn rank(&self, precedes: impl Fn(Handle) -> bool) -> usize {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(handles) => return rank + handles.partition_point(|handle| precedes(*handle)),
                Node::Inner(children) => {
                    let at = child_for(children, &precedes);
                    rank += len_of(&children[..at]);
                    node = &children[at].node;
                }
            }
        }
    }

    /// The handle of this rank.
    ///
    /// # Panics
    /// If there are not more handles.
    pub(in crate::values) fn get(&self, rank: usize) -> Handle {
        let (leaf, at) = self.leaf_at(rank);
        leaf[at]
    }

    /// Calls `f` with the handles of these ranks, the last one first if `reversed`, as long as it returns true.
    ///
    /// # Panics
    /// If there are not as many handles.
    pub(in crate::values) fn visit(
        &self,
        ranks: Range<usize>,
        reversed: bool,
        mut f: impl FnMut(Handle) -> bool,
    ) {
        let Range { mut start, mut end } = ranks;
        while start < end {
            let goes_on = if reversed {
                let (leaf, last) = self.leaf_at(end - 1);
                let visited = &leaf[(last + 1).saturating_sub(end - start)..=last];
                end -= visited.len();
                visited.iter().rev().all(|handle| f(*handle))
            } else {
                let (leaf, first) = self.leaf_at(start);
                let visited = &leaf[first..leaf.len().min(first + end - start)];
                start += visited.len();
                visited.iter().all(|handle| f(*handle))
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Adds a handle behind those that satisfy `precedes`.
    pub(in crate::values) fn insert(&mut self, handle: Handle, precedes: impl Fn(Handle) -> bool) {
        if let Some(right) = self.root.insert(handle, &precedes, &mut self.bytes) {
            let left = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            let children = vec![Child::new(left), Child::new(right)];
            self.bytes += allocated(&children);
            self.root = Node::Inner(children);
        }
        self.len += 1;
    }

    /// Removes the handle of this rank.
    ///
    /// # Panics
    /// If there are not more handles.
    pub(in crate::values) fn remove(&mut self, rank: usize) -> Handle {
        let handle = self.root.remove(rank, &mut self.bytes);
        self.len -= 1;
        while let Node::Inner(children) = &mut self.root
            && children.len() == 1
            && let Some(only) = children.pop()
        {
            self.bytes -= allocated(children);
            self.root = only.node;
        }
        handle
    }

    /// The leaf with the handle of this rank, and the handle's index there.
    fn leaf_at(&self, mut rank: usize) -> (&[Handle], usize) {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(handles) => return (handles, rank),
                Node::Inner(children) => node = &children[child_at(children, &mut rank)].node,
            }
        }
    }
}

impl Clone for Order {
    fn clone(&self) -> Self {
        let root = self.root.clone();
        // A clone has no spare memory.
        Order { bytes: root.total_bytes(), root, len: self.len }
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(handles) => handles.len(),
            Node::Inner(children) => len_of(children),
        }
    }

    fn first(&self) -> Handle {
        match self {
            Node::Leaf(handles) => handles[0],
            Node::Inner(children) => children[0].first,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Node::Leaf(handles) => allocated(handles),
            Node::Inner(children) => allocated(children),
        }
    }

    /// The memory of this node and all below it.
    fn total_bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => self.bytes(),
            Node::Inner(children) => {
                self.bytes() + children.iter().map(|child| child.node.total_bytes()).sum::<usize>()
            }
        }
    }

    /// Adds a handle. If the node was full, it is split: returns its right part.
    fn insert(
        &mut self,
        handle: Handle,
        precedes: &impl Fn(Handle) -> bool,
        bytes: &mut usize,
    ) -> Option<Node> {
        match self {
            Node::Leaf(handles) => {
                let at = handles.partition_point(|handle| precedes(*handle));
                insert_or_split(handles, at, handle, LEAF, bytes).map(Node::Leaf)
            }
            Node::Inner(children) => {
                let at = child_for(children, precedes);
                let split = children[at].node.insert(handle, precedes, bytes);
                children[at].update();
                insert_or_split(children, at + 1, Child::new(split?), CHILDREN, bytes).map(Node::Inner)
            }
        }
    }

    fn remove(&mut self, mut rank: usize, bytes: &mut usize) -> Handle {
        match self {
            Node::Leaf(handles) => handles.remove(rank),
            Node::Inner(children) => {
                let at = child_at(children, &mut rank);
                let handle = children[at].node.remove(rank, bytes);
                if children[at].len == 1 {
                    *bytes -= children.remove(at).node.bytes();
                } else {
                    children[at].update();
                    merge_with_next(children, at, bytes);
                    merge_with_next(children, at.wrapping_sub(1), bytes);
                }
                handle
            }
        }
    }

    /// Appends the content of the next node, if both together fill at most half of one.
    fn absorb(&mut self, next: &mut Node, bytes: &mut usize) -> bool {
        match (self, next) {
            (Node::Leaf(handles), Node::Leaf(more)) => append_if_few(handles, more, LEAF / 2, bytes),
            (Node::Inner(children), Node::Inner(more)) => append_if_few(children, more, CHILDREN / 2, bytes),
            _ => false,
        }
    }
}

impl Child {
    fn new(node: Node) -> Self {
        Child { len: node.len() as u32, first: node.first(), node }
    }

    fn update(&mut self) {
        (self.len, self.first) = (self.node.len() as u32, self.node.first());
    }
}

/// The last child that begins with a handle which satisfies `precedes`, or the first child.
fn child_for(children: &[Child], precedes: &impl Fn(Handle) -> bool) -> usize {
    children.partition_point(|child| precedes(child.first)).saturating_sub(1)
}

/// The child with the handle of this rank, which becomes the rank there.
fn child_at(children: &[Child], rank: &mut usize) -> usize {
    let mut at = 0;
    while *rank >= children[at].len as usize {
        *rank -= children[at].len as usize;
        at += 1;
    }
    at
}

fn len_of(children: &[Child]) -> usize {
    children.iter().map(|child| child.len as usize).sum()
}

fn merge_with_next(children: &mut Vec<Child>, at: usize, bytes: &mut usize) {
    let Some([child, next]) = children.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else { return };
    if child.node.absorb(&mut next.node, bytes) {
        child.update();
        *bytes -= children.remove(at + 1).node.bytes();
    }
}

/// Inserts an item. If there are `most` already, the right half, in which the item may be, is returned. Behind the last
/// item only the new one is: members that are added in order fill their nodes.
fn insert_or_split<T>(
    items: &mut Vec<T>,
    at: usize,
    item: T,
    most: usize,
    bytes: &mut usize,
) -> Option<Vec<T>> {
    let before = allocated(items);
    if items.len() < most {
        items.insert(at, item);
        *bytes += allocated(items) - before;
        return None;
    }
    let middle = if at == most { most } else { most / 2 };
    let mut right = items.split_off(middle);
    if at < middle {
        items.insert(at, item)
    } else {
        right.insert(at - middle, item)
    }
    *bytes += allocated(&right) + allocated(items) - before;
    Some(right)
}

fn append_if_few<T>(items: &mut Vec<T>, more: &mut Vec<T>, most: usize, bytes: &mut usize) -> bool {
    let is_few = items.len() + more.len() <= most;
    if is_few {
        let before = allocated(items);
        items.append(more);
        *bytes += allocated(items) - before;
    }
    is_few
}

fn allocated<T>(items: &Vec<T>) -> usize {
    items.capacity() * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_children(node: &Node) {
        if let Node::Inner(children) = node {
            assert!((1..=CHILDREN).contains(&children.len()));
            for child in children {
                assert_eq!((child.len as usize, child.first), (child.node.len(), child.node.first()));
                check_children(&child.node);
            }
        }
    }

    /// Handles that are ordered by their value.
    fn check(order: &Order, model: &[Handle]) {
        assert_eq!((order.len(), order.root.len()), (model.len(), model.len()));
        check_children(&order.root);
        assert_eq!(order.bytes, order.root.total_bytes());
        for reversed in [false, true] {
            let mut found = Vec::new();
            order.visit(0..order.len(), reversed, |handle| {
                found.push(handle);
                true
            });
            if reversed {
                found.reverse();
            }
            assert_eq!(found, model);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn order_matches_a_sorted_vector(
            rounds in proptest::collection::vec((any::<bool>(), 0u32..5_000, 1usize..600, 1u32..9), 1..30),
        ) {
            let (mut order, mut model) = (Order::new(), Vec::<Handle>::new());
            for (inserts, start, count, step) in rounds {
                for number in 0..count as u32 {
                    let value = (start + number * step) % 5_000;
                    let rank = order.rank(|handle| handle < value);
                    let found = model.binary_search(&value);
                    prop_assert_eq!(rank, found.unwrap_or_else(|at| at));
                    match found {
                        Err(at) if inserts => {
                            order.insert(value, |handle| handle < value);
                            model.insert(at, value);
                        }
                        Ok(at) if !inserts => {
                            prop_assert_eq!(order.get(rank), value);
                            prop_assert_eq!(order.remove(rank), value);
                            model.remove(at);
                        }
                        _ => {}
                    }
                }
                check(&order, &model);
            }
            while !model.is_empty() {
                model.remove(model.len() / 2);
                order.remove(order.len() / 2);
            }
            check(&order, &model);
            prop_assert!(matches!(&order.root, Node::Leaf(_)), "the tree shrinks");
        }
    }

    #[test]
    fn visit_stops_at_both_ends_and_when_told() {
        let mut order = Order::new();
        (0..1_000).for_each(|value| order.insert(value, |handle| handle < value));
        for (ranks, reversed, most) in
            [(0..0, false, 9), (63..65, false, 9), (63..65, true, 9), (10..900, true, 100)]
        {
            let mut found = Vec::new();
            order.visit(ranks.clone(), reversed, |handle| {
                found.push(handle);
                found.len() < most
            });
            let mut expected: Vec<u32> = ranks.map(|rank| rank as u32).collect();
            if reversed {
                expected.reverse();
            }
            expected.truncate(most);
            assert_eq!(found, expected);
        }
        // Handles that were added in order fill their leaves.
        assert!(order.bytes <= 1_000 * 4 + 64 * 4 + 32 * 32, "{} bytes", order.bytes);
    }
}
