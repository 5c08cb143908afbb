use super::*;

mod node;
mod program;
mod scripts;
mod search;
mod simulation;

fn at(ns: i64) -> Instant<Virtual> {
    Instant::from_ns(ns)
}

fn ns(ns: i64) -> Duration {
    Duration::from_ns(ns)
}

fn key(ns: i64, rank: u32) -> EventKey {
    EventKey { at: at(ns), rank }
}

/// End of a turn without messages.
fn end(turn: u64, next: Option<EventKey>) -> TurnEnd {
    TurnEnd {
        turn,
        next,
        sent: BTreeMap::new(),
        leaves: false,
        is_settled: true,
    }
}

/// End of a turn with one message.
fn end_with(turn: u64, next: Option<EventKey>, to: usize, arrival: i64) -> TurnEnd {
    TurnEnd {
        sent: BTreeMap::from([(to, at(arrival))]),
        ..end(turn, next)
    }
}

/// State of node 0 of two nodes that has the turn, while the next event of node 1 is at `rival`.
fn against(rival: EventKey, lookahead: i64) -> Turn {
    let mut turns = TurnOrder::new(0, 2, ns(lookahead));
    let handed = turns.hand_over(Some(key(1, 1)), false);
    assert!(handed.is_some());
    assert_eq!(turns.heard(1, end(1, Some(rival))), Ok(()));
    turns.mine().expect("the turn is node 0's")
}

#[test]
fn the_first_turn_is_that_of_node_zero() {
    for me in 0..3 {
        let turns = TurnOrder::new(me, 3, Duration::ZERO);
        assert_eq!(turns.holder(), Some(0));
        assert_eq!(turns.mine().is_some(), me == 0);
        assert_eq!(turns.next_event(), Some(at(0)));
    }
}

#[test]
fn the_order_is_that_of_instant_then_rank_then_node() {
    let turn = against(key(50, 2), 0);
    assert!(turn.allows(key(49, 9)));
    assert!(turn.allows(key(50, 1)));
    // Node 0 precedes node 1.
    assert!(turn.allows(key(50, 2)));
    assert!(!turn.allows(key(50, 3)));
    assert!(!turn.allows(key(51, 0)));

    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    assert_eq!(turns.heard(0, end(0, Some(key(50, 2)))), Ok(()));
    let turn = turns.mine().expect("the turn is node 1's");
    assert!(turn.allows(key(50, 1)));
    assert!(!turn.allows(key(50, 2)));
}

#[test]
fn the_lookahead_allows_events_before_its_end_of_any_rank() {
    let turn = against(key(50, 2), 10);
    assert!(turn.allows(key(59, 9)));
    assert!(!turn.allows(key(60, 0)));
}

#[test]
fn the_clock_may_move_to_the_last_allowed_instant() {
    assert_eq!(against(key(50, 2), 0).until(), at(50));
    assert_eq!(against(key(50, 2), 1).until(), at(50));
    assert_eq!(against(key(50, 2), 10).until(), at(59));
}

#[test]
fn a_node_without_rivals_has_no_limit() {
    let turn = TurnOrder::new(0, 1, Duration::ZERO).mine();
    let turn = turn.expect("the turn is node 0's");
    assert_eq!(turn.until(), Instant::FAR_FUTURE);
    assert!(turn.allows(EventKey::arrival(Instant::FAR_FUTURE)));
}

#[test]
fn a_rival_in_the_far_future_does_not_overflow() {
    let rival = EventKey::arrival(Instant::FAR_FUTURE);
    let turn = against(rival, 10);
    assert!(turn.allows(rival));
    assert!(turn.until() < Instant::FAR_FUTURE);
}

#[test]
fn without_events_there_is_no_turn() {
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    assert!(turns.hand_over(None, false).is_some());
    assert_eq!(turns.heard(1, end(1, None)), Ok(()));
    assert_eq!(turns.holder(), None);
    assert_eq!(turns.mine(), None);
    assert_eq!(turns.next_event(), None);
    assert_eq!(turns.hand_over(None, false), None);
}

#[test]
fn a_message_gives_its_receiver_an_event() {
    let mut turns = TurnOrder::new(1, 3, Duration::ZERO);
    assert_eq!(turns.heard(0, end_with(0, None, 1, 5)), Ok(()));
    assert!(turns.hand_over(None, false).is_some());
    assert_eq!(turns.heard(2, end_with(2, None, 1, 7)), Ok(()));
    assert_eq!(turns.next_event(), Some(at(7)));
    assert!(turns.mine().is_some());
}

#[test]
fn a_hand_over_without_the_turn_has_no_effect() {
    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    let before = turns.clone();
    assert_eq!(turns.hand_over(Some(key(9, 1)), true), None);
    assert_eq!(turns, before);
}

