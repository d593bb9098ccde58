// SPDX-License-Identifier: GPL-2.0-only
//! Preparation of a boot: files, arguments, and processes.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use super::ports::Event;
use super::ports::Port;
use super::ports::ALL_PORTS;
use super::Assets;
use super::Boot;
use super::Task;
use super::Work;
use crate::boards;
use crate::boards::Binding;
use crate::commands::say;
use crate::device_tree;
use crate::etnaviv;
use crate::initramfs;
use crate::initramfs::GuestFile;
use crate::process;
use crate::process::Process;
use crate::processor::Processor;
use crate::soc;

/// Path of the module in the guest.
const GUEST_MODULE: &str = "/galcore/galcore.ko";

/// The guest program that serves the ports on a machine without virtio.
const SERIAL_PORTS: &str = "serial-ports";

/// A file with QEMU's process id, for the model.
pub const MACHINE: &str = "machine";

/// Device tree and initramfs of a boot.
pub struct BootFiles {
    tree: Option<PathBuf>,
    /// The tree of a real board.
    soc: Option<soc::Tree>,
    initramfs: PathBuf,
}

/// Makes the files in `dir`.
pub fn prepare_files(assets: &Assets, boot: &Boot, dir: &Path, nonce: &str) -> Result<BootFiles> {
    let is_64_bit = assets.processor == Processor::CortexA76;
    match boot.memory {
        memory if boot.board.soc().is_some() || memory <= boards::REACHED_MIB => {}
        memory if is_64_bit == (memory > boards::LOW_MIB) => {}
        _ => bail!(
            "--memory: a 32-bit kernel has {low} MiB at most here; a 64-bit one {} at most, or more than {low}",
            boards::REACHED_MIB,
            low = boards::LOW_MIB
        ),
    }
    let soc = match boot.board.real() {
        Some((soc, usual)) => Some(soc::Tree::of_boot(soc, usual, assets, boot, dir)?),
        None => None,
    };
    let tree = match (&soc, boot.binding) {
        (Some(tree), _) => Some(tree.path.clone()),
        (None, Binding::Params) => device_tree::without_cores(assets, boot)?,
        (None, Binding::Dt) => Some(device_tree::make(assets, boot, dir)?),
    };
    let mut files = boot.files.clone();
    if let Some(tree) = &soc {
        files.push(GuestFile {
            host: assets.programs.join(SERIAL_PORTS),
            guest: format!("/galcore/{SERIAL_PORTS}"),
        });
        files.extend(tree.modules(assets));
    } else if let Some(build) = soc::build(assets) {
        files.extend(etnaviv::early(build, etnaviv::OF_TREES));
    }
    if wants_drm(boot) {
        files.extend(soc::build(assets).map_or(Vec::new(), etnaviv::drm));
    }
    if let Some(module) = &assets.module {
        files.push(GuestFile {
            host: module.clone(),
            guest: GUEST_MODULE.to_string(),
        });
        if soc.is_none() {
            files.extend(guest_modules(module));
        }
    }
    let initramfs = dir.join("initramfs");
    initramfs::write(&initramfs, &assets.busybox, &plan(boot, nonce), &files)?;
    let mib = fs::metadata(&initramfs)?.len() >> 20;
    let needed = boards::memory_for_files(mib);
    if u64::from(boot.memory) < needed {
        say(&format!(
            "the guest's files are {mib} MiB, of which it may lose some: --memory {needed}"
        ));
    }
    Ok(BootFiles {
        tree,
        soc,
        initramfs,
    })
}

/// Whether the boot, or a step of it, needs DRM.
fn wants_drm(boot: &Boot) -> bool {
    let by_step = |task: &Task| task.module.as_ref().is_some_and(|module| module.drm);
    let by_steps = matches!(&boot.work, Work::Programs(tasks) if tasks.iter().any(by_step));
    boot.drm || by_steps
}

/// Modules that the guest's kernel lacks. `scripts/module --guest` puts them next to the folder of `galcore`,
/// galcore.ko.
fn guest_modules(galcore: &Path) -> Vec<GuestFile> {
    let Some(folder) = galcore.parent().and_then(Path::parent) else {
        return Vec::new();
    };
    ["board-power.ko", "reset-line.ko"]
        .map(|name| GuestFile {
            host: folder.join("guest").join(name),
            guest: format!("/galcore/{name}"),
        })
        .into_iter()
        .filter(|file| file.host.is_file())
        .collect()
}

