//! What answers each clock function at the moment: the early stand-in, the counter, the counting function or the
//! kernel.

use core::ffi::c_void;

use crate::real::{ClockGettime, Gettimeofday, Target, TimespecGet};

macro_rules! now {
    ($($name:ident: $shape:ty = $first:path;)*) => {$(
        /// What answers the hook of this name at the moment.
        pub(crate) static $name: Target<$shape> = {
            const FIRST: $shape = $first;
            // SAFETY: the constant has the type stated.
            unsafe { Target::new(FIRST as *mut c_void) }
        };
    )*};
}

now! {
    NOW_CLOCK_GETTIME: ClockGettime = crate::early::clock_gettime;
    NOW_GETTIMEOFDAY: Gettimeofday = crate::early::gettimeofday;
    NOW_TIMESPEC_GET: TimespecGet = crate::early::timespec_get;
}
