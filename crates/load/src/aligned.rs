//! Memory for direct access to files: device and kernel want it to begin at a multiple of their block size.

/// Page and block sizes of common devices divide this.
const ALIGN_BYTE: usize = 4096;

/// A block of bytes that begins at a multiple of [`ALIGN_BYTE`].
pub(crate) struct AlignedBlock {
    memory: Vec<u8>,
    byte: usize,
}

impl AlignedBlock {
    pub(crate) fn new(byte: usize) -> Self {
        Self { memory: vec![0; byte + ALIGN_BYTE], byte }
    }

    /// The bytes. The memory is never grown, so they stay where they are.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let begin = self.memory.as_ptr().align_offset(ALIGN_BYTE);
        &mut self.memory[begin..begin + self.byte]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_begins_at_a_multiple_of_a_page_and_has_its_size() {
        for byte in [512, 65_536, 65_537] {
            let mut block = AlignedBlock::new(byte);
            assert_eq!((block.bytes().as_ptr() as usize % ALIGN_BYTE, block.bytes().len()), (0, byte));
        }
    }
}