/// The shell script that `/init` executes.
fn plan(boot: &Boot, nonce: &str) -> String {
    use initramfs::quote;

    let parameters =
        |extra: &str| boards::module_parameters(boot.board, boot.binding, boot.memory, extra);
    let of_boot = parameters(&boot.insmod);
    let mut plan = format!("mark={nonce}\n");
    // The next program's step may unload the module.
    let prepared = |task: &Task| task.module.is_some();
    let by_steps = matches!(&boot.work, Work::Programs(tasks) if tasks.iter().any(prepared));
    if boot.load || by_steps {
        plan.push_str("keep_loaded=1\n");
    }
    if let Some(soc) = boot.board.soc() {
        let bars = quote(&soc.control_bars(boot));
        plan.push_str(&format!(
            "export {}={bars}\n",
            gpu_control::CONTROL_VARIABLE
        ));
    } else {
        for (_, place) in boot.board.placed() {
            plan.push_str(&format!(
                "enable_gpu {:02x} {:x}\n",
                place.slot, place.registers
            ));
        }
        plan.push_str("power_controller\n");
    }
    for (name, value) in [
        // The name of the first core, which the tests compare with that core.
        ("GALCORE_BOARD", boot.board.cores()[0].name()),
        ("GALCORE_BINDING", boot.binding.name()),
        ("GALCORE_MODULE", GUEST_MODULE),
    ] {
        plan.push_str(&format!("export {name}={}\n", quote(value)));
    }
    let told = |parameters: &[String]| {
        format!(
            "export GALCORE_PARAMETERS={}\n",
            quote(&parameters.join(" "))
        )
    };
    plan.push_str(&told(&of_boot));
    let words = |words: &[String]| -> String {
        let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        quoted.join(" ")
    };
    if boot.drm {
        plan.push_str("with_drm\n");
    }
    if boot.load {
        plan.push_str(&format!("load {}\n", words(&of_boot)));
    }
    match &boot.work {
        Work::Programs(tasks) => {
            let bare = |task: &Task| !task.command.iter().take(1).any(|c| c.contains('/'));
            if tasks.iter().any(bare) {
                plan.push_str("all_commands\n");
            }
            for (index, task) in tasks.iter().enumerate() {
                if let Some(module) = &task.module {
                    let wanted = parameters(&module.parameters);
                    plan.push_str(&told(&wanted));
                    if module.drm {
                        plan.push_str("with_drm\n");
                    }
                    plan.push_str(&if module.load {
                        format!("with_module {index} {} && ", words(&wanted))
                    } else {
                        "without_module && ".to_string()
                    });
                }
                plan.push_str(&format!("program {index} {}\n", words(&task.command)));
            }
        }
        Work::Shell(rows, columns, _) => {
            let term = std::env::var("TERM").unwrap_or_else(|_| "vt100".to_string());
            plan.push_str(&format!("shell {rows} {columns} {}\n", quote(&term)));
        }
    }
    plan
}

/// The kernel's command line.
fn kernel_arguments(boot: &Boot, soc: Option<&soc::Tree>) -> String {
    let (console, memory) = match soc {
        Some(tree) => (
            tree.arguments(),
            tree.soc.memory_arguments(boot.binding).to_string(),
        ),
        None => (
            "console=ttyAMA0,115200 earlycon=pl011,0x9000000".to_string(),
            boards::memory_arguments(boot.memory),
        ),
    };
    let mut arguments = format!(
        "{console} ignore_loglevel printk.devkmsg=on {memory} kunit.enable={}",
        u8::from(boot.kunit)
    );
    // Debian's kernels test their ciphers at boot, which takes seconds on an emulated processor.
    if soc.is_some() {
        arguments.push_str(" cryptomgr.notests");
    }
    // From 11.1 on, QEMU's processors sleep in WFE and miss an SEV once in many hours. Without an external tick, all
    // of them then wait for a spinlock that is free.
    if boot.smp > 1 {
        arguments.push_str(" clocksource.arm_arch_timer.evtstrm=1");
    }
    // After an oops, locks may be held forever, so a panic is better than a hang. A shell user may still want to look
    // around.
    if !matches!(boot.work, Work::Shell(..)) {
        arguments.push_str(" oops=panic");
    }
    arguments.push_str(" panic=-1");
    if !boot.append.is_empty() {
        arguments.push(' ');
        arguments.push_str(&boot.append);
    }
    arguments
}

