// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_ring_state)]
mod cases {
    use super::super::{
        super::job::RingJob,
        *, //
    };

    const BYTES: usize = 128;

    fn state() -> KBox<State<RingEnd<u32>>> {
        let mut state = KBox::init(
            State::init(KVVec::new(), &Handover::default(), History::none()),
            GFP_KERNEL,
        )
        .unwrap();
        state.start();
        state
    }

    fn job(payload: u32) -> Job<RingEnd<u32>> {
        Job::new(
            payload,
            RingJob {
                flushed: 5,
                ..RingJob::default()
            },
        )
    }

    /// Reserves a place without filling it.
    fn reserve(state: &mut State<RingEnd<u32>>, payload: u32) -> Option<Place> {
        let at = state.find(BYTES, &mut Wish::new(None))?;
        let place = state
            .reserve(at, BYTES, &mut Wish::new(None), job(payload))
            .ok()?;
        state.front.gpu.pipe = Some(Pipe::Pipe3d);
        state.front.gpu.flushed = 5;
        Some(place)
    }

    #[test]
    fn one_place_is_filled_at_a_time() {
        let mut state = state();
        let first = reserve(&mut state, 1).unwrap();
        assert_eq!((first.at, first.previous_wait, first.number), (16, 0, 1));
        assert_eq!(first.wait, 16 + BYTES - WAIT_LINK_BYTES);
        assert!(state.find(BYTES, &mut Wish::new(None)).is_none());
        state.mark_filled();
        let second = reserve(&mut state, 2).unwrap();
        assert_eq!(second.previous_wait, first.wait);
        assert_eq!(second.at, first.at + BYTES);
    }

    #[test]
    fn the_front_end_is_found() {
        let mut state = state();
        let places = [1, 2].map(|payload| {
            let place = reserve(&mut state, payload).unwrap();
            state.mark_filled();
            place
        });
        let at = |state: &State<RingEnd<u32>>, place| state.whereabouts(place, 0);
        assert_eq!(at(&state, 0), Whereabouts::Before);
        assert_eq!(at(&state, 8), Whereabouts::Before);
        assert_eq!(at(&state, places[0].at), Whereabouts::Entering(0));
        assert_eq!(at(&state, places[0].wait), Whereabouts::After(0));
        assert_eq!(at(&state, places[1].at + 8), Whereabouts::Entering(1));
        assert_eq!(
            at(&state, places[1].at + FETCHED_AHEAD - 8),
            Whereabouts::Entering(1)
        );
        assert_eq!(at(&state, places[1].at + FETCHED_AHEAD), Whereabouts::In(1));
        assert_eq!(at(&state, places[1].wait + 16), Whereabouts::After(1));
        assert_eq!(at(&state, USABLE_BYTES), Whereabouts::Before);
        assert_eq!(at(&state, RING_BYTES), Whereabouts::Lost);
        assert_eq!(at(&state, places[1].wait + 64), Whereabouts::Lost);
        assert!(state.pop().is_some());
        // The loop after the first job is now the one before the second.
        assert_eq!(at(&state, places[0].wait + 8), Whereabouts::Before);
        assert_eq!(at(&state, places[1].at), Whereabouts::Entering(0));
    }

    #[test]
    fn the_next_job_does_not_pay_for_actions() {
        let mut state = state();
        for payload in [1, 2] {
            reserve(&mut state, payload).unwrap();
            state.mark_filled();
        }
        state.meter.begin(Stamp::at(0, 0));
        state.charge(0, Stamp::at(50, 0));
        assert!(state.pop().is_some());
        state.charge_actions(0, Stamp::at(90, 0), &1);
        assert_eq!(state.meter.end(Stamp::at(100, 0)), 10);
        // No next job has begun.
        assert!(state.pop().is_some());
        state.charge_actions(0, Stamp::at(120, 0), &2);
        assert_eq!(state.meter.load(None, Stamp::at(120, 0)).busy, 100);
    }

    #[test]
    fn a_restart_loads_the_tables_that_a_job_takes_for_loaded() {
        let (own, others) = (PageTables::V2(0x1000), PageTables::V2(0x2000));
        let wanted = |all: &[Tables]| {
            let mut state = state();
            for (payload, &tables) in (1..).zip(all) {
                reserve(&mut state, payload).unwrap();
                state.mark_filled();
                if let Some(job) = state.jobs.load_at(payload.into()) {
                    job.own.basis.tables = tables;
                }
            }
            state.tables_before(0)
        };
        assert_eq!(wanted(&[]), None);
        assert_eq!(wanted(&[Tables::Any]), None);
        assert_eq!(wanted(&[Tables::Any, Tables::Loaded(own)]), Some(own));
        assert_eq!(
            wanted(&[Tables::Loaded(own), Tables::Loaded(others)]),
            Some(own)
        );
        assert_eq!(wanted(&[Tables::Loads, Tables::Loaded(others)]), None);
    }

