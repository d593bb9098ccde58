// SPDX-License-Identifier: GPL-2.0-only
//! insmod with wrong parameters or faulty hardware: it must fail in bounded time with one clear line in the kernel log,
//! and do no harm.
//!
//! Needs the module not to be loaded, or loaded and not in use. Arguments: `[--refused WORDS] [MODULE PARAMETERS...]`.
//! `--refused`: the board itself is wrong, and the line must contain WORDS.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use galcore_client::Device;
use galcore_selftests::control::Control;
use galcore_selftests::fixture::Paint;
use galcore_selftests::harness;
use galcore_selftests::harness::same;
use galcore_selftests::harness::skip;
use galcore_selftests::harness::Options;
use galcore_selftests::harness::Suite;
use galcore_selftests::system::KernelLog;
use galcore_selftests::system::LogLine;
use galcore_selftests::system::Module;
use gpu_control::fault;

/// Longest time of a failing probe.
const LIMIT: Duration = Duration::from_secs(5);

/// The driver's error lines.
fn errors(lines: &[LogLine]) -> Vec<&LogLine> {
    lines
        .iter()
        .filter(|line| line.level <= 3 && line.text.contains("galcore"))
        .collect()
}

/// Loads the module, which must fail with one error line that contains one of `words`.
fn expect_failure(module: &Module, what: &str, words: &[&str]) -> Result<()> {
    let mut log = KernelLog::from_now()?;
    let (took, result) = module.load();
    let lines = log.lines()?;
    let opens = Device::open().is_ok();
    let loaded = Module::is_loaded();
    if loaded {
        Module::unload()?;
    }
    match result {
        // A driver for a device-tree node registers before it can check the node.
        Ok(()) if !module.bound_by_parameters() => {
            ensure!(!opens, "{what}: the device can be opened")
        }
        Ok(()) => bail!("{what}: insmod worked"),
        Err(error) => println!("# {what}: {error}"),
    }
    ensure!(took < LIMIT, "{what}: insmod took {took:?}");
    for line in &lines {
        println!("# <{}> {}", line.level, line.text);
    }
    let found = errors(&lines);
    same(&format!("{what}: error lines"), found.len(), 1)?;
    ensure!(
        words.iter().any(|word| found[0].text.contains(word)),
        "{what}: {:?} names none of {words:?}",
        found[0].text
    );
    let worse: Vec<_> = lines
        .iter()
        .filter(|line| {
            line.level <= 4
                && !line.text.contains("galcore")
                && !line.text.contains("taints kernel")
        })
        .collect();
    ensure!(
        worse.is_empty(),
        "{what}: the kernel complained: {:?}",
        worse[0].text
    );
    Ok(())
}

/// Fails unless exactly one line contains `text`.
fn told(lines: &[LogLine], text: &str) -> Result<()> {
    let count = lines.iter().filter(|line| line.text.contains(text)).count();
    same(&format!("lines {text:?}"), count, 1)
}

/// Loads with good parameters, draws, unloads.
fn expect_success(module: &Module) -> Result<()> {
    module.load_or_fail()?;
    let mut paint = Paint::new()?;
    paint.prove(0xff0f_0f0f)?;
    paint.close()?;
    Module::unload()
}

/// Parameters that fit no board, and the word that the error line must contain.
const NONSENSE: &[(&str, &str)] = &[
    ("registerMemBase=0", "registerMemBase"),
    ("registerMemBase=0x10000004", "registerMemBase"),
    ("registerMemSize=0", "registerMemSize"),
    ("registerMemSize=64", "registerMemSize"),
    ("irqLine=-2", "irqLine"),
    ("irqLine=0", "irqLine"),
    ("irqLine=1020", "irqLine"),
    ("irqLine=100000", "irqLine"),
    ("contiguousBase=0x58000100", "contiguousBase"),
    ("contiguousBase=0xfffff000", "contiguous"),
    ("contiguousSize=100", "contiguousSize"),
    ("major=-1", "major"),
    ("major=5000", "major"),
    ("bankSize=100", "bankSize"),
    ("baseAddress=0x123", "baseAddress"),
    ("allowedRanges=0xfffff000,0x2000", "above 4 GiB"),
    ("fastClear=2", "fastClear"),
    ("compression=-7", "compression"),
    ("signal=-1", "signal"),
    ("signal=65", "signal"),
    ("signal=4711", "signal"),
    ("useLinuxSignal=2", "useLinuxSignal"),
    ("identity=productID=1", "identity"),
    ("identity=0x600:0x19,productID=x", "identity"),
    ("useLinuxSignal=-1", "useLinuxSignal"),
];