#[test]
fn instants_before_the_turn_count_as_its_beginning() {
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    turns.note_sent(1, at(-7));
    let end = turns.hand_over(Some(key(-5, 3)), false);
    assert_eq!(end, Some(end_with(0, Some(key(0, 3)), 1, 0)));
    let mut other = TurnOrder::new(1, 2, Duration::ZERO);
    let end = end.expect("the turn was node 0's");
    assert_eq!(other.heard(0, end), Ok(()));
}

#[test]
fn a_later_end_waits_for_the_earlier_one() {
    let mut turns = TurnOrder::new(2, 3, Duration::ZERO);
    assert_eq!(turns.heard(1, end(1, Some(key(30, 1)))), Ok(()));
    assert_eq!(turns.holder(), Some(0));
    assert_eq!(turns.heard(0, end(0, Some(key(20, 1)))), Ok(()));
    assert_eq!(turns.holder(), Some(2));
    assert_eq!(turns.mine().map(|turn| turn.until()), Some(at(20)));
}

#[test]
fn a_node_that_has_left_gets_no_turn() {
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    turns.note_sent(1, at(5));
    assert!(turns.hand_over(None, true).is_some());
    assert_eq!(turns.holder(), Some(1));
    // Neither its own next event nor a message brings it back.
    assert_eq!(turns.heard(1, end_with(1, None, 0, 7)), Ok(()));
    assert_eq!(turns.holder(), None);
    let leaves = TurnEnd {
        leaves: true,
        ..end_with(0, Some(key(3, 1)), 0, 3)
    };
    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    assert_eq!(turns.heard(0, leaves), Ok(()));
    assert_eq!(
        turns.mine().map(|turn| turn.until()),
        Some(Instant::FAR_FUTURE)
    );
    let again = turns.heard(0, end(1, Some(key(3, 1))));
    assert_eq!(again, Err(TurnFault::NotItsTurn { node: 0, turn: 1 }));
}

#[test]
fn only_the_node_with_the_turn_ends_it() {
    let not_its = |node, turn| Err(TurnFault::NotItsTurn { node, turn });
    let mut turns = TurnOrder::new(2, 3, Duration::ZERO);
    assert_eq!(turns.heard(1, end(0, None)), not_its(1, 0));

    // A node with a number that does not exist.
    let mut turns = TurnOrder::new(2, 3, Duration::ZERO);
    assert_eq!(turns.heard(3, end(0, None)), not_its(3, 0));

    // The receiver's own turn.
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    assert_eq!(turns.heard(0, end(0, None)), not_its(0, 0));
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    assert_eq!(turns.heard(1, end(0, None)), not_its(1, 0));

    // A later turn, which is found when the earlier one ends.
    let mut turns = TurnOrder::new(2, 3, Duration::ZERO);
    assert_eq!(turns.heard(0, end(1, None)), Ok(()));
    assert_eq!(turns.heard(0, end(0, None)), not_its(0, 1));
}

#[test]
fn no_event_precedes_the_turn() {
    let past = |turn| Err(TurnFault::Past { node: 0, turn });
    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    assert_eq!(turns.heard(0, end(0, Some(key(-1, 0)))), past(0));
    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    assert_eq!(turns.heard(0, end_with(0, None, 1, -1)), past(0));

    // The second turn of node 0 begins at 20.
    let second = || {
        let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
        assert_eq!(turns.heard(0, end(0, Some(key(20, 1)))), Ok(()));
        assert!(turns.hand_over(Some(key(30, 1)), false).is_some());
        turns
    };
    assert_eq!(second().heard(0, end(2, Some(key(19, 1)))), past(2));
    assert_eq!(second().heard(0, end_with(2, None, 1, 19)), past(2));
    assert_eq!(
        second().heard(0, end_with(2, Some(key(20, 0)), 1, 20)),
        Ok(())
    );
}

#[test]
fn messages_are_for_nodes_that_exist() {
    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    let before = turns.clone();
    let no_such = |to| Err(TurnFault::NoSuchNode { node: 0, to });
    assert_eq!(turns.heard(0, end_with(0, None, 2, 5)), no_such(2));
    assert_eq!(
        turns.heard(0, end_with(9, None, usize::MAX, 5)),
        no_such(usize::MAX)
    );
    assert_eq!(turns, before);
}

#[test]
fn each_turn_ends_once() {
    let again = |turn| Err(TurnFault::OutOfOrder { node: 0, turn });
    let mut turns = TurnOrder::new(1, 3, Duration::ZERO);
    assert_eq!(turns.heard(0, end(2, None)), Ok(()));
    assert_eq!(turns.heard(0, end(2, None)), again(2));
    assert_eq!(turns.heard(0, end(0, Some(key(9, 1)))), Ok(()));
    assert_eq!(turns.heard(0, end(0, Some(key(9, 1)))), again(0));
}

