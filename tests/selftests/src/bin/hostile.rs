// SPDX-License-Identifier: GPL-2.0-only
//! Hostile processes run next to an innocent one, which must lose neither memory nor time.
//!
//! Arguments: `--group NAME` (see [`GROUPS`]), `--only TEXT` (runs only tests whose names contain TEXT), `--race N`
//! (seconds for each race), `--seconds N`, `--seed N`. Group `hang` loads the module itself.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::hostile;
use galcore_selftests::hostile::bounced;
use galcore_selftests::hostile::bounced::End;
use galcore_selftests::hostile::delays;
use galcore_selftests::hostile::gaps;
use galcore_selftests::hostile::random;
use galcore_selftests::hostile::views;
use galcore_selftests::hostile::waits;
use galcore_selftests::system::Module;
use galcore_selftests::system::ProcGc;
use gpu_control::fault;

/// The groups of attacks.
const GROUPS: [&str; 7] = [
    "memory", "time", "shared", "bounced", "hang", "slow", "random",
];

fn memory_tests(suite: &mut Suite<'_>, control: &'static Control, race: Duration) {
    suite.test(
        "what is freed is in no window of either device node, whoever maps meanwhile",
        views::both_nodes,
    );
    suite.test(
        "a process has 2048 windows on the pool at most",
        views::window_limit,
    );
    suite.test(
        "a node beyond the limit is not seen, nor who gets its place",
        move || gaps::node_without_handle(false, race),
    );
    suite.test("the same with another process's node, by name", move || {
        gaps::node_without_handle(true, race)
    });
    suite.test(
        "the GPU does not write to a buffer that could not be mapped",
        move || gaps::buffer_without_room(race),
    );
    suite.test(
        "allocations of the kernel's that fail while memory is mapped harm nobody",
        gaps::failing_mappings,
    );
    suite.test("who is next to have a context passes it on", move || {
        waits::context_is_passed_on(control)
    });
    // Runs last: if the driver fails here, the kernel is damaged.
    suite.test(
        "nothing of the device can be mapped privately",
        views::private,
    );
}

fn time_tests(suite: &mut Suite<'_>) {
    suite.test("processes that compute cost nobody time", delays::computing);
    suite.test(
        "nor do threads that seldom run, whatever they have",
        delays::inversion,
    );
    suite.test(
        "nor those that ask for counters, clocks and states",
        delays::inverted_looks,
    );
    suite.test(
        "FREE costs as much for each window that shows it",
        delays::free_is_linear,
    );
    for by_record in [false, true] {
        let how = if by_record { "record" } else { "ioctl" };
        suite.test(
            format!("FREE of what 2000 windows show, by {how}, costs nobody else time"),
            move || delays::free(by_record),
        );
        suite.test(
            format!("who is killed while a FREE by {how} goes on ends soon"),
            move || delays::killed_while_freeing(by_record),
        );
    }
    suite.test(
        "who is killed while much that it freed by record is hidden ends soon",
        delays::killed_while_hiding,
    );
    suite.test(
        "what one process frees by record is back soon, while much of another's is hidden",
        delays::renewed,
    );
    suite.test(
        "what is freed by the file of a process that has ended comes back soon",
        delays::orphaned,
    );
    suite.test("nor does a process that maps and forks", delays::mapping);
    suite.test("nor one that commits garbage", delays::garbage);
    suite.test("nor one whose records write many words", delays::writing);
    suite.test(
        "nor one that commits what lies nowhere",
        delays::commit_nowhere,
    );
    suite.test("nor a long chain of commands", delays::commit_chain);
    for killed in [false, true] {
        let how = if killed { "is killed" } else { "ends" };
        suite.test(
            format!(
                "nor one with much pinned memory that {}",
                if killed { how } else { "unpins it" }
            ),
            move || delays::unpin(killed),
        );
    }
    suite.test(
        "nor one with 4096 scattered nodes that is killed",
        delays::scattered,
    );
}

fn hang_tests(suite: &mut Suite<'_>, control: &'static Control, module: Module, time: Duration) {
    suite.test(
        "whoever is killed while the GPU hangs ends at once, wherever it waits",
        move || waits::killed_while_hung(control, time),
    );
    suite.test("loaded anew, the GPU draws", move || {
        Module::unload()?;
        control.write(fault::CLEAR_ALL, 1);
        module.load_or_fail()?;
        let mut paint = Paint::new()?;
        paint.prove(0xff12_3456)?;
        paint.close()
    });
}

fn main() -> ExitCode {
    if let Some(code) = hostile::role() {
        return code;
    }
    harness::program(|| {
        let options = Options::parse(&["group", "only", "race", "seconds", "seed"])?;
        let group = options.get("group").unwrap_or("memory").to_string();
        let seconds = options.number("seconds", 8)?;
        let seed = options.number("seed", 1)?;
        let race = Duration::from_secs(options.number("race", 3)?.into());
        harness::allow(12 * race);
        let module = Module::from_words(&options.rest)?;
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        let control: &'static Control = Box::leak(Box::new(Control::open()?));
        let violations = control.violations();
        let mut suite = Suite::new();
        match group.as_str() {
            "memory" => memory_tests(&mut suite, control, race),
            "time" => time_tests(&mut suite),
            "shared" => {
                views::wants_shared_nodes()?;
                suite.test(
                    "a node that two threads lock at once is out of sight once it is freed",
                    move || views::importers(3 * race),
                );
            }
            "hang" => hang_tests(
                &mut suite,
                control,
                module,
                Duration::from_secs(seconds.into()),
            ),
            "bounced" => {
                bounced::is_bounced()?;
                for (end, what) in [
                    (End::Unmap, "UNMAP_USER_MEMORY has returned"),
                    (End::Free, "a node that wraps it is freed"),
                    (
                        End::Records,
                        "the records have come that a freed node waits for",
                    ),
                    (End::Exit, "the process that had it mapped has ended"),
                ] {
                    let what = format!("memory is its owner's once {what}, whatever others do");
                    suite.test(what, move || bounced::written_afterwards(control, end));
                }
            }
            "slow" => {
                for (how, killed) in [("ends", false), ("is killed", true)] {
                    suite.test(
                        format!(
                            "one with 8000 nodes and 1500 windows that {how} costs nobody time"
                        ),
                        move || delays::exit(killed),
                    );
                }
                suite.test(
                    "a COMMIT waits for its context for as long as the GPU gets on",
                    waits::slow_jobs,
                );
            }
            "random" => {
                suite.test(
                    "nothing is left of a process that is killed with a copy of it",
                    random::killed_with_a_copy,
                );
                let time = Duration::from_secs(seconds.into());
                harness::allow(10 * time);
                suite.test(
                    format!("{seconds} s of everything at random (seed {seed})"),
                    move || random::all(time, seed),
                );
            }
            _ => bail!("groups: {}", GROUPS.join(", ")),
        }
        if let Some(part) = options.get("only") {
            suite.only(part);
        }
        if group != "hang" {
            suite.test("the GPU still draws", || {
                let mut paint = Paint::new()?;
                paint.prove(0xff12_3456)?;
                paint.close()
            });
            suite.test("nothing is left", || ProcGc::nothing_left().map(|_| ()));
        }
        suite.test("the GPU has nothing to complain of", move || {
            same("violations", control.violations(), violations)
        });
        suite.run()
    })
}
