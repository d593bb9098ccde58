// SPDX-License-Identifier: GPL-2.0-only
//! GPU hangs: no wait lasts forever, a waiting process can be killed, the module can be unloaded, and the GPU draws
//! again after a reload.
//!
//! Needs the module not to be loaded, or loaded and not in use. Arguments: `[MODULE PARAMETERS...]`.

use std::cell::RefCell;
use std::process::Child;
use std::process::ExitCode;
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Result;
use galcore_client::uapi::Status;
use galcore_client::Queue;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::refused;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Stopwatch;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::Module;
use gpu_control::fault;
use gpu_control::FrontEndState;

/// Longest time of an operation that has no timeout of its own.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A client that draws and waits without a timeout.
fn wait_for_ever() -> Result<()> {
    let mut paint = Paint::new()?;
    let signal = paint.device().create_signal(false)?;
    let stream = paint.fill_cell(0, 1);
    let mut queue = Queue::new();
    queue.signal(signal);
    paint.commit(&stream, &mut queue)?;
    println!("committed");
    Ok(paint.device().wait_signal(signal, u32::MAX)?)
}

fn child() -> Result<Child> {
    Ok(system::again(&["--child"])?.stdout(Stdio::null()).spawn()?)
}

fn within<T>(what: &str, limit: Duration, action: impl FnOnce() -> Result<T>) -> Result<T> {
    let begin = Stopwatch::start();
    let value = action()?;
    let took = begin.elapsed();
    println!("# {what}: {} ms", took.as_millis());
    ensure!(took < limit, "{what} took {took:?}");
    Ok(value)
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--child") {
        return match wait_for_ever() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    harness::program(|| {
        let options = Options::parse(&[])?;
        let module = &Module::from_words(&options.rest)?;
        if !Module::is_loaded() {
            module.load_or_fail()?;
        }
        let control = &Control::open()?;
        let paint = &RefCell::new(Some(Paint::new()?));
        let hung = &RefCell::new(None);
        let free = system::settled_free()?;
        let mut suite = Suite::new();
        suite.test("a client whose draw hangs waits", move || {
            // Stays armed until the module is unloaded, because a reset would end it.
            std::mem::forget(control.arm(fault::HANG_AT_DRAW, 1));
            let mut waiting = child()?;
            harness::eventually("the GPU hangs", Duration::from_secs(10), || {
                Ok(control.front_end() == Some(FrontEndState::Hung))
            })?;
            ensure!(waiting.try_wait()?.is_none(), "it has ended");
            *hung.borrow_mut() = Some(waiting);
            Ok(())
        });
        suite.test("another's wait ends in its time", move || {
            let mut paint = paint.borrow_mut();
            let paint = paint.as_mut().ok_or(anyhow::anyhow!("no client"))?;
            let signal = paint.device().create_signal(false)?;
            let stream = paint.fill_cell(0, 2);
            let mut queue = Queue::new();
            queue.signal(signal);
            paint.commit(&stream, &mut queue)?;
            within("a wait of 300 ms", AT_ONCE, || {
                refused(
                    "WAIT",
                    paint.device().wait_signal(signal, 300),
                    Status::TIMEOUT,
                )
            })
        });
        suite.test("the waiting client can be killed", move || {
            let Some(mut waiting) = hung.borrow_mut().take() else {
                anyhow::bail!("there is none");
            };
            within("the kill", AT_ONCE, || {
                waiting.kill()?;
                waiting.wait()?;
                Ok(())
            })
        });
        suite.test("the other ends by itself", move || {
            within("its end", AT_ONCE, || {
                // Dropped without a close: its buffers are still in the ring.
                drop(paint.borrow_mut().take());
                Ok(())
            })
        });
        suite.test("the module can be removed", move || {
            within("rmmod", AT_ONCE, Module::unload)
        });
        suite.test("loaded anew, the GPU draws", move || {
            control.write(fault::CLEAR_ALL, 1);
            module.load_or_fail()?;
            let mut paint = Paint::new()?;
            paint.prove(0xff12_3456)?;
            paint.close()
        });
        suite.test("all memory is back", move || {
            system::memory_is_back(free, 2048)
        });
        suite.test("silicon was not asked for more than it can do", move || {
            same("violations", control.violations(), 0)
        });
        suite.run()
    })
}
