// SPDX-License-Identifier: GPL-2.0-only
//! insmod, draw, rmmod, many times in one boot: free memory must not shrink, and the kernel log must contain no
//! unexpected lines.
//!
//! Needs the module not to be loaded, or loaded and not in use. Arguments: `[--count N] [MODULE PARAMETERS...]`.

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Client;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::LogLine;
use galcore_selftests::system::Module;

/// Rounds before memory is measured. What the kernel keeps after the first few is not the driver's.
const WARM_UP: u32 = 3;
/// Bytes of the pool that a round maps. A mapping of the whole pool would dominate the run time.
const POOL_BYTES: usize = 1 << 20;
/// KiB by which free memory may change on its own.
const NOISE: u64 = 512;

/// Runs one round and adds the times of its three parts to `spent`.
fn round(module: &Module, number: u32, spent: &mut [Duration; 3]) -> Result<()> {
    let begin = Instant::now();
    module.load_or_fail()?;
    let loaded = Instant::now();
    let mut paint = Paint::of(Client::with_pool_bytes(Device::open()?, POOL_BYTES)?)?;
    paint.prove(0xff00_0000 + number)?;
    paint.close()?;
    let drawn = Instant::now();
    Module::unload()?;
    spent[0] += loaded - begin;
    spent[1] += drawn - loaded;
    spent[2] += drawn.elapsed();
    Ok(())
}

/// Whether a normal load or unload of a module may print this line.
fn belongs(line: &LogLine) -> bool {
    let text = line.text.as_str();
    // Printed once per boot for any out-of-tree module.
    let once = [
        "loading out-of-tree module taints kernel",
        "module verification failed",
    ];
    // A kernel with KUnit announces the module's suites, whether they run or not.
    let kunit = text == "KTAP version 1" || text == "kunit: disabled" || text.starts_with("1..");
    // Caused by this program.
    let own = text.contains("drop_caches");
    let driver = text.contains("galcore");
    line.level > 4 && (kunit || own || driver) || once.iter().any(|known| text.contains(known))
}

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["count"])?;
        let count = options.number("count", 20)?;
        harness::allow(Duration::from_secs(u64::from(count) * 5));
        let module = &Module::from_words(&options.rest)?;
        let was_loaded = Module::is_loaded();
        if was_loaded {
            Module::unload()?;
        }
        let control = &Control::open()?;
        let log = &RefCell::new(KernelLog::from_now()?);
        for number in 0..WARM_UP {
            round(module, number, &mut Default::default())
                .with_context(|| format!("warm-up round {number}"))?;
        }
        let free = system::settled_free()?;
        let slab = system::meminfo("Slab")?;
        let mut suite = Suite::new();
        suite.test(format!("{count} times insmod, draw, rmmod"), move || {
            let mut spent = [Duration::ZERO; 3];
            for number in 0..count {
                round(module, number, &mut spent).with_context(|| format!("round {number}"))?;
            }
            let [load, draw, unload] =
                spent.map(|time| time.as_millis() / u128::from(count.max(1)));
            println!("# a round: insmod {load} ms, draw {draw} ms, rmmod {unload} ms");
            Ok(())
        });
        suite.test("as much memory free as before", move || {
            system::memory_is_back(free, NOISE)?;
            let slab_after = system::meminfo("Slab")?;
            ensure!(
                slab_after <= slab + NOISE + system::quarantine()?,
                "slab grew from {slab} to {slab_after} KiB"
            );
            Ok(())
        });
        suite.test(
            "no line in the kernel log that does not belong there",
            move || {
                let lines = log.borrow_mut().lines()?;
                let strange: Vec<_> = lines.iter().filter(|line| !belongs(line)).collect();
                for line in strange.iter().take(20) {
                    println!("# <{}> {}", line.level, line.text);
                }
                same("strange lines", strange.len(), 0)
            },
        );
        suite.test("nothing of the driver is left", move || {
            same("loaded", Module::is_loaded(), false)?;
            same("major", system::major()?, None)?;
            for path in [system::ProcGc::PATH, "/sys/class/graphics_class/galcore"] {
                ensure!(
                    !std::path::Path::new(path).exists(),
                    "{path} is still there"
                );
            }
            let interrupts = std::fs::read_to_string("/proc/interrupts")?;
            ensure!(
                !interrupts.contains("galcore"),
                "an interrupt is still held"
            );
            Ok(())
        });
        suite.test("an open device keeps the module", move || {
            module.load_or_fail()?;
            let paint = Paint::new()?;
            ensure!(
                Module::unload().is_err(),
                "rmmod worked while the device was open"
            );
            drop(paint);
            Module::unload()
        });
        suite.test("the GPU has nothing to complain of", move || {
            same("violations", control.violations(), 0)
        });
        let good = suite.run()?;
        // Restores the initial state.
        if was_loaded {
            module.load_or_fail()?;
        }
        Ok(good)
    })
}
