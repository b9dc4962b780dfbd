/// One bit for each of the newest 2^24 sequence numbers: 2 MiB at most, less for a short run.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
    end: u64,
}

const NUMBERS: u64 = 1 << 24;
const WORDS: usize = (NUMBERS / 64) as usize;

impl Seen {
    /// The next number exists, and its bit is clear.
    pub(super) fn push(&mut self) {
        let word = (self.end / 64) as usize;
        if self.end.is_multiple_of(64) {
            if word < WORDS {
                self.words.push(0);
            } else {
                self.words[word % WORDS] = 0;
            }
        }
        self.end += 1;
    }

    /// The bit of `number`; `None` where it is not known (not pushed yet, or too old).
    pub(super) fn get(&self, number: u64) -> Option<bool> {
        self.known(number).then(|| self.words[slot(number)] & bit(number) != 0)
    }

    /// Sets the bit of `number`, where it is known.
    pub(super) fn set(&mut self, number: u64) {
        if self.known(number) {
            self.words[slot(number)] |= bit(number);
        }
    }

    fn known(&self, number: u64) -> bool {
        // A word is cleared as a whole, up to 63 numbers before its last one is pushed.
        number < self.end && self.end - number <= NUMBERS - 64
    }
}

const fn slot(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_forgotten_before_their_bit_stands_for_another() {
        let mut seen = Seen::default();
        for number in 0..NUMBERS + 1_000 {
            seen.push();
            if number % 3 == 0 {
                seen.set(number);
            }
        }
        assert_eq!(seen.words.len(), WORDS);
        assert_eq!(seen.get(NUMBERS + 1_000), None);
        assert_eq!(seen.get(999), None);
        for number in 2_000..NUMBERS + 1_000 {
            if let Some(bit) = seen.get(number) {
                assert_eq!(bit, number % 3 == 0, "{number}");
            }
        }
        assert_eq!(seen.get(1_064), Some(false));
    }
}