/// QEMU's command line. Its sockets are in `dir`.
pub fn qemu_arguments(assets: &Assets, boot: &Boot, dir: &Path, files: &BootFiles) -> Vec<String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let memory = boot.memory;
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|w| w.to_string()));
    match &files.soc {
        Some(tree) => add(&["-M", &tree.soc.machine()]),
        None => {
            add(&["-M", &device_tree::machine(boot)]);
            add(&["-cpu", assets.processor.model()]);
        }
    }
    add(&["-smp", &boot.smp.to_string(), "-m", &memory.to_string()]);
    if boot.icount {
        add(&["-icount", "shift=0"]);
    }
    // The GPU model can map the guest's RAM only if it is shared.
    let ram = format!("memory-backend-memfd,id=ram,size={memory}M,share=on");
    add(&["-object", &ram]);
    add(&["-nodefaults", "-display", "none"]);
    match &boot.monitor {
        Some(socket) => add(&[
            "-monitor",
            &format!("unix:{},server=on,wait=off", path(socket)),
        ]),
        None => add(&["-monitor", "none"]),
    }
    add(&["-no-reboot"]);
    add(&["-kernel", &path(&assets.kernel)]);
    add(&["-initrd", &path(&files.initramfs)]);
    if let Some(tree) = &files.tree {
        add(&["-dtb", &path(tree)]);
    }
    add(&["-append", &kernel_arguments(boot, files.soc.as_ref())]);
    // The PCI address determines BAR0 and the interrupt: see dts/virt.dtsi.
    for (number, (_, place)) in boot.board.placed().enumerate() {
        let mut gpu = serde_json::json!({
            "driver": "vfio-user-pci",
            "socket": { "path": path(&dir.join(of_core("gpu", number, ""))), "type": "unix" },
            "addr": format!("{:x}", place.slot),
        });
        if files.soc.is_some() {
            gpu["bus"] = soc::BUS.into();
        }
        add(&["-device", &gpu.to_string()]);
    }
    if let Some(tree) = &files.soc {
        let socket = |name: &str| path(&dir.join(name));
        let ports = format!("socket,id={ALL_PORTS},path={}", socket(ALL_PORTS));
        add(&["-chardev", &ports]);
        for serial in tree.serial(ALL_PORTS) {
            add(&["-serial", &serial]);
        }
        // Stopped until the machine is set up.
        add(&["-S", "-qmp", &format!("unix:{}", socket(soc::QMP))]);
        add(&["-qtest", &format!("unix:{}", socket(soc::QTEST))]);
        add(&["-qtest-log", "/dev/null"]);
        return arguments;
    }
    add(&["-serial", "stdio"]);
    add(&["-device", "virtio-serial-pci,addr=2,max_ports=8"]);
    for port in Port::ALL {
        let name = port.name();
        let socket = path(&dir.join(name));
        add(&["-chardev", &format!("socket,id={name},path={socket}")]);
        let device = match port {
            Port::Terminal => format!("virtconsole,chardev={name}"),
            _ => format!("virtserialport,chardev={name},name=galcore.{name}"),
        };
        add(&["-device", &device]);
    }
    arguments
}

/// Name of a model file for the core with this number. The model adds a number to the names of all but the first
/// core.
pub fn of_core(name: &str, number: usize, extension: &str) -> String {
    match number {
        0 => format!("{name}{extension}"),
        _ => format!("{name}-{number}{extension}"),
    }
}

/// The GPU model's command line. Its reports are in `dir`.
pub fn model_arguments(boot: &Boot, dir: &Path) -> Vec<String> {
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut arguments = vec![
        "--socket".to_string(),
        path(dir.join("gpu")),
        "--report".to_string(),
        path(dir.join("gpu.json")),
    ];
    arguments.extend(["--machine".to_string(), path(dir.join(MACHINE))]);
    for core in boot.board.cores() {
        arguments.extend(["--board".to_string(), core.name().to_string()]);
    }
    if let Some(seed) = boot.seed {
        arguments.extend(["--seed".to_string(), seed.to_string()]);
    }
    if boot.trace {
        arguments.extend(["--trace".to_string(), path(boot.out.join("gpu.trace"))]);
    }
    arguments
}

/// Starts the GPU model.
pub fn start_model(
    assets: &Assets,
    arguments: &[String],
    sender: &SyncSender<Event>,
) -> Result<Process> {
    let mut model = Process::start(&assets.gpu_model, arguments)?;
    if let (Some(stdout), Some(stderr)) = (model.stdout(), model.stderr()) {
        process::forward(stdout, sender.clone(), Event::Model, Event::Model(vec![]));
        process::forward(stderr, sender.clone(), Event::Model, Event::Model(vec![]));
    }
    Ok(model)
}

/// A random word that guest programs cannot guess.
pub fn nonce() -> Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}