fn main() -> ExitCode {
    harness::program(|| {
        let options = Options::parse(&["refused"])?;
        let module = &Module::from_words(&options.rest)?;
        let was_loaded = Module::is_loaded();
        if was_loaded {
            Module::unload()?;
        }
        let control = &Control::open()?;
        let mut suite = Suite::new();
        if let Some(words) = options.get("refused") {
            suite.test(format!("the board is refused: {words}"), move || {
                expect_failure(module, "this board", &[words])
            });
            suite.test("nobody has touched its registers", move || {
                same("violations", control.violations(), 0)
            });
            return suite.run();
        }
        suite.test("as told by the board it loads and draws", || {
            expect_success(module)
        });
        let by_parameters = move || {
            if module.bound_by_parameters() {
                Ok(())
            } else {
                skip("the device tree tells where the device is")
            }
        };
        suite.test("a register base where nothing answers", move || {
            by_parameters()?;
            let wrong = module.with(&["registerMemBase=0x20000000"]);
            expect_failure(&wrong, "nothing there", &["registerMemBase", "0x20000000"])?;
            expect_success(module)
        });
        suite.test("a register base in RAM", move || {
            by_parameters()?;
            let wrong = module.with(&["registerMemBase=0x48000000"]);
            expect_failure(&wrong, "RAM", &["registerMemBase", "0x48000000"])?;
            expect_success(module)
        });
        suite.test("an interrupt that never comes", move || {
            by_parameters()?;
            // SPI 60 is unused on this machine.
            let wrong = module.with(&["irqLine=92"]);
            expect_failure(&wrong, "unused SPI", &["irqLine", "interrupt", "IRQ"])?;
            expect_success(module)
        });
        suite.test("no interrupt, and no device tree that has one", move || {
            by_parameters()?;
            for change in ["irqLine", "irqLine=-1"] {
                let mut log = KernelLog::from_now()?;
                let (took, result) = module.with(&[change]).load();
                ensure!(took < LIMIT, "{change}: insmod took {took:?}");
                // The module may stay loaded and wait for a device-tree node, but it must not create a device.
                let opens = result.is_ok() && Device::open().is_ok();
                if Module::is_loaded() {
                    Module::unload()?;
                }
                ensure!(!opens, "{change}: the device can be opened");
                let lines = log.lines()?;
                if result.is_ok() {
                    told(
                        &lines,
                        "no core: the device tree has no enabled vivante,gc node",
                    )?;
                }
                let wanted = usize::from(result.is_err());
                same(
                    &format!("{change}: error lines"),
                    errors(&lines).len(),
                    wanted,
                )?;
            }
            expect_success(module)
        });
        suite.test("a load that ends without a core says so", move || {
            if module.bound_by_parameters() {
                return skip("then it fails");
            }
            let mut log = KernelLog::from_now()?;
            module.with(&["cores=vg"]).load_or_fail()?;
            let opens = Device::open().is_ok();
            Module::unload()?;
            ensure!(!opens, "the device can be opened");
            let lines = log.lines()?;
            told(&lines, "left to others: ")?;
            told(&lines, "no core yet: ")?;
            same("error lines", errors(&lines).len(), 0)?;
            expect_success(module)
        });
        suite.test("a GPU that never comes out of reset", move || {
            let armed = control.arm(fault::RESET_STUCK, u32::MAX);
            expect_failure(module, "stuck reset", &["reset", "idle"])?;
            drop(armed);
            expect_success(module)
        });
        suite.test(
            "a GPU whose first reset fails and whose second works",
            move || {
                let armed = control.arm(fault::RESET_STUCK, 1);
                let result = expect_success(module);
                drop(armed);
                result
            },
        );
        for (what, value) in [
            ("0", fault::IDENTITY_ZERO),
            ("0xffffffff", fault::IDENTITY_ONES),
        ] {
            suite.test(format!("a chip model that reads as {what}"), move || {
                let armed = control.arm(fault::IDENTITY, value);
                expect_failure(module, "stranger", &["model", "identity", "chip"])?;
                drop(armed);
                expect_success(module)
            });
        }
        suite.test("registers that are dead", move || {
            let armed = control.arm(fault::DEAD, 1);
            expect_failure(
                module,
                "dead",
                &["0x10000000", "chip", "model", "identity", "register"],
            )?;
            drop(armed);
            expect_success(module)
        });
        for (parameter, word) in NONSENSE {
            suite.test(format!("{parameter} is refused by name"), move || {
                if parameter.starts_with("registerMem") || parameter.starts_with("irq") {
                    by_parameters()?;
                }
                expect_failure(&module.with(&[parameter]), parameter, &[word])
            });
        }
        suite.test("words that are no numbers are refused", move || {
            for parameter in ["irqLine=four", "contiguousSize=", "major=0x"] {
                let (_, result) = module.with(&[parameter]).load();
                if Module::is_loaded() {
                    Module::unload()?;
                }
                ensure!(result.is_err(), "{parameter}: insmod worked");
            }
            Ok(())
        });
        suite.test("after all this it loads and draws", || {
            expect_success(module)
        });
        suite.test("the GPU has nothing to complain of", move || {
            same("violations", control.violations(), 0)
        });
        let good = suite.run()?;
        if was_loaded {
            module.load_or_fail().context("loading it again")?;
        }
        Ok(good)
    })
}
