//! Agreement of several sources, some of which may be wrong.

use super::Bound;

/// Returns the narrowest bound that contains true time if at most `liars` of `bounds` do not
/// contain it.
///
/// The result reaches from the first to the last point that lies in all bounds but `liars`. (NTP
/// intersects its sources in this way, RFC 5905, section 11.2.1; unlike there, the middles of the
/// bounds do not count.) The points need not be connected. The result spans all of them, because
/// true time may be in any piece. All bounds must be for the same instant.
///
/// Returns `None` if there is no such point, that is, more than `liars` bounds are wrong. Also
/// returns `None` if there are so few bounds that all could be wrong.
pub fn agree(bounds: &[Bound], liars: usize) -> Option<Bound> {
    let needed = bounds
        .len()
        .checked_sub(liars)
        .filter(|needed| *needed > 0)?;
    // At the same point, starts are sorted before ends: intervals that only touch share the point.
    let mut edges: Vec<_> = bounds
        .iter()
        .flat_map(|bound| [(bound.earliest, false), (bound.latest, true)])
        .collect();
    edges.sort_unstable();
    let (mut covering, mut earliest, mut latest) = (0usize, None, None);
    for (at, is_end) in edges {
        if is_end {
            if covering >= needed {
                latest = Some(at);
            }
            covering -= 1;
        } else {
            covering += 1;
            if covering >= needed && earliest.is_none() {
                earliest = Some(at);
            }
        }
    }
    Some(Bound {
        at: bounds[0].at,
        earliest: earliest?,
        latest: latest?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use timeloom_time::Instant;

    fn bound(earliest: i64, latest: i64) -> Bound {
        let at = Instant::ZERO;
        Bound {
            at,
            earliest: Instant::from_ns(earliest),
            latest: Instant::from_ns(latest),
        }
    }

    #[test]
    fn a_single_liar_among_three_is_outvoted_and_two_are_noticed() {
        let honest = [bound(0, 10), bound(5, 12)];
        assert_eq!(
            agree(&[honest[0], honest[1], bound(1000, 1001)], 1),
            Some(bound(5, 10))
        );
        assert_eq!(
            agree(&[honest[0], bound(500, 501), bound(1000, 1001)], 1),
            None
        );
        assert_eq!(agree(&honest, 0), Some(bound(5, 10)));
        assert_eq!(agree(&honest, 1), Some(bound(0, 12)));
        assert_eq!(agree(&honest[..1], 1), None);
        assert_eq!(agree(&[], 0), None);
    }

    proptest! {
        #[test]
        fn truth_is_inside_for_any_lies(
            honest in prop::collection::vec((0i64..1000, 0i64..1000), 1..6),
            lies in prop::collection::vec((-5000i64..5000, 0i64..3000), 0..3),
        ) {
            let mut bounds: Vec<Bound> = honest.iter().map(|(b, a)| bound(-b, *a)).collect();
            bounds.extend(lies.iter().map(|(at, width)| bound(*at, at + width)));
            if bounds.len() > lies.len() {
                let agreed = agree(&bounds, lies.len()).unwrap();
                prop_assert!(agreed.earliest <= Instant::ZERO && Instant::ZERO <= agreed.latest);
            }
        }
    }
}