/// Even if as many ends wait as may, that of the present turn is accepted.
#[test]
fn the_ends_that_wait_are_limited() {
    let mut turns = TurnOrder::new(1, 3, Duration::ZERO);
    let accepted = (1..MOST_AHEAD + 9).filter(|turn| turns.heard(0, end(*turn, None)).is_ok());
    assert_eq!(accepted.count() as u64, MOST_AHEAD - 1);
    let not_its = TurnFault::NotItsTurn { node: 0, turn: 1 };
    assert_eq!(turns.heard(0, end(0, Some(key(9, 1)))), Err(not_its));
}

/// A node that claims a turn of another is blamed for it, and the other is heard.
#[test]
fn a_claim_does_not_hide_the_end_of_its_turn() {
    let mut turns = TurnOrder::new(1, 3, Duration::ZERO);
    assert_eq!(turns.heard(2, end(2, None)), Ok(()));
    assert_eq!(turns.heard(0, end(2, None)), Ok(()));
    assert_eq!(turns.heard(0, end(0, Some(key(9, 1)))), Ok(()));
    assert!(turns.hand_over(Some(key(9, 1)), false).is_some());
}

/// Until all nodes are settled, messages may arrive at once, and no node acts ahead of others.
#[test]
fn the_lookahead_counts_once_all_nodes_are_settled() {
    let mut turns = TurnOrder::new(0, 2, ns(10)).with_unsettled([1]);
    assert!(turns.hand_over(Some(key(20, 1)), false).is_some());
    let unsettled = TurnEnd {
        is_settled: false,
        ..end_with(1, Some(key(50, 1)), 0, 0)
    };
    assert_eq!(turns.heard(1, unsettled), Ok(()));
    let turn = turns.mine().expect("the turn is node 0's");
    assert_eq!((turn.allows(key(51, 1)), turn.until()), (false, at(50)));
    assert!(turns.hand_over(Some(key(60, 1)), false).is_some());
    assert_eq!(turns.heard(1, end(3, Some(key(70, 1)))), Ok(()));
    let turn = turns.mine().expect("the turn is node 0's");
    assert_eq!((turn.allows(key(79, 1)), turn.until()), (true, at(79)));

    let mut turns = TurnOrder::new(1, 2, ns(10)).with_unsettled([1]);
    assert_eq!(turns.heard(0, end(0, Some(key(20, 1)))), Ok(()));
    let before = turns.hand_over(Some(key(30, 1)), false);
    assert!(before.is_some_and(|end| !end.is_settled));
    assert_eq!(turns.heard(0, end(2, Some(key(40, 1)))), Ok(()));
    turns.settle();
    let after = turns.hand_over(Some(key(50, 1)), false);
    assert!(after.is_some_and(|end| end.is_settled));
}

/// Both nodes come to the stop, stand there, and go on from there.
#[test]
fn all_nodes_stand_at_a_common_stop() {
    let mut nodes = [0, 1].map(|me| TurnOrder::new(me, 2, ns(10)));
    let hand_over = |nodes: &mut [TurnOrder; 2], from: usize, next| {
        let end = nodes[from].hand_over(Some(next), false);
        let end = end.expect("it has the turn");
        assert_eq!(nodes[1 - from].heard(from, end), Ok(()));
    };
    hand_over(&mut nodes, 0, key(20, 1));
    hand_over(&mut nodes, 1, key(90, 1));
    nodes.iter_mut().for_each(|node| node.stop_at(Some(at(50))));
    let turn = nodes[0].mine().expect("the turn is node 0's");
    assert_eq!(
        (turn.allows(key(50, 3)), turn.allows(key(51, 0))),
        (true, false)
    );
    assert_eq!(turn.until(), at(50));
    hand_over(&mut nodes, 0, key(60, 1));
    // Node 1 has announced a later event before there was a stop.
    assert_eq!(
        nodes.each_ref().map(|node| node.mine().is_some()),
        [false; 2]
    );
    nodes.iter_mut().for_each(|node| node.stop_at(None));
    let turn = nodes[0].mine().expect("the turn is node 0's again");
    assert!(turn.allows(key(60, 1)));
    hand_over(&mut nodes, 0, key(95, 1));
    assert!(nodes[1].mine().is_some());
}

