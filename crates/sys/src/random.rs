//! The CPU's own random numbers.

/// 64 bits of the CPU's random source (RDRAND), which no snapshot restores; `None` where there is none, or it fails.
#[must_use]
pub fn of_cpu() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("rdrand") {
        // Ten tries: Intel SDM volume 1, 7.3.17.1.
        for _ in 0..10 {
            let (bits, there): (u64, u8);
            // SAFETY: the CPU has the instruction, which writes two registers and the flags.
            unsafe {
                core::arch::asm!("rdrand {}", "setc {}", out(reg) bits, out(reg_byte) there, options(nomem, nostack));
            }
            if there == 1 {
                return Some(bits);
            }
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