    #[test]
    fn no_thread_gets_a_place_meanwhile() {
        let mut state = state();
        state.is_paused = true;
        assert!(state.find(BYTES, &mut Wish::new(None)).is_none());
        state.is_paused = false;
        assert!(state.find(BYTES, &mut Wish::new(None)).is_some());
    }

    #[test]
    fn jobs_wait_for_a_core_that_is_off_and_not_while_the_machine_sleeps() {
        let mut state = state();
        assert!(state.is_at_rest());
        state.is_off = true;
        assert!(reserve(&mut state, 1).is_some());
        assert!(!state.is_at_rest());
        state.mark_filled();
        assert!(!state.is_at_rest());
        // A queued hang check keeps the core on.
        state.is_checked = true;
        assert!(state.pop().is_some());
        assert!(!state.is_at_rest());
        state.is_checked = false;
        assert!(state.is_at_rest());
        state.phase.fall_asleep();
        assert!(state.find(BYTES, &mut Wish::new(None)).is_none());
        assert!(state.is_at_rest());
        state.phase.wake_up();
        assert!(state.find(BYTES, &mut Wish::new(None)).is_some());
    }

    #[test]
    fn a_core_whose_jobs_are_held_may_go_off() {
        let mut state = state();
        assert!(reserve(&mut state, 1).is_some());
        state.mark_filled();
        assert!(!state.is_at_rest());
        state.phase.fall_asleep();
        state.is_held = true;
        assert!(state.is_at_rest());
        state.is_checked = true;
        assert!(!state.is_at_rest());
        state.is_checked = false;
        // The machine is awake, so the core must run them.
        state.phase.wake_up();
        assert!(!state.is_at_rest());
        // A core that is bound again has no held jobs.
        state.start();
        assert!(!state.is_held);
    }

    #[test]
    fn each_job_begins_once_when_the_one_in_front_has_ended() {
        let mut state = state();
        assert_eq!(state.begins(), None);
        for payload in 1..=4 {
            reserve(&mut state, payload).unwrap();
            state.mark_filled();
        }
        assert_eq!(state.begins(), Some(1));
        assert_eq!(state.begins(), None);
        assert!(state.pop().is_some());
        // No job begins while the core is off, or jobs are held.
        state.is_off = true;
        assert_eq!(state.begins(), None);
        state.is_off = false;
        state.is_held = true;
        assert_eq!(state.begins(), None);
        state.is_held = false;
        assert_eq!(state.begins(), Some(2));
        // A job that was dropped before its begin does not begin.
        if let Some(job) = state.jobs.load_at(3) {
            job.outcome = Outcome::Dropped;
        }
        assert!(state.pop().is_some());
        assert_eq!(state.begins(), None);
        assert!(state.pop().is_some());
        assert_eq!(state.begins(), Some(4));
    }

    #[test]
    fn the_ring_goes_on_after_a_place_that_was_returned() {
        let mut state = state();
        reserve(&mut state, 1).unwrap();
        state.mark_filled();
        let moves = state.moves;
        let given_back = reserve(&mut state, 2).unwrap();
        state.mark_given_back();
        // Submitters that wait for a place try again.
        assert_ne!(state.moves, moves);
        // The driver assumes nothing about the GPU's state.
        assert_eq!(state.front.gpu.pipe, None);
        assert_eq!(state.front.gpu.flushed, NEVER_FLUSHED);
        let next = reserve(&mut state, 3).unwrap();
        state.mark_filled();
        assert_eq!(next.previous_wait, given_back.wait);
        let ended = [1, 2, 3].map(|_| state.pop().map(|done| done.load));
        let ended = ended.map(|job| job.map(|job| (job.payload, job.outcome, job.own.flushed)));
        let (done, never) = (Outcome::Done, Outcome::NeverRun);
        assert_eq!(
            ended,
            [Some((1, done, 5)), Some((2, never, 0)), Some((3, done, 5))]
        );
        // The whole ring is free, except for the idle loop at its end.
        let largest = Space::largest(USABLE_BYTES);
        assert!(state.find(largest, &mut Wish::new(None)).is_some());
    }
}
