// SPDX-License-Identifier: GPL-2.0-only
//! insmod, draw, rmmod, many times in one boot: the same free memory, and nothing in the kernel log that does not
//! belong there.
//!
//! Needs the module not to be loaded, or loaded and not in use. Arguments: `[--count N] [MODULE PARAMETERS...]`.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness::{self, same, Options, Suite};
use galcore_selftests::system::{self, KernelLog, LogLine, Module};

/// Rounds before memory is looked at: what the kernel keeps after the first few is not the driver's.
const WARM_UP: u32 = 3;
/// KiB that free memory may move by itself.
const NOISE: u64 = 512;

fn round(module: &Module, number: u32) -> Result<()> {
    module.load_or_fail()?;
    let mut paint = Paint::new()?;
    paint.prove(0xff00_0000 + number)?;
    paint.close()?;
    Module::unload()
}

/// Whether a line is expected of a module that is loaded and unloaded without trouble.
fn belongs(line: &LogLine) -> bool {
    let text = line.text.as_str();
    // Said once in a boot about every module that is not part of the kernel tree.
    let once = ["loading out-of-tree module taints kernel", "module verification failed"];
    once.iter().any(|known| text.contains(known)) || (line.level > 4 && text.contains("galcore"))
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 20)?;
        let module = &Module::from_words(&options.rest)?;
        let was_loaded = Module::is_loaded();
        if was_loaded {
            Module::unload()?;
        }
        let control = &Control::open()?;
        let log = &RefCell::new(KernelLog::from_now()?);
        for number in 0..WARM_UP {
            round(module, number).with_context(|| format!("warm-up round {number}"))?;
        }
        let free = system::settled_free()?;
        let slab = system::meminfo("Slab")?;
        let mut suite = Suite::new();
        suite.test(format!("{count} times insmod, draw, rmmod"), move || {
            let begin = Instant::now();
            for number in 0..count {
                round(module, number).with_context(|| format!("round {number}"))?;
            }
            println!("# {:.0} ms a round", begin.elapsed().as_millis() as f64 / f64::from(count.max(1)));
            Ok(())
        });
        suite.test("as much memory free as before", move || {
            let after = system::settled_free()?;
            println!("# {free} KiB free before, {after} KiB after");
            ensure!(after + NOISE >= free, "{} KiB are gone", free - after);
            let slab_after = system::meminfo("Slab")?;
            ensure!(slab_after <= slab + NOISE, "slab grew from {slab} to {slab_after} KiB");
            Ok(())
        });
        suite.test("no line in the kernel log that does not belong there", move || {
            let lines = log.borrow_mut().lines()?;
            let strange: Vec<_> = lines.iter().filter(|line| !belongs(line)).collect();
            for line in strange.iter().take(20) {
                println!("# <{}> {}", line.level, line.text);
            }
            same("strange lines", strange.len(), 0)
        });
        suite.test("nothing of the driver is left", move || {
            same("loaded", Module::is_loaded(), false)?;
            same("major", system::major()?, None)?;
            for path in [system::ProcGc::PATH, "/sys/class/graphics_class/galcore"] {
                ensure!(!std::path::Path::new(path).exists(), "{path} is still there");
            }
            let interrupts = std::fs::read_to_string("/proc/interrupts")?;
            ensure!(!interrupts.contains("galcore"), "an interrupt is still held");
            Ok(())
        });
        suite.test("an open device keeps the module", move || {
            module.load_or_fail()?;
            let paint = Paint::new()?;
            ensure!(Module::unload().is_err(), "rmmod worked while the device was open");
            drop(paint);
            Ok(())
        });
        suite.test("the GPU has nothing to complain of", move || same("violations", control.violations(), 0));
        let good = suite.run()?;
        // As it was found.
        match (was_loaded, Module::is_loaded()) {
            (true, false) => module.load_or_fail()?,
            (false, true) => {
                // The driver's own mappings of this process may still hold the device; then init unloads it.
                let _ = Module::unload();
            }
            _ => {}
        }
        Ok(good)
    })
}
