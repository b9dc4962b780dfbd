//! The name that was probably meant.

/// Names at least this alike are near; the command line's parser has the same bound for options.
const ALIKE: f64 = 0.7;

/// The nearest of `names`; `None` where none is near.
pub(crate) fn nearest<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.into_iter().map(|name| (strsim::jaro(found, name), name)).filter(|(alike, _)| *alike > ALIKE);
    near.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// ` (did you mean 'NAME'?)` with the nearest of `names`, or nothing where none is near.
pub(crate) fn did_you_mean<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(found, names).map_or_else(String::new, |name| format!(" (did you mean '{name}'?)"))
}

/// The three of `names` that come nearest, near or not.
pub(crate) fn nearest_three<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let mut near: Vec<(f64, &str)> = names.into_iter().map(|name| (strsim::jaro_winkler(found, name), name)).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    near.into_iter().take(3).map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn a_near_miss_gets_its_name_and_a_far_one_none() {
        let names = ["usleep", "clock_nanosleep", "two_phase", "adaptive", "spin"];
        assert_eq!(did_you_mean("adptive", names), " (did you mean 'adaptive'?)");
        assert_eq!(did_you_mean("usleap", names), " (did you mean 'usleep'?)");
        assert_eq!(did_you_mean("qqq", names), "");
    }
}