/// The events of the turn's first instant keep their order.
#[test]
fn a_stop_before_the_turn_takes_effect_after_its_first_instant() {
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    assert!(turns.hand_over(Some(key(60, 3)), false).is_some());
    assert_eq!(turns.heard(1, end(1, Some(key(70, 1)))), Ok(()));
    turns.stop_at(Some(at(20)));
    let turn = turns.mine().expect("the turn is node 0's");
    assert_eq!(
        (turn.allows(key(60, 3)), turn.allows(key(61, 0))),
        (true, false)
    );
    let handed = turns.hand_over(Some(key(65, 1)), false);
    assert_eq!(handed, Some(end(2, Some(key(60, u32::MAX)))));
    assert_eq!(turns.mine(), None);
}

/// A message that was recorded before the turn arrives within it.
#[test]
fn a_message_is_announced_for_no_earlier_than_the_turn_allows() {
    let mut turns = TurnOrder::new(1, 2, ns(10));
    turns.note_sent(0, at(3));
    assert_eq!(turns.heard(0, end(0, Some(key(40, 1)))), Ok(()));
    assert!(turns.hand_over(Some(key(90, 1)), false).is_some());
    turns.note_sent(0, at(12));
    assert_eq!(turns.heard(0, end(2, Some(key(95, 1)))), Ok(()));
    let handed = turns.hand_over(Some(key(99, 1)), false);
    assert_eq!(handed, Some(end_with(3, Some(key(99, 1)), 0, 100)));
}

/// A node that has come to the stop still acts when a message arrives before it.
#[test]
fn a_message_before_the_stop_is_received() {
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    turns.stop_at(Some(at(50)));
    assert!(turns.hand_over(Some(key(60, 1)), false).is_some());
    assert_eq!(turns.mine(), None);
    assert_eq!(turns.heard(1, end_with(1, Some(key(50, 2)), 0, 40)), Ok(()));
    let turn = turns.mine().expect("a message has arrived");
    assert!(turn.allows(EventKey::arrival(at(40))));
    assert!(turns.hand_over(Some(key(60, 1)), false).is_some());
    assert_eq!(turns.holder(), Some(1));
}

/// The receiver of a message may answer, so no later event comes before the message arrives.
#[test]
fn a_message_limits_the_turn_in_which_it_is_sent() {
    let mut turns = TurnOrder::new(0, 2, Duration::ZERO);
    assert!(turns.hand_over(Some(key(10, 1)), false).is_some());
    assert_eq!(turns.heard(1, end(1, Some(key(200, 1)))), Ok(()));
    turns.note_sent(1, at(60));
    turns.note_sent(1, at(50));
    turns.note_sent(1, at(70));
    let turn = turns.mine().expect("the turn is node 0's");
    assert!(turn.allows(key(49, 9)));
    assert!(!turn.allows(key(51, 1)));
    assert_eq!(turn.until(), at(50));
    let handed = turns.hand_over(Some(key(75, 1)), false);
    assert_eq!(handed, Some(end_with(2, Some(key(75, 1)), 1, 50)));
    // Messages to itself and to strangers are none.
    turns.note_sent(0, at(3));
    turns.note_sent(9, at(3));
    assert_eq!(turns.holder(), Some(1));
}

#[test]
fn the_greatest_number_of_a_turn_does_no_harm() {
    let mut turns = TurnOrder::new(1, 2, Duration::ZERO);
    let heard = turns.heard(0, end(u64::MAX, None));
    assert!(matches!(heard, Err(TurnFault::OutOfOrder { .. })));
    assert_eq!(turns.holder(), Some(0));
}

#[test]
fn random_ends_cause_faults_and_no_panic() {
    for seed in 0..2_000 {
        let mut random = program::Random(seed);
        let mut turns = TurnOrder::new(1, 3, ns(random.up_to(5)));
        let mut faults = 0;
        for _ in 0..50 {
            if random.below(3) == 0 {
                let next = key(random.up_to(9), 1);
                turns.hand_over(Some(next), random.below(20) == 0);
            }
            let next = key(random.up_to(20) - 2, random.below(3) as u32);
            let hostile = TurnEnd {
                leaves: random.below(20) == 0,
                is_settled: random.below(20) > 0,
                ..end_with(
                    turns.turn.saturating_sub(1) + random.below(4),
                    Some(next).filter(|_| random.below(4) > 0),
                    random.below(4) as usize,
                    random.up_to(20) - 2,
                )
            };
            let node = random.below(4) as usize;
            faults += usize::from(turns.heard(node, hostile).is_err());
            assert!(turns.holder().is_none_or(|node| node < 3), "seed {seed}");
            let next = turns.next_event();
            assert!(next.is_none_or(|next| next >= at(0)), "seed {seed}");
        }
        assert!(faults > 0, "seed {seed}");
    }
}

#[test]
fn messages_name_the_node_and_the_turn() {
    let fault = TurnFault::NotItsTurn { node: 3, turn: 7 };
    assert_eq!(
        fault.to_string(),
        "node 3 ended turn 7, which was not its own"
    );
}
