//! A fixed pool of places, claimed and given back without a lock.
//!
//! A sleeper's learning state is some 17 KB: too much for thread-local storage (threads may have stacks of 16 KB) and
//! `malloc` may not be called within a hook. So there is a static pool; its pages cost nothing until a thread sleeps.
//! A place is free, held by a thread, or in use by it for the moment. Where no place is free the sleep is the kernel's.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, needs_drop};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

const FREE: u8 = 0;
const HELD: u8 = 1;
const IN_USE: u8 = 2;

/// `N` places for a `T`.
pub(crate) struct Pool<T, const N: usize> {
    states: [AtomicU8; N],
    places: [UnsafeCell<MaybeUninit<T>>; N],
    next: AtomicUsize,
}

// SAFETY: a place is touched only by whoever moved its state to IN_USE, which one thread at a time can.
unsafe impl<T: Send, const N: usize> Sync for Pool<T, N> {}

impl<T, const N: usize> Pool<T, N> {
    /// A pool of free places.
    pub(crate) const fn new() -> Self {
        // Only then may a value be made by copying its bytes, and dropped by forgetting it.
        const { assert!(!needs_drop::<T>(), "the pool is for plain values without heap or handles") };
        Self {
            states: [const { AtomicU8::new(FREE) }; N],
            places: [const { UnsafeCell::new(MaybeUninit::uninit()) }; N],
            next: AtomicUsize::new(0),
        }
    }

    /// Takes a free place and makes it a copy of `prototype`; `None` where all are taken.
    pub(crate) fn claim(&self, prototype: &T) -> Option<usize> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let place = (0..N).map(|step| (first.wrapping_add(step)) % N).find(|at| self.shift(*at, FREE, IN_USE))?;
        let to = self.places[place].get().cast::<T>();
        // SAFETY: this thread alone moved the place to IN_USE; source and target do not overlap, for the prototype
        // stands outside. A second copy of the bytes is a value of its own, since T has nothing to drop.
        unsafe { core::ptr::copy_nonoverlapping(prototype, to, 1) };
        self.states[place].store(HELD, Ordering::Release);
        Some(place)
    }

    /// Calls `work` on a held place; `None` where it is in use: by a sleep that a signal handler interrupted, or left
    /// by `longjmp`.
    pub(crate) fn with<R>(&self, place: usize, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.shift(place, HELD, IN_USE) {
            return None;
        }
        let value = self.places[place].get().cast::<T>();
        // SAFETY: this thread alone moved the place to IN_USE, and `claim` has filled it before it could be held.
        let answer = work(unsafe { &mut *value });
        self.states[place].store(HELD, Ordering::Release);
        Some(answer)
    }

    /// Gives a place back, whatever its state.
    ///
    /// # Safety
    /// Whoever holds the place must never touch it again: its thread has ended, or has given it up.
    pub(crate) unsafe fn give_back(&self, place: usize) {
        self.states[place].store(FREE, Ordering::Release);
    }

    /// Gives back every place but one.
    ///
    /// # Safety
    /// As [`Pool::give_back`], for all the others: the process has just been forked and this is its only thread.
    pub(crate) unsafe fn give_back_all_but(&self, kept: Option<usize>) {
        for (place, state) in self.states.iter().enumerate() {
            if Some(place) != kept {
                state.store(FREE, Ordering::Release);
            }
        }
    }

    fn shift(&self, place: usize, from: u8, to: u8) -> bool {
        self.states[place].compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_out_once_and_run_out() {
        let pool = Pool::<u64, 3>::new();
        let mut places: Vec<_> = (0..3).map(|at| pool.claim(&(100 + at)).expect("a free place")).collect();
        assert_eq!(pool.claim(&0), None);
        assert_eq!(pool.with(places[1], |value| *value), Some(101));
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2]);
        // SAFETY: nobody uses the place.
        unsafe { pool.give_back(1) };
        assert_eq!(pool.claim(&7), Some(1));
        assert_eq!(pool.with(1, |value| *value), Some(7));
    }

    #[test]
    fn a_place_in_use_is_not_entered_again() {
        let pool = Pool::<u64, 1>::new();
        let place = pool.claim(&5).expect("a free place");
        let inner = pool.with(place, |value| {
            *value += 1;
            pool.with(place, |value| *value)
        });
        assert_eq!(inner, Some(None));
        assert_eq!(pool.with(place, |value| *value), Some(6));
    }

    #[test]
    fn a_fork_keeps_only_the_place_of_its_thread() {
        let pool = Pool::<u64, 4>::new();
        let places: Vec<_> = (0..4).map(|at| pool.claim(&at).expect("a free place")).collect();
        // SAFETY: nobody uses the others.
        unsafe { pool.give_back_all_but(Some(places[2])) };
        assert_eq!(pool.with(places[2], |value| *value), Some(2));
        assert_eq!(pool.with(places[0], |value| *value), None);
        assert_eq!((0..4).filter_map(|_| pool.claim(&9)).count(), 3);
    }

    #[test]
    fn many_threads_never_share_a_place() {
        static POOL: Pool<u64, 5> = Pool::new();
        // Interpreted, each takes a thousand times longer.
        const ROUNDS: u32 = if cfg!(miri) { 60 } else { 20_000 };
        let threads: Vec<_> = (0..16_u64)
            .map(|thread| {
                std::thread::spawn(move || {
                    let mut used = 0_u32;
                    for _ in 0..ROUNDS {
                        let Some(place) = POOL.claim(&thread) else { continue };
                        used += 1;
                        let seen = POOL.with(place, |value| {
                            let seen = *value;
                            *value = u64::MAX;
                            seen
                        });
                        assert_eq!(seen, Some(thread));
                        // SAFETY: this thread held it and goes on without it.
                        unsafe { POOL.give_back(place) };
                    }
                    used
                })
            })
            .collect();
        let used: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no place was shared")).collect();
        assert!(used.iter().any(|count| *count > 0));
    }
}
