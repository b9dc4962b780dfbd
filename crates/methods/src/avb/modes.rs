/// A place where values lie close together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mode {
    /// Mean of the values in its window.
    pub(super) value: f64,
    /// How many lie in it.
    pub(super) count: usize,
    /// From the first to the last value of the whole bell.
    pub(super) width: f64,
}

/// The modes of `values`, the strongest first: windows of `width` that hold the most values, each with the bell around
/// it taken away before the next is looked for. A bell goes on to both sides as long as each further window holds no
/// more than the one before it.
//= Dovrolis, Ramanathan, Moore 2004, Packet-dispersion techniques and a capacity-estimation methodology, appendix
pub(super) fn modes(values: &[f64], width: f64) -> Vec<Mode> {
    let mut left: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    left.sort_by(f64::total_cmp);
    let mut out = Vec::new();
    while !left.is_empty() {
        let (from, to) = densest(&left, width);
        let inside = &left[from..to];
        let value = inside.iter().sum::<f64>() / inside.len() as f64;
        let low = below(&left, from, to - from, width);
        let high = above(&left, to, to - from, width);
        out.push(Mode { value, count: to - from, width: left[high - 1] - left[low] });
        left.drain(low..high);
    }
    out
}

/// First and one past the last index of the window with the most values.
fn densest(sorted: &[f64], width: f64) -> (usize, usize) {
    let (mut best, mut to) = ((0, 1), 0);
    for from in 0..sorted.len() {
        while to < sorted.len() && sorted[to] - sorted[from] <= width {
            to += 1;
        }
        if to - from > best.1 - best.0 {
            best = (from, to);
        }
    }
    best
}

/// Where the bell that has `count` values in the window from `from` on begins.
fn below(sorted: &[f64], mut from: usize, mut count: usize, width: f64) -> usize {
    while from > 0 {
        let next = sorted[..from].partition_point(|&value| value < sorted[from] - width);
        if from == next || from - next > count {
            break;
        }
        (count, from) = (from - next, next);
    }
    from
}

/// One past where it ends.
fn above(sorted: &[f64], mut to: usize, mut count: usize, width: f64) -> usize {
    while to < sorted.len() {
        let next = to + sorted[to..].partition_point(|&value| value <= sorted[to - 1] + width);
        if next == to || next - to > count {
            break;
        }
        (count, to) = (next - to, next);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_heaps_are_two_modes_and_the_higher_one_is_first() {
        let values = [10.0, 10.1, 9.9, 10.0, 20.0, 20.1, 20.05, 20.0, 19.95, 50.0];
        let found = modes(&values, 0.3);
        let seen: Vec<_> = found.iter().map(|mode| ((mode.value * 100.0).round() / 100.0, mode.count)).collect();
        assert_eq!(seen, [(20.02, 5), (10.0, 4), (50.0, 1)]);
    }

    #[test]
    fn equal_values_are_one_mode_of_no_width() {
        assert_eq!(modes(&[7.0; 5], 0.0), [Mode { value: 7.0, count: 5, width: 0.0 }]);
        assert_eq!(modes(&[], 1.0), []);
    }

    proptest! {
        #[test]
        fn every_mode_lies_among_the_values_and_the_search_ends(
            values in proptest::collection::vec(-1e12_f64..1e12, 0..80), width in 0.0_f64..1e12,
        ) {
            let found = modes(&values, width);
            prop_assert_eq!(found.is_empty(), values.is_empty());
            for mode in found {
                prop_assert!(values.iter().any(|&value| (value - mode.value).abs() <= width + 1e-3));
            }
        }
    }
}
