//! Any bytes as an answer of rtnetlink: interfaces, routes, neighbours, queue disciplines.

use std::net::Ipv4Addr;

use vtare_sys::net::netlink::{attribute, attributes, messages};
use vtare_sys::net::{queue, route};

/// One case.
pub(crate) fn run(bytes: &[u8]) {
    let mut behind = 0;
    for (_, body) in messages(bytes) {
        let at = within(bytes, body);
        assert!(at >= behind + 16, "messages follow each other, a header between");
        behind = at + body.len();
        for header in [0, 12, 16, 20] {
            let mut behind = header;
            for (kind, value) in attributes(body, header) {
                let at = within(body, value);
                assert!(at >= behind + 4 && kind <= 0x3fff, "attributes follow each other, a head between");
                behind = at + value.len();
            }
        }
        let _ = route::route_of(body);
        let _ = route::neighbour_of(body, 3, Ipv4Addr::LOCALHOST);
        if let Some(link) = route::link_of(body) {
            assert!(!link.name.is_empty());
        }
    }
    for queue in queue::queues_of(bytes, 3) {
        assert!(!queue.kind.is_empty());
        assert!(queue.parent.is_some() || !queue.hangs_on(&queue));
    }
    written(bytes);
}

/// Where `part` begins in `whole`, in which it lies.
fn within(whole: &[u8], part: &[u8]) -> usize {
    let range = whole.as_ptr_range();
    assert!(part.is_empty() || (range.contains(&part.as_ptr()) && part.as_ptr_range().end <= range.end));
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// What is written as attributes is read as it was.
fn written(bytes: &[u8]) {
    let wanted: Vec<(u16, &[u8])> = bytes
        .chunks(37)
        .map(|chunk| (u16::from(chunk[0]), &chunk[..usize::from(chunk[0] % 37).min(chunk.len())]))
        .collect();
    let mut body = vec![0; 12];
    for (kind, value) in &wanted {
        attribute(&mut body, *kind, value);
    }
    assert_eq!(attributes(&body, 12).collect::<Vec<_>>(), wanted);
}
