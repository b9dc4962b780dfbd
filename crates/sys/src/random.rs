//! The CPU's own random numbers.

/// 64 bits of the CPU's random source (RDRAND), which no snapshot restores; `None` where there is none, or it fails.
#[must_use]
pub fn of_cpu() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "rdrand")]
        fn read() -> Option<u64> {
            let mut bits = 0;
            // Ten tries: Intel SDM volume 1, 7.3.17.1.
            (0..10).any(|_| core::arch::x86_64::_rdrand64_step(&mut bits) == 1).then_some(bits)
        }
        if std::is_x86_feature_detected!("rdrand") {
            // SAFETY: the CPU has the instruction.
            return unsafe { read() };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_readings_differ_where_there_are_any() {
        let (one, other) = (super::of_cpu(), super::of_cpu());
        assert!(one.is_none() || one != other);
    }
}
