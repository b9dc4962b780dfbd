use super::*;

#[test]
fn offsets_follow_the_spacing() {
    let train = |spacing| Train { packets: 5, size_byte: 1500, spacing, idle_before_ns: 0 };
    let of = |spacing| train(spacing).offsets_ns();
    assert_eq!(of(Spacing::BACK_TO_BACK), [0.0; 5]);
    assert_eq!(of(Spacing::Constant { gap_ns: 2.5 }), [0.0, 2.5, 5.0, 7.5, 10.0]);
    assert_eq!(of(Spacing::Pairs { inside_ns: 1.0, between_ns: 10.0 }), [0.0, 1.0, 10.0, 11.0, 20.0]);
    assert_eq!(of(Spacing::groups(2, 10.0)), [0.0, 0.0, 10.0, 10.0, 20.0]);
    assert_eq!(of(Spacing::Primed { head: 2, after_ns: 7.0, packets: 2, gap_ns: 10.0 }), [0.0, 0.0, 7.0, 7.0, 17.0]);
    assert_eq!(of(Spacing::Gaps { gaps_ns: vec![4.0, 2.0] }), [0.0, 4.0, 6.0, 8.0, 10.0]);
}

fn seen(times: &[(u64, Option<u64>)]) -> Observation {
    let mut order: Vec<u64> = times.iter().filter_map(|&(_, received)| received).collect();
    order.sort_unstable();
    let place = |received: u64| order.iter().position(|&at| at == received).expect("in the list") as u32;
    let packet = |&(sent, received): &(u64, Option<u64>)| Packet {
        scheduled: Timestamp::from_nanos(sent),
        sent: Some(Timestamp::from_nanos(sent)),
        kernel_sent: None,
        received: received.map(Timestamp::from_nanos),
        place: received.map(place),
        size_byte: 1000,
        call: 0,
        group: None,
        descheduled: false,
        ecn: None,
    };
    Observation {
        train: Train::back_to_back(times.len() as u32, 1000),
        packets: times.iter().map(packet).collect(),
        finished: Timestamp::ZERO,
        receiver_drops: Some(0),
    }
}

#[test]
fn rates_count_the_gaps_and_not_the_packets() {
    // 1000 B every 1 us is 8 Gbit/s; they arrive every 2 us.
    let observation = seen(&[(0, Some(500)), (1000, Some(2500)), (2000, Some(4500))]);
    assert_eq!(observation.sent_bit_per_s(), Some(8e9));
    assert_eq!(observation.received_bit_per_s(), Some(4e9));
    assert_eq!(observation.gaps_ns(), [(1000.0, 2000.0); 2]);
}

#[test]
fn lost_and_reordered_packets_are_counted_and_leave_the_others_in_place() {
    let observation = seen(&[(0, Some(10)), (1, Some(30)), (2, Some(20)), (3, None), (4, Some(40))]);
    assert_eq!((observation.lost(), observation.reordered()), (1, 1));
    let indices: Vec<u32> = observation.arrivals().iter().map(|arrival| arrival.index).collect();
    assert_eq!(indices, [0, 1, 2, 4]);
}

#[test]
fn nothing_sent_has_no_rate_and_no_loss() {
    let observation = seen(&[]);
    assert_eq!(
        (observation.sent_bit_per_s(), observation.received_bit_per_s(), observation.loss()),
        (None, None, None)
    );
}

#[test]
fn a_budget_forbids_the_train_that_would_exceed_it() {
    let mut spent = Spent::default();
    spent.at(Timestamp::from_nanos(5));
    let train = Train::constant(11, 1000, 8e6);
    let bytes = |most_byte| Budget { most_byte: Some(most_byte), ..Budget::default() };
    assert_eq!(spent.forbids(&bytes(11_000), &train), None);
    assert_eq!(spent.forbids(&bytes(10_999), &train), Some(Stopped::ByteBudget));
    // Ten gaps of 1 ms.
    let time = |most_ns| Budget { most_ns: Some(most_ns), ..Budget::default() };
    assert_eq!(spent.forbids(&time(10_000_001), &train), None);
    assert_eq!(spent.forbids(&time(9_999_999), &train), Some(Stopped::TimeBudget));
}

#[test]
fn every_method_and_preset_is_found_by_its_name_and_survives_json() {
    for entry in METHODS {
        let mut names = vec![entry.name.to_owned()];
        names.extend(entry.presets.iter().map(|preset| format!("{}:{}", entry.name, preset.name)));
        for name in names {
            let settings = Settings::named(&name).expect("listed");
            let text = serde_json::to_string(&settings).expect("plain");
            assert_eq!(serde_json::from_str::<Settings>(&text).expect("own text"), settings, "{name}");
            let method = settings.method(Setup::default()).expect("good defaults");
            assert_eq!(method.name(), entry.name);
        }
    }
    let error = Settings::named("nonesuch").expect_err("unknown");
    assert!(error.to_string().starts_with("method is nonesuch: use one of "), "{error}");
}

#[test]
fn the_page_of_a_published_method_names_its_presets() {
    let page = include_str!("../../../../docs/methods/avb-published.md");
    let section = |name: &str| {
        let heading = format!("{name}\n");
        page.split("\n## ").find(|section| section.starts_with(&heading)).unwrap_or_else(|| panic!("no section {name}"))
    };
    for entry in METHODS.iter().filter(|entry| !["abacus", "adr"].contains(&entry.name)) {
        let text = section(if entry.name == "ptr" { "igi" } else { entry.name });
        let missing: Vec<_> = entry.presets.iter().map(|one| one.name).filter(|name| !text.contains(name)).collect();
        assert_eq!(missing, [""; 0], "docs/methods/avb-published.md, section of {}", entry.name);
    }
}

#[test]
fn settings_saved_under_the_own_methods_former_name_are_still_read() {
    let saved = serde_json::json!({"method": "vtare", "interval_share": 0.1});
    let Ok(Settings::Abacus(settings)) = serde_json::from_value(saved) else { panic!("it is the own method") };
    assert_eq!(settings.interval_share, 0.1);
    assert_eq!(
        Settings::named("vtare:thorough").expect("its preset"),
        Settings::named("abacus:thorough").expect("one")
    );
}
