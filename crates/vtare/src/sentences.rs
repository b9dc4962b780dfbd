//! Every sentence that the program prints as an answer, a limit, a note, advice or a finding, one template each. To
//! change the words change them here; the logic in the other files chooses a sentence and gives it its values.
//!
//! Templates that begin with a small letter and have no full stop are parts: names, counts and reasons that stand in
//! the braces of a sentence next to them. Errors stand where they are raised, help texts beside the options.

/// Makes a function of each template, whose parameters are the values in its braces. A value that the template does not
/// show, and one that is missing, do not compile.
macro_rules! sentences {
    ($(
        $(#[$about:meta])*
        $group:ident { $($name:ident($($value:ident),*) = $text:literal;)* }
    )*) => {$(
        $(#[$about])*
        pub(crate) mod $group {$(
            #[deny(unused_variables)]
            #[allow(clippy::too_many_arguments, reason = "they are as many as the sentence has values")]
            pub(crate) fn $name($($value: impl std::fmt::Display),*) -> String {
                format!($text)
            }
        )*}
    )*};
}

sentences! {
    /// What surrounds every answer, and what to do about a CPU that others use.
    answer {
        all_figures() = "All figures: add -v";
        one_limit_hidden() = "One more limit of this answer, and all figures: add -v";
        limits_hidden(limits) = "{limits} more limits of this answer, and all figures: add -v";
        interrupted() = "Interrupted: the figures cover what was measured until then.";
        lift_the_quota() = "Measure without the CPU quota; this shows how to lift it:";
        pin() = "Keep the measuring threads on one CPU:";
        find_user_of_that_cpu() = "Find out what is using that CPU:";
        find_user_of_the_cpu() = "Find out what is using the CPU:";
        find_losses() = "See where packets are lost:";
        take_longer() = "Let it take longer:";
        send_more() = "Let it send more:";
    }

    /// Notes on a run, whatever it measures.
    run {
        wall_time_set_forward(step) = "Wall time was set forward by {step} during this run. Durations are taken on \
            CLOCK_MONOTONIC, which nobody can set; `started_unix_ns` is the time before the step.";
        wall_time_set_back(step) = "Wall time was set back by {step} during this run. Durations are taken on \
            CLOCK_MONOTONIC, which nobody can set; `started_unix_ns` is the time before the step.";
        quota(time, periods) =
            "The CPU quota of its control group stopped this program for {time} in {periods} periods.";
        quota_of(time, periods, cpus) = "The CPU quota of its control group stopped this program for {time} in \
            {periods} periods: it may use {cpus:.2} CPUs.";
        suspended(time) = "The machine was suspended for {time} during this run: clocks and caches started anew, and \
            far ends went on.";
        peer_lost(peers) = "Peer lost: {peers}.";
        samples_lost(error) = "The samples are lost: {error}.";
        no_proc(mount) = "/proc is not mounted, so nothing is known of other programs, interrupts and most facts of \
            this machine: {mount}.";
        not_pinned() = "The measuring threads could move between CPUs. Use --cpu N to keep them on one.";
        slack_refused(error) = "The timer slack was not changed: {error}.";
        fifo_refused(error) = "The real-time priority was refused: {error}.";
        dma_latency_refused(error) = "Idle CPUs were not held awake: {error}.";
    }

    /// Times in which this program did not run.
    standstill {
        once(place, length, began, why) =
            "{place}: this program stalled for {length}, {began} after the start: {why}. No figure includes that time.";
        often(place, length, began, times, why) = "{place}: this program stalled for {length}, {began} after the \
            start, the longest of {times} times: {why}. No figure includes that time.";
        suspended() = "the machine was suspended";
        stopped() = "the process was stopped (SIGSTOP or a frozen control group): it neither ran nor waited for a CPU";
        machine_stalled() =
            "the machine stalled, or its host took the CPU without reporting it: this kernel counts the time as run";
        stopped_or_machine_stalled() =
            "the process was stopped, or the machine stalled: it waited for no CPU meanwhile";
    }

    /// `vtare rtt`.
    rtt {
        median(peer, median) = "A round trip to {peer} takes {median} in the median.";
        median_and_tail(peer, median, p99) =
            "A round trip to {peer} takes {median} in the median, and 1 in 100 takes {p99} or more.";
        several_peers(peers, nearest, least, farthest, most) =
            "Of {peers} peers, {nearest} is nearest ({least} in the median) and {farthest} is farthest ({most}).";
        only_one_answered(peers) = "Of {peers} peers, only one answered.";
        none_lost(sent) = "None of {sent} packets was lost.";
        one_lost(sent, share) = "1 of {sent} packets was lost ({share}).";
        lost(lost, sent, share) = "{lost} of {sent} packets were lost ({share}).";
        refused(packets) = "The far end did not answer {packets} of them.";
        no_reply(sent) = "Could not measure the round trip: no reply came to {sent} packets.";

        // Figures.
        peer(peer, median, p99, lost, sent) = "{peer}: {median} (median), {p99} (p99), {lost} of {sent} lost";
        where_time_goes(here, far, way) =
            "Where the time goes: {here} in this program, {far} at the far end, {way} on the way.";
        extremes(min, max) = "Fastest {min}, slowest {max}.";
        extremes_and_tail(min, p999, max) = "Fastest {min}, p99.9 {p999}, slowest {max}.";
        variation(there, back) = "The delay varies by {there} on the way there and {back} on the way back (median).";
        sent(rate, error) = "Sent {rate:.0} packets a second, {error} off schedule (median).";

        // Limits, and what to change.
        silent_peer(peer, sent) = "{peer}: no reply to {sent} packets.";
        late(peer, late, sent) = "{peer}: {late} of {sent} packets left more than 100 us late.";
        late_p99(peer, due, actual, late, sent) = "{peer}: p99 is {due} including the sender's own delay, {actual} \
            from the actual send ({late} of {sent} packets left more than 100 us late).";
        quota_took(share, longest) = "A CPU quota took {share} of the sending thread's time, {longest} at once: the \
            longest round trips may be this host's.";
        other_work_took(share, longest) = "Other work took {share} of the sending thread's time, {longest} at once: \
            the longest round trips may be this host's.";
        receive_by_xdp() = "Receive the frames with a program in the kernel:";
        smaller_packets(size) = "Send packets that are small enough to arrive ({size} B):";
        fixed_rate(share) = "Send at a fixed rate, {share} of what the flood reached:";
        sustainable_rate() = "Use a rate this sender can sustain:";

        // Notes.
        closed_loop() = "A flood waits for each reply: its rate is the path's, and slow replies hold back the packets \
            that would have met the same delay. Use --rate for distributions.";
        rate_not_reached(peer, wanted, sent) =
            "{peer}: {wanted:.0} packets/s asked for, {sent:.0} sent: this sender or this machine is too slow.";
        vanishing(peer, asked, small, arriving) = "{peer}: packets of {asked} B vanish on the way, packets of {small} \
            B arrive: the path's MTU is smaller. Use --size {arriving}.";
        stalled(peer, length, began) = "{peer}: this program stalled for {length}, {began} after the start: it was \
            stopped, its machine suspended or moved, or its CPU taken.";
        stalled_often(peer, length, began, times) = "{peer}: this program stalled for {length}, {began} after the \
            start, the longest of {times} times: it was stopped, its machine suspended or moved, or its CPU taken.";
        nothing_came_back(peer, length, began) = "{peer}: nothing came back for {length}, {began} after the start: the \
            path was down, or the far end stalled.";
        nothing_came_back_often(peer, length, began, times) = "{peer}: nothing came back for {length}, {began} after \
            the start, the longest of {times} times: the path was down, or the far end stalled.";
        p99_without_it(p99) = "Without it p99 is {p99}.";
        lost_on_the_way_back(peer) = "{peer}: the far end answered every packet and no answer came back. Where it \
            serves with --xdp over a veth, this end must accept such frames: ethtool -K DEVICE gro on, or --engine xdp \
            here.";
        link_refused(wanted, reason) = "{wanted}: {reason}.";
        counters_lost(peer, error) =
            "{peer}: the responder's counters are lost, so losses cannot be attributed: {error}.";
    }

    /// `vtare avb`.
    avb {
        free(rate, way) = "{rate} is free on {way}.";
        at_least(rate, way) = "At least {rate} is free on {way}.";
        at_most(rate, way) = "At most {rate} is free on {way}.";
        moved(method, rate, way) = "{method} moved {rate} on {way}.";
        capacity_of(way, capacity) = "The capacity of {way} is {capacity}.";
        way(to_or_from, peer) = "the way {to_or_from} {peer}";
        way_over(to_or_from, peer, window) = "the way {to_or_from} {peer} over {window}";
        way_median(to_or_from, peer, estimates, span) =
            "the way {to_or_from} {peer} (median of {estimates} estimates within {span})";
        interval(low, high) = "Interval: {low} to {high}.";
        interval_to_capacity(low, capacity) = "Interval: {low} to the whole capacity, {capacity}.";
        interval_and_capacity(low, high, capacity) = "Interval: {low} to {high}; capacity: {capacity}.";
        capacity(capacity) = "Capacity: {capacity}.";
        nothing_known(way) = "Could not estimate how much is free on {way}.";
        no_estimate() = "Nothing was estimated.";

        // Figures.
        long_run(low, high) = "Expect {low} to {high} over longer periods if the other traffic stays the same.";
        one_estimate(method, size, time) = "1 estimate by {method}, with {size} of probes in {time}.";
        estimates(estimates, method, size, time) =
            "{estimates} estimates by {method}, each with {size} of probes in {time}.";
        probes(rate) = "The probes came at {rate}.";
        probes_and_queue(rate, queued) = "The probes came at {rate} and made the queue wait {queued}.";
        queue(queued) = "The probes made the queue wait {queued}.";
        of_capacity(rate, share) = "{rate} ({share} of the capacity)";

        // Limits, and what to change.
        bound() = "A lower bound: the path may have more.";
        bound_of_sender() = "A lower bound: the sender cannot pace faster on this machine, so the path may have more.";
        bound_of_bytes() =
            "A lower bound: nothing queued with the bytes that may be sent (--max-bytes), so the path may have more.";
        bound_of_time() =
            "A lower bound: nothing queued in the time that it may take (--max-time), so the path may have more.";
        none_complete() = "No estimate was complete when the time was over.";
        none(why) = "No estimate: {why}.";
        none_for_bytes() = "No estimate: the byte limit is too small. Raise `--max-bytes`.";
        none_for_time() = "No estimate: the time limit is too short. Raise `--max-time`.";
        some_unanswered(unanswered, estimates) = "{unanswered} of {estimates} estimates gave no answer.";
        uninformative(estimates, of) =
            "{estimates} of {of} estimates exclude nothing: their interval is as wide as the link.";
        estimate_sends_more() = "Let an estimate send more:";
        estimate_takes_longer() = "Let an estimate take longer:";
        try_tcp() = "See what the kernel's TCP moves, which fills the path while it runs:";
        more_than(time) = "Give it more than {time}:";

        // Why there is no estimate, here and in `vtare path`.
        lossy() = "too many packets were lost";
        reordered() = "too many packets arrived out of order";
        disturbed() = "sender or receiver stalled too often";
        no_answer() = "no probe arrived";
        byte_limit() = "the byte limit is too small";
        time_limit() = "the time limit is too short";
        disagreed() = "the probes did not agree";

        // Notes.
        not_niced() = "This ran at ordinary priority: trains that other threads delay are dropped, so an estimate may \
            take more of them. Root may use nice -19.";
        remark(method, remark) = "{method}: {remark}.";
        counters_lost(error) = "The responder's last counters are lost: {error}.";
        receiver_overloaded(datagrams) =
            "{datagrams} datagrams found the receiver's buffer full: it is overloaded, and losses are not the path's.";
        reader_gone() = "Whoever read the stream of estimates went away, which ended the run.";
        ecn_unknown() = "ECN is not known: the vtare there is older than this one.";
        vanishing(arriving, asked) = "Packets above {arriving} B vanish on the way although the interface takes \
            {asked} B: probes have {arriving} B.";
        grouped() = "The path is as fast as single sends here, so several packets may leave in one call (UDP_SEGMENT).";
        single_sends() = "The path is as fast as single sends here, and several packets cannot leave in one call: a \
            faster path cannot be measured.";
        program(command) = "Estimates of another program: {command}.";
        no_effect_on_tcp(options) =
            "No effect on tcp: {options}. The kernel sends, by its own timers and in segments of its own.";
    }

    /// `vtare path`.
    path {
        free_and_rise(way, rate, idle, loaded) =
            "{way}: {rate} is free; using more raises the round trip from {idle} to {loaded}.";
        free_and_no_rise(way, rate, idle) = "{way}: {rate} is free; the probes did not raise the round trip of {idle}.";
        free_and_added(way, rate, added) = "{way}: {rate} is free; using more adds {added}.";
        free(way, rate) = "{way}: {rate} is free.";
        rise(way, idle, loaded) = "{way}: using more raises the round trip from {idle} to {loaded}.";
        added(way, added) = "{way}: using more adds {added}.";
        at_least(figure) = "at least {figure}";
        graded(figure, grade) = "{figure} ({grade})";
        not_judged(peer, why) = "Could not judge the path to {peer}: {why}.";
        nothing_measured() = "nothing was measured";

        // Figures.
        buffer(way, depth, size) = "{way}: buffer {depth} ({size}).";
        buffer_kind(way, depth, size, kind) = "{way}: buffer {depth} ({size}), {kind}.";
        buffer_free(way, depth, size, low, high) = "{way}: buffer {depth} ({size}); free {low} to {high} (95 %).";
        buffer_kind_free(way, depth, size, kind, low, high) =
            "{way}: buffer {depth} ({size}), {kind}; free {low} to {high} (95 %).";
        sent(size, time) = "Sent {size} in {time}.";

        // Limits.
        not_filled(way, depth) =
            "{way}: the probes queued {depth} and did not fill the buffer: it is deeper, and latency may rise further.";
        bound(way) =
            "{way}: the free rate is a lower bound, from bursts of a few milliseconds: the sender cannot send faster.";
        free_not_known(way, why) = "{way}: could not estimate what is free: {why}.";

        // Notes.
        both() = "Both directions at once";
        cannot(way, why) = "{way}: not measured, since the responder cannot do it: {why}.";
        too_late(way) = "{way}: not measured, since the responder may only send as much as it got, and no time was \
            left to send it that much.";
        refused(way, why) = "{way}: not measured, since the responder refuses it: {why}.";
        counters_lost() = "The responder's last counters are lost.";
        not_saturated(congestion, error) = "TCP {congestion} did not fill the path: {error}.";
    }

    /// `vtare throughput`.
    throughput {
        one(guests, passed, allowed) = "{guests} {passed} {allowed}.";
        one_and_latency(guests, passed, allowed, latency) =
            "{guests} {passed} {allowed}; a frame takes {latency} in the median.";
        range(guests, least, most, allowed) = "{guests} from {least} to {most}, {allowed}.";
        one_guest() = "1 guest forwards";
        guests(guests) = "{guests} guests forward";
        passed(rate, bits, frame) = "{rate} ({bits}) in frames of {frame} B";
        passed_through(rate, bits, frame, loaded) = "{rate} ({bits}) in frames of {frame} B through {loaded} of them";
        at_least(passed) = "at least {passed}";
        without_loss() = "without loss";
        with_loss(percent) = "with up to {percent} % lost";
        none(allowed) = "No load was found that passes {allowed}.";
        none_often_enough(allowed, rate) = "No load was found that passes {allowed} in enough trials; up to {rate} \
            passed without loss in the trials that counted.";

        // Limits, and what to change.
        cell(frame, loaded, guests) = "{frame} B, {loaded} of {guests} guests loaded";
        bound_of_sender(cell) =
            "{cell}: a lower bound, since the sender can do no more here; what is tested may do more.";
        bound_of_analyser(cell) =
            "{cell}: a lower bound, since no more can be counted here; what is tested may do more.";
        bound_of_time(cell) =
            "{cell}: a lower bound, since the time for the search was over (--max-time); what is tested may do more.";
        bound_of_range(cell) = "{cell}: a lower bound, since that is the greatest load asked for (--max-rate); what is \
            tested may do more.";
        out_of_time(cell, searches, of) =
            "{cell}: {searches} of {of} searches had no time left, and gave the best bounds known.";
        void(cell, trials, of, why) = "{cell}: {trials} of {of} trials were void and were repeated, most since {why}.";
        rate_missed() = "the sender missed its rate";
        thread_stalled() = "the sending thread stalled";
        cpus_used() = "other programs used the CPUs";
        frames_changed() = "frames arrived changed";
        analyser_full() = "the analyser had no room for all frames";
        unanswered(cell, searches, of) =
            "{cell}: {searches} of {of} searches found no load at which so few frames are lost.";
        one_disturbed() = "1 trial counted although other programs used the CPUs: no more was lost than allowed, or \
            repeating it changed nothing.";
        disturbed(trials) = "{trials} trials counted although other programs used the CPUs: no more was lost than \
            allowed, or repeating them changed nothing.";
        longer_trials() = "Make trials longer than queues hold frames:";
        send_by_xdp() = "Send from a program in the kernel:";
        count_by_xdp() = "Count in a program in the kernel:";
        offer_more() = "Offer more:";
        more_time() = "Give the searches more time:";
        see_arrivals() = "See whether frames arrive at all:";

        // Notes.
        not_pinned() = "The sending thread could move between CPUs, and share one with what is tested: trials are then \
            void. Use --cpu N to keep it on one.";
        queues(frame, loaded, guests, waited, trial) = "{frame} B to {loaded} of {guests} guests: at the throughput 1 \
            frame in 100 took longer than {waited}, in trials of {trial}: queues hold frames for so long that longer \
            trials (--trial) would find less.";
        analyser_fallback(why) = "Frames are counted by a packet ring, since {why}.";
        sender_refused(engine, why) = "Sender {engine} is not used: {why}.";
        frame_too_large(frame) = "frames of {frame} B are too large for it";
    }

    /// `vtare sleep`.
    sleep {
        most_precise(span, method) = "For sleeps of {span}, {method} is the most precise.";
        most_precise_and_cheapest(span, precise, cheap) =
            "For sleeps of {span}, {precise} is the most precise and {cheap} the cheapest.";
        only_method(span, method, figures) = "For sleeps of {span}, {method}: {figures}.";
        span(least, most) = "{least} to {most}";
        none() = "No sleep ended, so there is no answer.";
        method(method, figures) = "{method}: {figures}";
        off_by(error) = "off by at most {error} (median)";
        too_late() = "too late for half of its sleeps";
        of_a_cpu(share) = "{share} of a CPU";
        over_100_us(share) = "{share} over 100 us";

        // Limits, and what to change.
        skipped(shares) =
            "Some sleeps were skipped because earlier ones ended too late; they count as late. Completed: {shares}.";
        disturbed(rows, of) = "In {rows} of {of} rows something took the CPU from 1 sleep in 100 or more (disturbed): \
            their p99 and max are the machine's, not the method's.";
        time_of_its_own() = "Other threads have the CPUs. In a session of its own a program gets a share of its own, \
            without any privilege, if the others are in another session:";
        real_time() = "With a real-time priority the threads, and the work they do, run before all ordinary ones \
            (root, CAP_SYS_NICE or RLIMIT_RTPRIO):";
        leave_group() = "Root is refused a real-time priority in a control group without real-time CPU time \
            (cpu.rt_runtime_us is 0). Move this shell out of it:";
        needs_root() = "Real-time priority needs root, CAP_SYS_NICE or RLIMIT_RTPRIO:";
        more_time() = "Give each cell the time that its sleeps take:";
        less_slack(slack) = "The kernel may end usleep and clock_nanosleep {slack} late to save wake-ups (timer \
            slack). See how they wake without it:";

        // Notes.
        slack_set(ns) = "The timer slack of the sleeping threads was set to {ns} ns.";
        slack_kept(slack) =
            "The timer slack was left at {slack}, which usleep and clock_nanosleep may add to each sleep.";
        slack_unknown() = "This kernel has no timer slack to read (prctl(PR_GET_TIMERSLACK) fails).";
        slice_refused() = "The scheduler refused a time slice of 100 us for the adaptive method (sched_setattr).";
        fifo_set(priority, methods) = "Real-time priority {priority} (SCHED_FIFO) was held by the threads of \
            {methods}. One that spins most of the time may be stalled for 50 ms by the kernel's throttling.";
        fifo_refused(priority, methods, why) =
            "Real-time priority {priority} was refused, so these slept without it: {methods}: {why}.";
        time_capped(seconds, sleeps, cells) =
            "{seconds} s a cell was too short for {sleeps} sleeps of: {cells}. Use more --seconds.";
        published_idle(medians) = "Published medians of HPTSleep (as two_phase) on idle machines: {medians} (Kirova \
            2019, table 2: of the sleeps that were made).";
        published_loaded(medians) = "Published medians of HPTSleep (as two_phase) beside CPU load: {medians} (Kirova \
            2019, table 2: of the sleeps that were made).";
    }

    /// `vtare noise`.
    noise {
        lost(share, cpu) = "A busy loop lost {share} of its time on CPU {cpu}.";
        lost_to(share, cpu, cause) = "A busy loop lost {share} of its time on CPU {cpu}, most of it {cause}.";
        worst_and_best(most, worst, least, best) =
            "A busy loop lost {most} of its time on CPU {worst}, and {least} on CPU {best}.";
        worst_and_best_to(most, worst, cause, least, best) =
            "A busy loop lost {most} of its time on CPU {worst}, most of it {cause}, and {least} on CPU {best}.";
        nothing_watched() = "No CPU was watched, so nothing is known of its gaps.";
        to_other_threads() = "to other threads";
        to_the_hypervisor() = "to the hypervisor";
        to_the_quota() = "to the CPU quota";
        outside() = "outside this system";
        to_interrupts_or_the_host() = "to interrupts or the host";

        // Figures.
        gaps(cpu, gaps, median, max) = "CPU {cpu}: {gaps} gaps, half of them longer than {median}, the longest {max}";
        gaps_and_rate(cpu, gaps, rate, median, max) =
            "CPU {cpu}: {gaps} gaps, {rate:.0} a second, half of them longer than {median}, the longest {max}";
        no_gap(cpu) = "CPU {cpu}: no gap";

        // Notes.
        beyond_room(cpu, gaps, room) = "CPU {cpu}: {gaps} gaps came after the room for {room} was full. They count in \
            gaps and time lost only, so raise --threshold or lower --seconds.";
        accounts(cpu, lost, shares) = "CPU {cpu} lost {lost}: {shares}.";
        stolen(share) = "the hypervisor reports {share} as stolen";
        of_quota(share) = "{share} went to the CPU quota of its control group";
        of_other_threads(share) = "{share} went to other threads";
        unexplained(share) = "{share} is unexplained";
        no_account() = "this system keeps no account of where it went";
        events(interrupts, switches) = "There were {interrupts} interrupts and {switches} switches in that time.";
        events_of_lines(interrupts, lines, switches) =
            "There were {interrupts} interrupts ({lines}) and {switches} switches in that time.";
        from_outside(least, gaps, time) = "So at least {least} of {gaps} gaps ({time}) came from outside this system.";
        pressure(time) = "Threads here waited {time} for a CPU (PSI).";
        steal_unproven() = "A steal of 0 is no proof: many hypervisors do not report it.";
    }

    /// `vtare counter`.
    counter {
        varies(time, cv) = "Equal work of {time} varies by {cv} (CV).";
        varies_from(time, cv, cause) = "Equal work of {time} varies by {cv} (CV), mostly {cause}.";
        two_vary(short, cv, long, long_cv) = "Equal work of {short} varies by {cv} (CV); work of {long} by {long_cv}.";
        two_vary_from(short, cv, cause, long, long_cv) =
            "Equal work of {short} varies by {cv} (CV), mostly {cause}; work of {long} by {long_cv}.";
        too_few_calls() = "No argument was called often enough to know how its run time varies.";
        from_other_threads() = "from other threads";
        from_the_quota() = "from the CPU quota";
        by_the_hypervisor() = "taken by the hypervisor";
        from_interrupts() = "from interrupts";
        from_outside() = "from the hypervisor or the firmware";
        in_unaccounted_gaps() = "in gaps that no counter accounts for";
        from_cpu_speed() = "from the speed of the CPU";

        // Figures.
        argument(argument, time, cv) = "argument {argument}, {time}: varies by {cv}";
        argument_and_parts(argument, time, cv, within, between) =
            "argument {argument}, {time}: varies by {cv}: {within} within batches, {between} between";

        // Notes.
        place(argument) = "Argument {argument}";
        speed_index(steps) = "Machine speed index: {steps:.0} steps of the counter function in a ms.";
        program(language, runtime) = "The counter function ran as a {language} program of its own: {runtime}.";
        evidence(wall, preempted, switches, gaps, interrupts, taking, steal, pressure) = "In {wall} of counting: \
            {preempted} without the CPU in calls with involuntary switches ({switches} of them), {gaps} in other gaps. \
            The kernel shows {interrupts} interrupts taking {taking}, steal {steal}, CPU pressure {pressure}.";
        not_stated() = "not stated";
        unknown_number() = "an unknown number of";
    }

    /// `vtare capture`.
    capture {
        seen(probes, place) = "{probes} probes passed {place}, none of them with its reply.";
        median(probes, place, median) = "{probes} probes passed {place}; a reply takes {median} in the median.";
        median_and_tail(probes, place, median, p99) =
            "{probes} probes passed {place}; a reply takes {median} in the median, and 1 in 100 takes {p99} or more.";
        no_probe(place) = "No probe passed {place}.";
        nothing() = "Nothing was captured.";

        // Figures.
        flow(source, destination, requests, replies, one_way) =
            "{source} to {destination}: {requests} requests, {replies} replies, {one_way} one-way";
        flow_and_median(source, destination, requests, replies, median) =
            "{source} to {destination}: {requests} requests, {replies} replies, {median} (median)";
        tunnels(frames) = "Frames in tunnels: {frames}.";
        passed_over(frames) = "Frames passed over: {frames}.";
        not_counted() = "It is not known whether probes were lost for lack of room.";

        // Limits and notes.
        lost(probes) = "{probes} probes were seen and lost for lack of room.";
        one_negative(replies) = "1 of {replies} replies was stamped before the request: the clock of the capturing \
            host stepped backward. Negative round trips are left out; others that span the step are wrong by as much.";
        negative(negative, replies) = "{negative} of {replies} replies were stamped before the request: the clock of \
            the capturing host stepped backward. Negative round trips are left out; others that span the step are \
            wrong by as much.";
        too_slow(probes) = "{probes} probes (with --hook packet: packets) were seen and lost: the program was too slow \
            for them. Use a larger --ring-byte or an idle CPU (--cpu).";
        unread(large, probes) = "{large} large packets could not be split, and {probes} probes in others could not be \
            read: vtare rtt --no-gso sends one by one.";
        merged(large) = "{large} large packets held several probes (GSO or GRO): those have the stamp of the large \
            packet. vtare rtt --no-gso sends one by one.";
        ended(error) = "The capture ended early: {error}. What was captured until then is kept.";
        interface_gone(name) = "The interface {name} went away. What was captured until then is kept.";
        wall_time_set(times, error) = "Wall time was set {times} times: stamps within half a second of that may be off \
            by the step, others by {error}.";
        file_cut(there, at) = "The file ends within a packet, of which {there} B are there from byte {at} on: its \
            writer was killed. Everything before that was read.";
        link_types(types) = "Frames of link type {types} were left out: vtare reads Ethernet (1), raw IP (101), Linux \
            cooked (113, 276) and loopback (0, 108).";
        unstamped(probes) = "{probes} probes carry no time and are in no figure (simple packet blocks).";
    }

    /// `vtare timer`.
    timer {
        both(kernel, own) =
            "Reading the time takes {kernel} with the kernel's clock_gettime and {own} with vtare's clock.";
        one(source, cost) = "One reading of {source} takes {cost}.";
        extremes(cheap, cost, expensive, most) =
            "The cheapest reading is {cheap} ({cost}), the most expensive {expensive} ({most}).";
        none() = "No clock was read, so there is no answer.";
        cost(source, cost) = "{source}: {cost} a reading";
        cost_and_tail(source, cost, tail) = "{source}: {cost} a reading, 1 in 1000 takes {tail} or more";

        // Notes.
        read_cost() = "'read cost' is the time of a tight loop of reads divided by their number; the other figures are \
            differences of consecutive readings, which move in steps of the clock.";
        preempted(preempted, loops, others) = "{preempted} of {loops} loops of reads lost the CPU to another thread; \
            'read cost' is of the other {others}.";
        counter_left_out() =
            "The CPU's counter is not usable as a clock here, so its reads are left out. See the clock's reasons.";
        tail_capped(source, kept, more) =
            "{source}: {kept} readings above tail_ns keep their position, {more} further ones only their cost.";
    }

    /// `vtare rpm`.
    rpm {
        direction(way, rpm, grade, goodput, each) =
            "{way}: {rpm:.0} round trips a minute ({grade}) while {goodput} of payload flow: {each} each.";
        direction_and_idle(way, rpm, grade, goodput, each, idle) = "{way}: {rpm:.0} round trips a minute ({grade}) \
            while {goodput} of payload flow: {each} each, {idle} when the path is idle.";
        not_known(peer) = "Could not measure the responsiveness of the path to {peer}.";
        too_few(way) = "{way}: too few probes were answered for a figure.";
        not_stable(way, confidence) = "{way}: the RPM did not become stable in time: {confidence} confidence.";
        failed(way, failed, probes) =
            "{way}: {failed} of {probes} probes failed or were not answered within 10 s: the figure is too high.";
    }

    /// `vtare exec --report`.
    exec {
        none() = "No clock or sleep function was called.";
        clocks(calls, time) = "{calls} clock calls took {time}; no sleep function was called.";
        late(sleeps, median, p99) = "{sleeps} ended {median} late (median), {p99} (p99).";
        one_late(late) = "1 sleep ended {late} late.";
        few_late(sleeps, median, worst) = "{sleeps} ended {median} late (median), {worst} (worst).";
        none_ended(calls) = "None of {calls} sleeps ended by itself.";
        disturbed(disturbed, sleeps) = "The CPU was taken away in {disturbed} of {sleeps} sleeps.";
        without_place(sleeps) =
            "{sleeps} sleeps were left to the kernel: more threads slept at once than there are places to learn in.";
        processes(processes, answers) = "{processes} with the library; clock of {answers}.";
        answered(count, by) = "{count} answered by {by}";
    }

    /// The verdict of `vtare check`, and its causes.
    check {
        visible(status, percent, length) =
            "{status}: differences of {percent} % are visible in timings of {length} and longer.";
        only_visible(status, percent, length) =
            "{status}: only differences of {percent} % are visible in timings of {length} and longer.";
        too_long(status, length, percent) =
            "{status}: 1 in 20 measurements of {length} is at least {percent} % too long.";
        longer_too_long(status, length, percent) =
            "{status}: measurements longer than {length} are about {percent} % too long.";
        not_known() = "NOT KNOWN: the time that a busy loop loses was not measured.";
        lost_to(share, who) = "A busy loop lost {share} of its time to {who}.";
        reading_takes(time) = "Reading the clock takes {time}.";
        needs_witnesses(limit) =
            "--fail-if '{limit}' needs witnesses, and none is named; name hosts that run `vtare serve`: --witness \
             HOST:PORT,...";
        utc_right(most, hosts, liars) =
            "UTC is right here to {most}: {hosts} hosts confirm it, of which {liars} may be wrong.";
        utc_right_by_one(most) = "UTC is right here to {most}, if the one host that confirms it is right.";
        utc_ahead(least, remedy) = "UTC is wrong here: the clock is at least {least} ahead. {remedy}";
        utc_behind(least, remedy) = "UTC is wrong here: the clock is at least {least} behind. {remedy}";
        step_clock(command) = "Set it: {command}";
        start_daemon() = "Start an NTP daemon.";

        // Who takes time.
        other_programs() = "other programs";
        other_programs_here() = "other programs on this machine";
        its_quota() = "its CPU quota";
        the_hypervisor() = "the hypervisor";
        outside() = "something outside this system";
        interrupts_or_the_host() = "interrupts or the host";

        // Last line, and notes.
        more() = "More: vtare check -v";
        effect_and_more(purpose, cost) = "To {purpose}. Cost: {cost}. More: vtare check -v";
        some_cpus(some, all, cpus) = "Noise was measured on {some} of {all} CPUs: {cpus}.";
        not_measured(part, error) = "{part} was not measured: {error}.";

        // Beside published platforms.
        standing_of_timer() = "Reading the CPU counter takes";
        standing_of_clock_gettime() = "clock_gettime takes";
        standing_of_usleep() = "usleep of 1 ms is late by";
        standing_of_spinning_sleep() = "A sleep of 1 ms that ends in a spin is late by";
        standing_of_work(argument) = "Equal work (argument {argument}) varies (CV) by";
        worse_than_all(what, here, all, range) = "{what} {here}, worse than all {all} published platforms ({range}).";
        better_than_all(what, here, all, range) = "{what} {here}, better than all {all} published platforms ({range}).";
        better_than(what, here, worse, all, range) =
            "{what} {here}, better than {worse} of {all} published platforms ({range}).";
        range(least, first, most, last, source) = "{first} {least} to {last} {most}; {source}";
    }

    /// The findings of `vtare check`.
    finding {
        not_idle() = "The machine was not idle.";
        error(length, error) = "95 in 100 timings of {length} are off by at most {error}.";
        spread(figure, readings, width) = "{figure} (the middle half of {readings} spans {width})";
        spread_within_step(figure, readings) =
            "{figure} (the middle half of {readings} is within one step of the clock)";
        parts(parts) = "{parts} parts";
        sleeps() = "them";
        its_readings() = "its readings";

        wake(target, late) = "Sleeps of {target} wake {late}.";
        wake_of_cpu(target, late, cpu) = "Sleeps of {target} wake {late}, which uses {cpu} of a CPU.";
        wake_both(target, first, second) = "Sleeps of {target} wake {first} and {second}.";
        wake_both_of_cpu(target, first, second, cpu) =
            "Sleeps of {target} wake {first} and {second}, which uses {cpu} of a CPU.";
        wake_in_short(target, first, second) = "Sleeps of {target} wake {first}, {second}.";
        late(time, method) = "{time} late with {method}";
        early(time, method) = "{time} early with {method}";
        own_sleep() = "vtare's sleep";

        trusted(source) = "The CPU's counter ({source}) is trusted.";
        trusted_at_kernels_rate(source) =
            "The CPU's counter ({source}) is trusted, at the rate that the kernel itself uses.";
        trusted_within(source, ppm) =
            "The CPU's counter ({source}) is trusted, within {ppm} ppm of the kernel's clock.";
        not_trusted() = "The CPU's counter is not trusted, so vtare reads the kernel's clock.";
        not_trusted_since(reason) = "The CPU's counter is not trusted ({reason}), so vtare reads the kernel's clock.";
        reading_costs(cost) = "One reading costs {cost}.";
        clock_gettime(cost) = "clock_gettime costs {cost}.";
        clock_gettime_and_call(cost, call) = "clock_gettime costs {cost}, a real system call {call}.";
        always_a_call() = "The kernel's clock source cannot be read without a system call.";

        lost_nothing() = "A busy loop lost none of its time.";
        lost(share) = "A busy loop lost {share} of its time.";
        lost_nearly_all_to(share, who) = "A busy loop lost {share} of its time, nearly all of it to {who}.";
        lost_mostly_to(share, who) = "A busy loop lost {share} of its time, most of it to {who}.";
        lost_partly_to(share, part, who) = "A busy loop lost {share} of its time, {part} of it to {who}.";
        longest_gap(time) = "The longest gap took {time}.";

        no_steal() = "The hypervisor reports that it took none of the time lost.";
        little_steal(share) = "The hypervisor took almost none of the time lost ({share}).";
        steal(share) = "The hypervisor took {share} of the time lost.";
        from_outside(gaps) = "At least {gaps} gaps came from outside this system.";
        from_outside_unseen(gaps) =
            "At least {gaps} gaps came from outside this system, which the hypervisor's account does not show.";

        work(time, cv) = "Equal work of {time} varies by {cv} (CV).";
        work_parts(time, cv, within, between) =
            "Equal work of {time} varies by {cv} (CV; {within} within batches, {between} between).";
        work_from(time, cv, cause) = "Equal work of {time} varies by {cv} (CV), mostly from {cause}.";
        work_parts_from(time, cv, within, between, cause) = "Equal work of {time} varies by {cv} (CV; {within} within \
            batches, {between} between), mostly from {cause}.";
    }

    /// The advice of `vtare check`: why, what it is good for as it follows "to", and what it costs.
    advice {
        with_cost(text, cost) = "{text} Cost: {cost}.";

        clock_source(source) = "The kernel's clock source is {source}; tsc is available.";
        clock_source_costs(source, cost) =
            "The kernel's clock source is {source} and costs {cost} a reading; tsc is available.";
        clock_source_boot(source) =
            "The kernel's clock source is {source}; the CPU's counter is constant and never stops.";
        clock_source_boot_costs(source, cost) = "The kernel's clock source is {source} and costs {cost} a reading; the \
            CPU's counter is constant and never stops.";
        to_read_time_faster() = "read the time faster";
        cost_of_tsc() = "none where the counter runs evenly";
        cost_of_boot_tsc() = "a reboot; wrong times if the counter is uneven";

        busy(share) = "Other programs took {share} of the time: stop them and check again.";
        to_find_users() = "find what uses the CPUs";
        cost_of_waiting() = "their work waits";

        quota(cpus, period) = "A control group allows {cpus:.2} CPUs and stops the threads for the rest of each \
            {period} when it is used up.";
        to_lift_quota() = "lift the CPU quota";
        cost_of_no_quota() = "less CPU time for others";

        sandbox(late) = "gVisor answers each system call itself, and usleep of 50 us wakes {late} late there: let \
            programs sleep and read the time without system calls.";
        to_sleep_without_calls() = "sleep without system calls";
        cost_of_spinning() = "sleeps end in a spin, which uses CPU time";

        host(lost, outside) = "{lost} of the time is lost, {outside} of it to nothing inside this system: give the \
            vCPUs cores of their own.";
        to_own_cores() = "give the vCPUs cores of their own";
        cost_of_own_cores() = "nothing else can use those cores";

        governor(governor) = "The frequency governor is {governor}: the CPU's speed follows the load.";
        to_hold_speed() = "hold the CPU's speed";
        cost_of_speed() = "more power and heat";

        quiet_cpu(cpu, least, most) =
            "CPU {cpu} lost the least time ({least}; up to {most} elsewhere): pin what must be on time to it.";
        to_use_quiet_cpu() = "use the CPU that loses least";
        cost_of_pinning() = "the program cannot use other CPUs";

        isolate(share) = "Other threads took {share} of the time, and no CPU is kept free of them.";
        to_isolate() = "keep a CPU free of other programs";
        cost_of_isolation() = "a reboot; other programs lose that CPU";

        slack(slack, late) = "Timers may fire {slack} late to save wake-ups, and usleep of 50 us wakes {late} late: \
            set the slack of threads that sleep (in a program: prctl(PR_SET_TIMERSLACK, 1)).";
        to_wake_earlier() = "wake earlier from sleeps";
        cost_of_no_slack() = "more wake-ups and more power";

        halt_poll(late) = "Guest halt polling is off (guest_halt_poll_ns is 0): each wake goes through the host, and \
            clock_nanosleep of 50 us wakes {late} late. A CPU that polls takes time from other guests.";
        to_wake_faster() = "wake faster";
        cost_of_polling() = "idle CPUs poll 0.2 ms: more power";

        dma_latency(late) = "Idle CPUs take part in waking {late} late: hold them awake while you measure.";
        to_hold_awake() = "hold idle CPUs awake";
        cost_of_awake() = "idle CPUs never sleep: more power";
    }

    /// `vtare selftest`.
    selftest {
        all_found(faults) = "Every fault was found ({faults}).";
        found_but_skipped(found, skipped) =
            "Every fault that could be injected here was found ({found}); {skipped} could not be.";
        some_missed(missed, injected, names) = "Missed {missed} of {injected} faults: {names}.";
        none_injected() = "No fault could be injected here, so there is no answer.";
        summary(found, missed, skipped, elapsed, seed) =
            "{found} found, {missed} missed, {skipped} skipped in {elapsed:.1} s; seed {seed}";
        reason(fault, why) = "{fault}: {why}.";
        no_interval() = "the instrument gave no interval";
        not_held() = "the interval does not hold what was injected, or holds the value without the fault";
        no_namespaces(why) = "no network namespaces here: {why}";
        cpu_taken(share, cpu) = "other programs used {share} of CPU {cpu}: stop them, or start this as root";
        taken_back(times) = "other threads took the CPU back {times:.1} times a burst, so sleeps did not wait for its \
            end: start this as root";
    }

    /// `vtare link`.
    link {
        nothing_came(from, to, lane) = "{from} -> {to} ({lane}): nothing came";
        packets(from, to, lane, came, lost, share, overflow, left, under_way) = "{from} -> {to} ({lane}): {came} \
            packets came, {lost} lost ({share}), {overflow} found the queue full, {left} left, {under_way} on their \
            way at the end";
        lateness(median, p99, max, share, limit, highest, kept) = "late by {median} (median), {p99} (99 %), {max} at \
            most; {share} by more than {limit}; highest rate over 100 ms {highest}, kept {kept}";
        note(note) = "Note: {note}";

        // Notes.
        socket_drops(lane, frames) = "{lane}: {frames} frames were lost before the emulator saw them: it did not get \
            its turn. Give it a CPU of its own (--cpu).";
        unable(lane, packets) = "{lane}: {packets} packets could not be carried: no memory, cut short, or of a kind \
            that cannot be cut (ethtool -K IFACE gso off tso off at the sender).";
        refused(lane, packets) = "{lane}: {packets} packets were refused by the interface: its ring was full.";
        too_long(lane, packets) =
            "{lane}: {packets} packets were longer than the interface's MTU: give both interfaces one MTU.";
        unstamped(lane, frames) =
            "{lane}: {frames} frames had no stamp of the kernel and count as arrived when they were read.";
        late(lane, share, limit) =
            "{lane}: {share} of the packets left more than {limit} late: more than the 1 % that counts as kept.";
        setting_refused(error) = "The thread that carries frames does without a setting: {error}.";
    }

    /// `vtare load`.
    load {
        ran(kind, threads, seconds, cpu) = "{kind} load, {threads}, {seconds:.2} s; {cpu} of the CPU time it may use";
        did(kind, threads, seconds, operations, what, rate, cpu) = "{kind} load, {threads}, {seconds:.2} s: \
            {operations} {what}, {rate} a second; {cpu} of the CPU time it may use";
        one_thread() = "1 thread";
        threads(threads) = "{threads} threads";
        blocks() = "blocks of 64 KiB";
        square_roots() = "square roots";
        steps() = "steps";

        files(place, written, writes, read, direct, sockets) = "files{place}: {written} MiB written in {writes} forced \
            writes, {read} MiB read; {direct}; sockets: {sockets} MiB";
        direct(both) = "{both} MiB of both past the page cache";
        no_direct() = "the file system has no direct access";
        client(role, address, written, read, flushes, fua) =
            "{role} of {address}: {written} MiB written and {read} MiB read, {flushes} flushes; {fua}";
        with_fua(written) = "{written} MiB written with FUA";
        no_fua() = "the server has no FUA";
        server(role, address, place, stored, cache) = "{role} of {address}{place}: {stored}, {cache}";
        stored(size) = "{size} MiB stored";
        stored_unknown() = "what is stored is not known";
        by_page_cache() = "by way of the page cache";
        past_page_cache() = "past the page cache";

        sent(packets, address, rate, asked) =
            "{packets} packets sent to {address}, {rate} of IP packets; asked for {asked}";
        arrived(packets, address, rate) =
            "{packets} packets arrived at {address}, {rate} of IP packets between the first and the last";
        no_rate() = "no rate";
        skipped(packets) = "{packets} left out because they were late";
        refused(packets) = "{packets} refused by the kernel";
        unreachable(times) = "{times} times nobody listened there";
        dropped(packets) = "{packets} dropped at the sink's full buffer";
        unstamped(packets) = "{packets} without a stamp of the kernel";
        drops_unknown() = "drops at the sink's buffer are not known here";
    }

    /// `vtare torture`.
    torture {
        never_backward(readings, threads) =
            "The clock never went backward in {readings} readings by {threads} threads.";
        backward(times, readings, threads, worst) = "The clock went backward {times} times in {readings} readings by \
            {threads} threads, by {worst} at most.";
        head(source, path, threads, seconds) = "clock {source} ({path}), {threads} threads, {seconds:.1} s";
        outside(ns) = "outside the kernel's own readings before and after by at most {ns} ns";
        event(event, times) = "event: {event}, {times} times";
    }

    /// `vtare serve`.
    serve {
        key_file(path) = "{path}: a new key, readable by its owner only. Start `vtare serve --key-file {path}` here, \
            copy the file to the clients over a way you trust (scp), and give it to them with --key-file.";
        new_key() = "A new key, valid until this program ends. On the other machine:";
    }

    /// What `vtare clock` states of the page.
    clock {
        begun() = "UTC is confirmed once; one more heartbeat has to agree.";
        confirmed(hosts, liars, same_host) = "UTC is confirmed by {hosts} hosts, {liars} of which may be wrong; \
            {same_host} witnesses share a host and do not count.";
        disrupted(times) = "Time was disrupted ({times} times so far): this machine was stopped, moved or restored, or \
            its clock runs at a wrong rate.";
        unconfirmed(reason) = "UTC is not confirmed: {reason}.";
    }
}
