//! Paths that drop large packets without a word: the interface's own MTU is no evidence of it, and no ICMP message
//! comes.

/// The size is known to within this many bytes.
const STEP_BYTE: u32 = 8;

/// Large packets vanish on the way, small ones arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vanishing {
    /// The size that vanishes, bytes.
    pub(crate) asked_byte: u32,
    /// A size that was answered, bytes: the smallest that was tried.
    pub(crate) small_byte: u32,
    /// The largest that was answered, bytes.
    pub(crate) arriving_byte: u32,
}

impl Vanishing {
    /// What people must know of the path to `peer`.
    pub(crate) fn sentence(&self, peer: &str) -> String {
        crate::sentences::rtt::vanishing(peer, self.asked_byte, self.small_byte, self.arriving_byte)
    }
}

/// The largest size that arrives, between one that does and one that does not.
///
/// # Errors
/// Where a probe cannot be sent.
pub(crate) fn largest_arriving<E>(
    arriving: u32,
    vanishing: u32,
    mut arrives: impl FnMut(u32) -> Result<bool, E>,
) -> Result<u32, E> {
    let (mut low, mut high) = (arriving, vanishing);
    while high - low > STEP_BYTE {
        let middle = low.midpoint(high);
        if arrives(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_found_with_few_probes() {
        for most in [64, 500, 957, 1_391] {
            let mut probes = 0;
            let found = largest_arriving(64, 1_400, |size| {
                probes += 1;
                Ok::<_, ()>(size <= most)
            });
            assert!(found.is_ok_and(|found| found <= most && found + STEP_BYTE >= most) && probes <= 8, "{found:?}");
        }
    }
}
