use super::*;

/// One message of the kernel's answer: a queue of interface 3 with these options.
fn message(kind: &str, handle: u32, parent: u32, options: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 4];
    for number in [3, handle, parent, 2] {
        body.extend_from_slice(&number.to_ne_bytes());
    }
    attribute(&mut body, TCA_KIND, format!("{kind}\0").as_bytes());
    attribute(&mut body, TCA_OPTIONS, options);
    let mut whole = (16 + body.len() as u32).to_ne_bytes().to_vec();
    whole.extend_from_slice(&libc::RTM_NEWQDISC.to_ne_bytes());
    whole.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    whole.extend(body);
    whole
}

#[test]
fn queues_of_one_interface_are_read_with_where_they_hang() {
    let mut limit = Vec::new();
    attribute(&mut limit, 1, &10_000_u32.to_ne_bytes());
    attribute(&mut limit, TCA_FQ_FLOW_PLIMIT, &100_u32.to_ne_bytes());
    let answer = [
        message("mq", 0, ROOT, &[]),
        message("fq", 0, 2, &limit),
        message("ingress", 0xffff_0000, ROOT - 0xe, &[]),
        message("fq", 0, 1, &limit),
    ]
    .concat();
    let queue =
        |kind: &str, parent, flow_limit| Queue { kind: kind.to_owned(), handle: 0, parent, etf: None, flow_limit };
    let wanted = [queue("mq", None, None), queue("fq", Some(2), Some(100)), queue("fq", Some(1), Some(100))];
    let found = queues_of(&answer, 3);
    assert_eq!(found, wanted);
    assert!(found[1].hangs_on(&found[0]) && !found[0].hangs_on(&found[0]));
    assert_eq!(queues_of(&answer, 4), []);
    // Cut anywhere, it gives less and never panics.
    for end in 0..answer.len() {
        assert!(queues_of(&answer[..end], 3).len() < 3);
    }
}

#[test]
fn an_etf_states_its_clock_and_how_early_it_is() {
    let mut options = Vec::new();
    let parameters = [200_000_i32.to_ne_bytes(), libc::CLOCK_TAI.to_ne_bytes(), 4_u32.to_ne_bytes()].concat();
    attribute(&mut options, TCA_ETF_PARMS, &parameters);
    let answer = message("etf", 0x8001_0000, ROOT, &options);
    let found = queues_of(&answer, 3).pop().expect("there is one");
    assert_eq!(found.etf, Some(EtfOptions { delta_ns: 200_000, clock_id: libc::CLOCK_TAI, flags: 4 }));
    assert_eq!((found.handle, found.parent), (0x8001_0000, None));
}

#[test]
fn loopback_has_a_queue_discipline_that_keeps_no_launch_times() {
    let all = crate::net::interface::all().expect("interfaces are readable");
    let Some(loopback) = all.iter().find(|interface| interface.name == "lo") else {
        return eprintln!("skipped: no loopback here");
    };
    let found = of_interface(loopback.index).expect("queues are readable");
    assert!(found.iter().all(|queue| queue.etf.is_none() && queue.flow_limit.is_none()), "{found:?}");
}

#[test]
fn a_queue_that_the_kernel_does_not_have_is_an_error_with_the_wish() {
    let error = give(u32::from(u16::MAX), "vtare-none", None).expect_err("no such interface");
    assert!(error.to_string().contains("the queue vtare-none"), "{error}");
}
