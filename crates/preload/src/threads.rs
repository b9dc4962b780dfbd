//! What a thread keeps: POSIX thread-specific values, of which glibc holds the first 32 in the thread's own descriptor.
//!
//! Reading and writing those allocates nothing, and a destructor runs when the thread ends, by whatever way.
//! Compiler-made thread-local storage would not do: in a shared library its first use in a thread may call `malloc`.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

/// Values of keys below this stand in the thread's descriptor (glibc, PTHREAD_KEY_2NDLEVEL_SIZE).
const IN_PLACE: u32 = 32;
const NONE: u32 = u32::MAX;

/// A word that each thread has its own of, 0 at first.
pub(crate) struct PerThread(AtomicU32);

impl PerThread {
    /// A word that is always 0 until [`PerThread::create`].
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// Creates it. `ended` is called at the end of a thread whose word is not 0, with the word. False where no key in
    /// the descriptor is left.
    pub(crate) fn create(&self, ended: Option<unsafe extern "C" fn(*mut c_void)>) -> bool {
        let mut key = 0;
        // SAFETY: the address is live; the destructor is a function of this library, which is never unloaded.
        if unsafe { libc::pthread_key_create(&raw mut key, ended) } != 0 {
            return false;
        }
        if key >= IN_PLACE {
            // SAFETY: the key was created above and no thread has set it.
            unsafe { libc::pthread_key_delete(key) };
            return false;
        }
        self.0.store(key, Ordering::Release);
        true
    }

    /// This thread's word.
    #[inline]
    pub(crate) fn get(&self) -> usize {
        match self.0.load(Ordering::Acquire) {
            NONE => 0,
            // SAFETY: the key was created and is never deleted.
            key => unsafe { libc::pthread_getspecific(key) as usize },
        }
    }

    /// Sets this thread's word; false where it could not be kept.
    pub(crate) fn set(&self, word: usize) -> bool {
        match self.0.load(Ordering::Acquire) {
            NONE => false,
            // SAFETY: as in `get`; the value is never followed as an address.
            key => unsafe { libc::pthread_setspecific(key, word as *const c_void) == 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_thread_has_its_own_word_and_its_end_is_shown() {
        static WORD: PerThread = PerThread::new();
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn ended(word: *mut c_void) {
            ENDED.store(word as usize, Ordering::Release);
        }
        assert!(!WORD.set(3), "there is no word before it is created");
        assert!(WORD.create(Some(ended)));
        assert!(WORD.set(3));
        std::thread::spawn(|| {
            assert_eq!(WORD.get(), 0);
            assert!(WORD.set(4));
        })
        .join()
        .expect("the thread ran");
        assert_eq!((WORD.get(), ENDED.load(Ordering::Acquire)), (3, 4));
    }
}
