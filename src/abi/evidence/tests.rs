// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_evidence)]
mod cases {
    use super::super::*;

    const NOTHING: ObjectKinds = ObjectKinds {
        nodes: false,
        buffers: false,
        user_memory: false,
        pool_view: false,
    };

    /// Stale data of a client.
    const NOISE: u32 = 0x9ABC_DEF0;

    /// Weighs a request. Returns the likeliest generation's name, whether it is final, and how many
    /// and which candidates remain.
    fn weighed(
        of: Candidates,
        current: &str,
        words: &[u32],
        has: ObjectKinds,
        read: Reader<'_>,
    ) -> Option<(&'static str, bool, u32, Candidates)> {
        let current = Choice::by_name(current.as_bytes(), Reason::First)?;
        let detection = of.weigh(current, words, has, 0, read);
        Some((
            detection.choice.format().name(),
            detection.is_final,
            detection.left.places.count_ones(),
            detection.left,
        ))
    }

    /// A request of 6.2 with ones in all fields.
    fn request(command: u32) -> [u32; 100] {
        let mut words = [1; 100];
        words[0] = command;
        words
    }

    #[test]
    fn command_numbers_are_evidence() {
        let all = Candidates::of_size(32, 400);
        let weigh = |words: &[u32], has| weighed(all, "6.2.4.p2", words, has, &mut |_, _| false);
        let short = |found: Option<(&'static str, bool, u32, Candidates)>| {
            found.map(|(name, is_final, left, _)| (name, is_final, left))
        };
        // 41 is VERSION in all of them.
        let found = short(weigh(&request(41), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 4)));
        // 7 is ALLOCATE_LINEAR_VIDEO_MEMORY up to 6.2.3; later a command that is not built.
        let found = short(weigh(&request(7), NOTHING));
        assert_eq!(found, Some(("6.2.3", false, 2)));
        // 8 is RELEASE_VIDEO_MEMORY up to 6.2.3, and ALLOCATE_LINEAR_VIDEO_MEMORY later.
        let found = short(weigh(&request(8), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 2)));
        // With a node, both make sense: the likeliest reading wins.
        let nodes = ObjectKinds {
            nodes: true,
            ..NOTHING
        };
        let found = short(weigh(&request(8), nodes));
        assert_eq!(found, Some(("6.2.4.p2", false, 2)));
        // 9 is MAP_MEMORY, later RELEASE_VIDEO_MEMORY. 10 is UNMAP_MEMORY, later MAP_MEMORY.
        let of_pool = |command| {
            let mut words = request(command);
            words[10] = POOL_NAME;
            words
        };
        let found = short(weigh(&of_pool(9), NOTHING));
        assert_eq!(found, Some(("6.2.3", false, 2)));
        let found = short(weigh(&of_pool(10), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 2)));
        // A process without a view of the pool does not unmap one, whatever the guess so far.
        let taken_for = |name, has| {
            let mut none = |_: u64, _: &mut [u32]| false;
            short(weighed(all, name, &of_pool(10), has, &mut none))
        };
        assert_eq!(taken_for("6.2.3", NOTHING), Some(("6.2.4.p2", false, 2)));
        let view = ObjectKinds {
            pool_view: true,
            ..NOTHING
        };
        assert_eq!(taken_for("6.2.3", view), Some(("6.2.3", false, 2)));
        // QUERY_CHIP_OPTION is 73 or 74: in the others no command, or one for nodes.
        let found = short(weigh(&request(73), NOTHING));
        assert_eq!(found, Some(("6.2.4.p3", true, 1)));
        let found = short(weigh(&request(74), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", true, 1)));
        // 65 is WRAP_USER_MEMORY, here of nothing, or GET_VIDEO_MEMORY_FD in 5.0.11.p6.
        let found = weighed(
            Candidates::of_size(32, 320),
            "5.0.11.p8",
            &{
                let mut words = [0; 80];
                words[0] = 65;
                words
            },
            nodes,
            &mut |_, _| false,
        );
        assert_eq!(short(found), Some(("5.0.11.p6", false, 2)));
        // No generation has this command.
        let found = short(weigh(&request(200), NOTHING));
        assert_eq!(found, Some(("6.2.4.p2", false, 4)));
    }

    #[test]
    fn cache_operations_are_evidence() {
        let all = Candidates::of_size(16, 128);
        let weigh = |payload: [u32; 7]| {
            let union_at = Choice::by_name(b"v4", Reason::First)
                .map_or(0, |choice| usize::from(choice.format().0.union_at) / 4);
            let mut words = [0; 32];
            words[0] = 35;
            words[union_at..union_at + 7].copy_from_slice(&payload);
            // Memory from 64 KiB on is readable.
            let found = weighed(all, "v4", &words, NOTHING, &mut |at, _| at >= 0x1_0000);
            found.map(|(name, is_final, left, _)| (name, is_final, left))
        };
        // v4: operation (flush), process, address, bytes.
        let found = weigh([3, 5000, 0xA000_0000, 4096, 0, 0, 0]);
        assert_eq!(found, Some(("v4", true, 1)));
        // eureka: invalidate, operation, process, physical address, address, bytes.
        let found = weigh([1, 3, 5000, 0, 0xA000_0000, 4096, 0]);
        assert_eq!(found, Some(("eureka", true, 1)));
        // A barrier.
        let found = weigh([4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(found, Some(("v4", true, 1)));
        assert_eq!(weigh([0; 7]), Some(("v4", false, 2)));
    }

    #[test]
    fn guesses_become_final() {
        let mut left = Candidates::of_size(32, 400);
        for request_number in 1..=MOST_REQUESTS {
            let found = weighed(left, "6.2.4.p2", &request(41), NOTHING, &mut |_, _| false);
            let Some((_, is_final, _, next)) = found else {
                break;
            };
            assert_eq!(is_final, request_number == MOST_REQUESTS);
            left = Candidates::unpack(next.pack());
            assert_eq!(left, next);
        }
        assert_eq!(left.requests, MOST_REQUESTS);
    }

    /// The likeliest generation for a USER_SIGNAL of 216 bytes with this sub-command and the words
    /// `with` at byte `at`, and the number of candidates.
    fn user_signal(
        current: &str,
        command: u32,
        at: usize,
        with: [u32; 2],
    ) -> Option<(&'static str, u32)> {
        let union_at = Choice::by_name(b"dove", Reason::First)
            .map_or(0, |choice| usize::from(choice.format().0.union_at) / 4);
        let mut words = [0; 54];
        words[0] = 16;
        words[union_at] = command;
        words[union_at + at / 4..][..2].copy_from_slice(&with);
        let all = Candidates::of_size(16, 216);
        let found = weighed(all, current, &words, NOTHING, &mut |_, _| false);
        found.map(|(name, _, left, _)| (name, left))
    }

    #[test]
    fn timeouts_are_evidence() {
        let wait = |current, at_12, at_16| user_signal(current, 3, 12, [at_12, at_16]);
        // The timeout is at byte 16 in dove, at 12 in the others. The other word is arbitrary.
        assert_eq!(wait("v2", NOISE, 20_000), Some(("dove", 3)));
        assert_eq!(wait("dove", 20_000, NOISE), Some(("v2", 3)));
        assert_eq!(wait("v2", NOISE, 0), Some(("dove", 3)));
        assert_eq!(wait("dove", 1, NOISE), Some(("v2", 3)));
        assert_eq!(wait("v2", NOISE, 120_000), Some(("dove", 3)));
        // Both readings are plausible, or both are unlikely: no evidence.
        assert_eq!(wait("dove", 0, 1), Some(("dove", 3)));
        assert_eq!(wait("v2", 0, 0), Some(("v2", 3)));
        assert_eq!(wait("dove", NOISE, NOISE), Some(("dove", 3)));
    }

    #[test]
    fn signal_states_are_evidence() {
        let signal = |current, at_16, at_20| user_signal(current, 2, 16, [at_16, at_20]);
        // The state is at byte 20 in dove, at 16 in the others.
        assert_eq!(signal("dove", 1, 0), Some(("v2", 3)));
        assert_eq!(signal("v2", 0, 1), Some(("dove", 3)));
        for current in ["dove", "v2"] {
            for [at_16, at_20] in [[0, 0], [1, 1], [NOISE, 0], [0, NOISE], [NOISE, NOISE]] {
                assert_eq!(signal(current, at_16, at_20), Some((current, 3)));
            }
            assert_eq!(signal(current, 1, NOISE), Some(("v2", 3)));
            assert_eq!(signal(current, NOISE, 1), Some(("dove", 3)));
        }
    }

    #[test]
    fn content_restores_a_candidate() {
        let all = Candidates::of_size(16, 216);
        let place = |name: &str| Choice::by_name(name.as_bytes(), Reason::First);
        let (Some(dove), Some(v2)) = (place("dove"), place("v2")) else {
            return;
        };
        // A context without content, or with content in fields of dove.
        let object_at = dove.format().0.context.object.at() as usize / 4;
        let mut commit = [0x1_0000; 54];
        commit[0] = 19;
        let context = |has_states: bool| {
            let mut context = [0; 54];
            context[object_at] = ClientContext::OBJECT_TYPE;
            if has_states {
                context[dove.format().0.context.buffer_size.at() as usize / 4] = 0x1000;
                context[156 / 4] = 0x2_0000;
                context[160 / 4] = 0x2_0800;
            }
            context
        };
        let weigh = |of: Candidates, current, words: &[u32], context: [u32; 54], most| {
            let mut read = |_: u64, words: &mut [u32]| {
                for (word, &with) in words.iter_mut().zip(&context) {
                    *word = with;
                }
                words.len() <= most
            };
            let detection = of.weigh(current, words, NOTHING, 0, &mut read);
            (detection.choice.format().name(), detection.left)
        };
        // Only as many bytes are readable as v2 has in a context: it is not dove's.
        let short = context(false);
        let (taken, left) = weigh(all, dove, &commit, short, 128 / 4);
        assert_eq!((taken, left.has(dove)), ("v2", false));
        // A context with content restores its generation; one without content does not.
        let (taken, after) = weigh(left, v2, &commit, context(false), 54);
        assert_eq!((taken, after.has(dove)), ("v2", false));
        let (taken, after) = weigh(left, v2, &commit, context(true), 54);
        assert_eq!((taken, after.places), ("dove", dove.bit()));
    }

    #[test]
    fn contexts_tell() {
        // COMMIT is the same in all of these: command buffer, context.
        let all = Candidates::of_size(16, 216);
        let mut words = [0x1_0000; 54];
        words[0] = 19;
        let choice = Choice::by_name(b"v2", Reason::First);
        let size_at = choice.map_or(0, |choice| choice.format().0.context.buffer_size.at());
        let context = |logical: usize| {
            let mut context = [0; 54];
            context[0] = ClientContext::OBJECT_TYPE;
            // bufferSize, logical, link.
            context[size_at as usize / 4] = 0x1000;
            context[logical] = 0x2_0000;
            context[logical + 1] = 0x2_0800;
            context
        };
        let weigh = |context: [u32; 54]| {
            let mut read = |_: u64, words: &mut [u32]| {
                for (word, &with) in words.iter_mut().zip(&context) {
                    *word = with;
                }
                true
            };
            let found = weighed(all, "v2", &words, NOTHING, &mut read);
            found.map(|(name, is_final, left, _)| (name, is_final, left))
        };
        assert_eq!(weigh(context(156 / 4)), Some(("dove", true, 1)));
        // dove_old remains, too: it has the same context.
        assert_eq!(weigh(context(76 / 4)), Some(("v2", false, 2)));
    }
}
