// SPDX-License-Identifier: GPL-2.0-only

//! The KUnit suite of [`super`].

#[kernel::macros::kunit_tests(galcore_turns)]
mod cases {
    use super::super::*;
    use crate::limits::MAX_CORES;

    fn reservation() -> Reservation {
        Reservation::new().unwrap()
    }

    fn empty_line() -> Line {
        Line::new(Epoch::default())
    }

    fn account() -> Arc<Account> {
        Arc::new(Account::new(1, 1, None), GFP_KERNEL).unwrap()
    }

    /// Commands of two strangers, and of a process that is known.
    fn commands_of(all: &[Arc<Account>; 3]) -> [Wish<'_>; 3] {
        all[2].note_known(true);
        all.each_ref().map(|account| Wish {
            has_commands: true,
            ..Wish::of(account, 0)
        })
    }

    /// Two processes with jobs of that length and as many threads, all of which want places all the
    /// time: how long the jobs of each have run after `rounds` jobs.
    fn run(jobs: [(u64, usize); 2], nice: i32, rounds: usize) -> [u64; 2] {
        let mut line = empty_line();
        let shares = [Share::new(), Share::new()];
        let mut ran = [0; 2];
        let mut wishes: KVec<(usize, Wish<'_>)> = KVec::new();
        for (at, share) in shares.iter().enumerate() {
            for _ in 0..jobs[at].1 {
                let mut wish = Wish::new(Some(share));
                share.nice.store(if at == 0 { nice } else { 0 }, Relaxed);
                line.join(&mut wish, reservation(), 0);
                wishes.push((at, wish), GFP_KERNEL).unwrap();
            }
        }
        for _ in 0..rounds {
            let first = line.first;
            let (at, wish) = wishes
                .iter_mut()
                .find(|(_, wish)| wish.ticket == first)
                .unwrap();
            assert!(line.admits(wish, 0, 9));
            line.admit(wish, 0, 0);
            let cost = wish.cost();
            ran[*at] += jobs[*at].0;
            line.ended(&shares[*at], cost, jobs[*at].0, 0);
            line.join(wish, reservation(), 0);
        }
        ran
    }

    #[test]
    fn processes_have_the_same_time_whatever_their_jobs_and_threads() {
        // One thread with long jobs, eight with short ones.
        let [long, short] = run([(1000, 1), (10, 8)], 0, 1500);
        assert!(long.abs_diff(short) <= 2000);
    }

    #[test]
    fn a_nice_process_has_less() {
        // As a processor's time: a third at 5, three times as much at -5.
        let [nice, other] = run([(100, 2), (100, 2)], 5, 1500);
        assert!((27 * nice..33 * nice).contains(&(10 * other)));
        let [urgent, other] = run([(100, 2), (100, 2)], -5, 1500);
        assert!((26 * other..34 * other).contains(&(10 * urgent)));
    }

    #[test]
    fn long_lists_of_actions_do_not_end_together() {
        let mut line = empty_line();
        let shares = [Share::new(), Share::new()];
        let [mut first, mut second] = shares.each_ref().map(|share| Wish::new(Some(share)));
        (first.actions, second.actions) = (2 * MOST_ACTIONS, 1);
        assert!(line.admits(&mut first, 0, 0));
        line.admit(&mut first, 0, 0);
        assert!(!line.admits(&mut second, 0, 0));
        line.ended(&shares[0], 0, 1, 2 * MOST_ACTIONS);
        assert!(line.admits(&mut second, 0, 0));
        line.admit(&mut second, 0, 0);
        first.actions = MOST_ACTIONS - 1;
        assert!(line.admits(&mut first, 0, 0));
    }

    #[test]
    fn new_processes_do_not_starve_an_old_one() {
        let mut line = empty_line();
        let old = Share::new();
        let mut wish = Wish::new(Some(&old));
        line.admit(&mut wish, 0, 0);
        line.ended(&old, wish.cost(), u64::from(WEIGHT) * 100, 0);
        line.join(&mut wish, reservation(), 0);
        // Each is another one, with one job; one waits all the time.
        let mut others = 0;
        for _ in 0..40 {
            let new = Share::new();
            let mut other = Wish::new(Some(&new));
            line.join(&mut other, reservation(), 0);
            if line.first != other.ticket {
                break;
            }
            line.admit(&mut other, 0, 0);
            line.ended(&new, other.cost(), 100, 0);
            others += 1;
        }
        // As many as the old one's first job was long.
        assert!(others < 10);
    }

    #[test]
    fn strangers_that_wait_for_each_other_hold_up_no_others() {
        let mut line = empty_line();
        let all = [(); 3].map(|()| account());
        let [mut first, mut second, mut known] = commands_of(&all);
        line.admit(&mut first, 7, 0);
        line.join(&mut second, reservation(), 0);
        assert_eq!(line.first, None);
        line.join(&mut known, reservation(), 0);
        assert!(line.admits(&mut known, 0, 0));
        line.admit(&mut known, 8, 0);
        assert!(!line.is_lost(&second));
        line.pass(7, 0);
        assert_eq!(line.first, second.ticket);
        assert!(line.leave(&mut second, 0));
    }

    #[test]
    fn one_stranger_has_a_place() {
        let mut line = empty_line();
        let all = [(); 3].map(|()| account());
        let [mut first, mut second, mut known] = commands_of(&all);
        assert!(line.admits(&mut first, 0, 0));
        line.admit(&mut first, 7, 0);
        assert!(!line.admits(&mut second, 0, 0));
        assert!(line.admits(&mut known, 0, 0));
        line.pass(6, 0);
        assert!(!line.admits(&mut second, 0, 0));
        line.ended(&all[0].shares[0], 0, 1, 0);
        assert!(line.admits(&mut first, 0, 0));
        line.admit(&mut first, 8, 0);
        line.pass(7, 0);
        assert!(!line.admits(&mut second, 0, 0));
        line.pass(8, 0);
        assert!(line.admits(&mut second, 0, 0));
    }

    #[test]
    fn processes_on_trial_take_turns() {
        let mut line = empty_line();
        let all = [(); 3].map(|()| account());
        for account in &all {
            account.note_known(true);
            account.note_trial(true);
        }
        let [mut first, mut second, mut free] = commands_of(&all);
        line.admit(&mut first, 6, 0);
        line.ended(&all[0].shares[0], first.cost(), 1, 0);
        assert!(!line.admits(&mut second, 0, 0));
        line.join(&mut second, reservation(), 0);
        // Another job within its quantum, later none as long as another one waits.
        assert!(line.admits(&mut first, 0, 0));
        line.admit(&mut first, 7, 0);
        line.ended(&all[0].shares[0], first.cost(), 1, 0);
        if let Some(holder) = &mut line.stranger {
            holder.since = holder.since.wrapping_sub(msecs_to_jiffies(QUANTUM));
        }
        assert!(!line.admits(&mut first, 0, 0));
        line.join(&mut first, reservation(), 0);
        all[2].note_trial(false);
        assert!(line.admits(&mut free, 0, 0));
        line.pass(7, 0);
        assert_eq!(line.first, second.ticket);
        line.admit(&mut second, 8, 0);
        assert_eq!(line.first, None);
        line.pass(8, 0);
        assert_eq!(line.first, first.ticket);
        assert!(line.leave(&mut first, 0));
    }

    #[test]
    fn slow_jobs_of_a_process_have_few_places() {
        let mut line = empty_line();
        let (slow, quick) = (Share::new(), Share::new());
        let mut wish = Wish::new(Some(&slow));
        // None has ended: nothing is known. It is alone.
        for _ in 0..ALONE {
            assert!(line.admits(&mut wish, 0, 0));
            line.admit(&mut wish, 0, 0);
        }
        let long = u64::from(line.quantum * ALONE_QUANTA);
        line.ended(&slow, 0, u64::from(WEIGHT) * long, 0);
        assert!(line.admits(&mut wish, 0, 0));
        line.admit(&mut wish, 0, 0);
        assert!(!line.admits(&mut wish, 0, 0));
        // Another process comes: one.
        let mut other = Wish::new(Some(&quick));
        assert!(line.admits(&mut other, 0, 0));
        line.admit(&mut other, 0, 0);
        line.ended(&quick, 0, 1, 0);
        for _ in 1..ALONE {
            line.ended(&slow, 0, long, 0);
            assert!(!line.admits(&mut wish, 0, 0));
        }
        line.ended(&slow, 0, long, 0);
        assert!(line.admits(&mut wish, 0, 0));
        // The driver is not held back.
        assert!(line.admits(&mut Wish::new(None), 0, 0));
    }

    #[test]
    fn the_first_is_overtaken_only_if_it_does_not_come() {
        let mut line = empty_line();
        let shares = [Share::new(), Share::new()];
        let [mut first, mut second] = shares.each_ref().map(|share| Wish::new(Some(share)));
        line.join(&mut first, reservation(), 5);
        assert!(!line.admits(&mut second, 5, 0));
        line.join(&mut second, reservation(), 5);
        assert!(!line.admits(&mut second, 6, 0));
        // It has seen what moved, and waits for more.
        assert!(line.admits(&mut first, 6, 0));
        assert!(!line.skip_missing(6, 100));
        // It has looked, but does not take its place.
        assert!(line.is_missed(6));
        // It does not look.
        assert!(line.is_missed(7));
        assert!(!line.skip_missing(7, 100));
        let late = 100 + msecs_to_jiffies(PATIENCE);
        assert!(line.skip_missing(7, late));
        assert!(line.is_lost(&first));
        // What it had claimed is not claimed twice.
        shares[0].average.store(40, Relaxed);
        line.join(&mut first, reservation(), 7);
        assert_eq!(shares[0].finish.load(Relaxed), 40);
        assert!(!line.leave(&mut first, 7));
        assert!(line.admits(&mut second, 7, 0));
        line.admit(&mut second, 0, 7);
        assert_eq!(line.first, None);
        // It is in no line.
        assert!(!line.leave(&mut first, 7));
        assert_eq!(shares[0].finish.load(Relaxed), 0);
    }

    #[test]
    fn a_lost_turn_is_paid_for() {
        let mut line = empty_line();
        let [late, other] = [(); 2].map(|()| account());
        let mut threads = [(); 3].map(|()| Wish::of(&late, 0));
        let mut second = Wish::of(&other, 0);
        for one in &mut threads {
            line.join(one, reservation(), 5);
        }
        // It has used the core, and comes after all of these.
        other.shares[0].finish.store(line.quantum.into(), Relaxed);
        line.join(&mut second, reservation(), 5);
        assert!(line.is_first(&threads[0]));
        assert!(!line.skip_missing(6, 100));
        assert!(line.skip_missing(6, 100 + msecs_to_jiffies(PATIENCE)));
        // So it has its turn now, before the others of that process, which pay once.
        assert!(line.is_first(&second));
        for one in &mut threads {
            assert!(line.is_lost(one));
            line.join(one, reservation(), 6);
            let late = LATE_QUANTA * u64::from(line.quantum);
            assert_eq!(one.ticket.unwrap().start, late);
        }
        assert!(line.is_first(&second));
        assert!(line.leave(&mut second, 6));
        assert!(line.is_first(&threads[0]));
    }

    #[test]
    fn a_core_that_comes_back_goes_on_where_it_was() {
        let mut line = empty_line();
        let [old, new] = [(); 2].map(|()| account());
        let mut wish = Wish::of(&old, 0);
        old.shares[0].finish.store(line.quantum.into(), Relaxed);
        for _ in 0..2 {
            line.join(&mut wish, reservation(), 0);
            assert!(line.admits(&mut wish, 0, 9));
            line.admit(&mut wish, 0, 0);
            line.ended(&old.shares[0], wish.cost(), 1, 0);
        }
        // It has lost a turn.
        old.shares[0].valid_from.store(2, Relaxed);
        let mut line = Line::new(line.epoch());
        let mut stranger = Wish::of(&new, 0);
        line.join(&mut wish, reservation(), 0);
        line.join(&mut stranger, reservation(), 0);
        assert!(!line.is_lost(&wish));
        // What it has had does not put it after all newer ones.
        let [its, newer] = [&wish, &stranger].map(|wish| wish.ticket.unwrap().start);
        assert!(its.abs_diff(newer) < line.quantum.into());
    }

    #[test]
    fn what_leaves_the_line_has_claimed_nothing() {
        let mut line = empty_line();
        let share = Share::new();
        share.average.store(40, Relaxed);
        share.finish.store(40, Relaxed);
        let mut wish = Wish::new(Some(&share));
        for _ in 0..9 {
            line.join(&mut wish, reservation(), 0);
            assert!(line.leave(&mut wish, 0));
        }
        assert_eq!(share.finish.load(Relaxed), 40);
    }

    #[test]
    fn a_reported_time_never_decreases() {
        let account = account();
        assert_eq!(account.report_monotonic(0, 50), 50);
        // The job has ended, but is not added yet.
        assert_eq!(account.report_monotonic(0, 0), 50);
        account.add(0, 48);
        assert_eq!(account.report_monotonic(0, account.busy(0)), 50);
        assert_eq!(account.report_monotonic(0, 51), 51);
        assert_eq!(account.report_monotonic(1, 7), 7);
        assert_eq!(account.report_monotonic(MAX_CORES, 9), 9);
    }
}
