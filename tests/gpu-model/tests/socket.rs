// SPDX-License-Identifier: GPL-2.0-only
//! The program as seen by a machine: over its socket, with shared memory and an eventfd.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use gpu_control::counter;
use gpu_control::fault;
use gpu_control::BAR_INDEX;
use gpu_model::registers::*;
use vfio_bindings::bindings::vfio::*;
use vfio_user::Client;
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::eventfd::EFD_NONBLOCK;

const RAM: u64 = 0x4000_0000;

/// The machine's end of one core.
struct Core {
    client: Client,
    interrupt: EventFd,
}

struct Machine {
    model: Child,
    cores: Vec<Core>,
    memory: File,
    report: PathBuf,
    _folder: tempfile::TempDir,
}

impl Machine {
    fn start(board: &str) -> Self {
        Self::with_cores(&[board])
    }

    fn with_cores(boards: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (socket, report) = (
            folder.path().join("gpu.sock"),
            folder.path().join("report.json"),
        );
        let mut model = Command::new(env!("CARGO_BIN_EXE_gpu-model"))
            .args(boards.iter().flat_map(|board| ["--board", board]))
            .arg("--socket")
            .arg(&socket)
            .arg("--report")
            .arg(&report)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(model.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(
            line,
            format!("gpu-model: listening on {}\n", socket.display())
        );
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(1 << 20).unwrap();
        let mut cores = Vec::new();
        for number in 0..boards.len() {
            let socket = match number {
                0 => socket.clone(),
                _ => folder.path().join(format!("gpu-{number}.sock")),
            };
            let mut client = Client::new(&socket).unwrap();
            client.dma_map(0, RAM, 1 << 20, memory.as_raw_fd()).unwrap();
            let interrupt = EventFd::new(EFD_NONBLOCK).unwrap();
            let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
            client
                .set_irqs(
                    VFIO_PCI_INTX_IRQ_INDEX,
                    flags,
                    0,
                    1,
                    &[interrupt.as_raw_fd()],
                )
                .unwrap();
            cores.push(Core { client, interrupt });
        }
        Self {
            model,
            cores,
            memory,
            report,
            _folder: folder,
        }
    }

    fn read(&mut self, region: u32, offset: u32) -> u32 {
        self.cores[0].read(region, offset)
    }

    fn put(&self, address: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory.write_all_at(&bytes, address).unwrap();
    }

    fn unmask(&mut self) {
        let flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK;
        self.cores[0]
            .client
            .set_irqs(VFIO_PCI_INTX_IRQ_INDEX, flags, 0, 1, &[])
            .unwrap();
    }

    fn interrupted(&self) -> bool {
        self.cores[0].interrupted()
    }

    /// Starts the ring: an event from the front end, then the idle loop.
    fn start_ring(&mut self, words: &[u32]) {
        self.put(0, words);
        self.cores[0].start(0, words.len() as u32 / 2);
    }

    /// Disconnects. Returns exit status and report.
    fn finish(mut self) -> (i32, serde_json::Value) {
        self.cores.clear();
        let status = self.model.wait().unwrap().code().unwrap();
        (
            status,
            serde_json::from_slice(&std::fs::read(&self.report).unwrap()).unwrap(),
        )
    }
}

impl Core {
    fn read(&mut self, region: u32, offset: u32) -> u32 {
        let mut word = [0; 4];
        self.client
            .region_read(region, offset.into(), &mut word)
            .unwrap();
        u32::from_le_bytes(word)
    }

    fn write(&mut self, region: u32, offset: u32, value: u32) {
        self.client
            .region_write(region, offset.into(), &value.to_le_bytes())
            .unwrap();
    }

    fn interrupted(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if self.interrupt.read().is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        false
    }

    /// Starts the front end on `units` of eight bytes.
    fn start(&mut self, address: u32, units: u32) {
        self.write(0, HI_CLOCK_CONTROL, 0x100);
        self.write(0, MC_MEMORY_BASE_ADDR_FE, RAM as u32);
        self.write(0, HI_INTR_ENBL, u32::MAX);
        self.write(0, FE_COMMAND_ADDRESS, address);
        self.write(0, FE_COMMAND_CONTROL, COMMAND_CONTROL_ENABLE | units);
    }
}

fn event_then_idle() -> [u32; 6] {
    [
        0x0801_0e01,
        4 | state::EVENT_FROM_FE,
        0x3800_00c8,
        0,
        0x4000_0002,
        8,
    ]
}

#[test]
fn an_event_becomes_an_interrupt_and_a_clean_report() {
    let mut machine = Machine::start("gc2000");
    assert_eq!(machine.read(0, HI_CHIP_MODEL), 0x2000);
    assert_eq!(machine.read(BAR_INDEX, 0), gpu_control::MAGIC_VALUE);
    machine.start_ring(&event_then_idle());
    assert!(machine.interrupted());
    assert_eq!(machine.read(0, HI_INTR_ACKNOWLEDGE), 1 << 4);
    machine.unmask();
    // The next event comes by patching the idle loop, which the model reads from shared memory.
    machine.put(0x100, &event_then_idle());
    machine.put(0x114, &[0x108]);
    machine.put(12, &[0x100]);
    machine.put(8, &[0x4000_0003]);
    assert!(machine.interrupted());
    assert_eq!(machine.read(0, HI_INTR_ACKNOWLEDGE), 1 << 4);
    assert_eq!(machine.read(BAR_INDEX, counter::INTERRUPTS as u32), 2);
    assert_eq!(machine.read(BAR_INDEX, counter::ACKNOWLEDGES as u32), 2);
    let (status, report) = machine.finish();
    assert_eq!(status, 0, "{report:#}");
    assert_eq!(report["board"], "gc2000");
    assert_eq!(report["counters"]["events"], 2);
    assert_eq!(report["violation_count"], 0);
}

#[test]
fn cores_of_a_machine_share_nothing_but_memory() {
    let mut machine = Machine::with_cores(&["gc2000", "gc320"]);
    assert_eq!(machine.cores[0].read(0, HI_CHIP_MODEL), 0x2000);
    assert_eq!(machine.cores[1].read(0, HI_CHIP_MODEL), 0x320);
    // The first core is held: the second core's event comes, the first core's only after its release.
    machine.cores[0].write(BAR_INDEX, fault::HOLD as u32, 1);
    machine.start_ring(&event_then_idle());
    machine.put(0x200, &event_then_idle());
    machine.put(0x214, &[0x208]);
    machine.cores[1].start(0x200, 3);
    assert!(machine.cores[1].interrupted());
    assert_eq!(machine.cores[1].read(0, HI_INTR_ACKNOWLEDGE), 1 << 4);
    assert!(machine.cores[0].interrupt.read().is_err());
    let pending = gpu_control::PENDING_INTERRUPTS as u32;
    assert_eq!(machine.cores[0].read(BAR_INDEX, pending), 0);
    machine.cores[0].write(BAR_INDEX, fault::HOLD as u32, 0);
    assert!(machine.interrupted());
    assert_eq!(machine.read(0, HI_INTR_ACKNOWLEDGE), 1 << 4);
    // A violation is in the report of its core, and in the exit status.
    machine.cores[1].read(0, 0x900);
    let second = machine.report.with_file_name("report-1.json");
    while !second.exists() {
        std::thread::yield_now();
    }
    let folder = machine.report.parent().unwrap().to_path_buf();
    let _kept = std::mem::replace(&mut machine._folder, tempfile::tempdir().unwrap());
    let (status, report) = machine.finish();
    assert_eq!((status, &report["board"]), (3, &"gc2000".into()));
    assert_eq!(report["violation_count"], 0);
    assert_eq!(report["counters"]["events"], 1);
    let report = std::fs::read(folder.join("report-1.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["board"], "gc320");
    assert_eq!(report["violations"][0]["kind"], "unknown-register");
}

#[test]
fn a_violation_makes_the_exit_status_3() {
    let mut machine = Machine::start("dove");
    machine.start_ring(&[0xf800_0000, 0]);
    let begun = Instant::now();
    while machine.read(BAR_INDEX, gpu_control::VIOLATIONS as u32) == 0 || !machine.report.exists() {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    // The report exists before the end.
    let report = std::fs::read(&machine.report).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["violations"][0]["kind"], "illegal-opcode");
    let (status, _) = machine.finish();
    assert_eq!(status, 3);
}

#[test]
fn sigterm_ends_with_a_report() {
    let mut machine = Machine::start("gc320");
    assert_eq!(machine.read(0, HI_CHIP_MODEL), 0x320);
    let id = machine.model.id().to_string();
    assert!(Command::new("sh")
        .args(["-c", &format!("kill -TERM {id}")])
        .status()
        .unwrap()
        .success());
    assert_eq!(machine.model.wait().unwrap().code(), Some(0));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&machine.report).unwrap()).unwrap();
    assert_eq!(report["counters"]["mmio_reads"], 1);
}

#[test]
fn memory_that_is_not_shared_is_refused_loudly() {
    use std::io::Read;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gpu.sock");
    let model = Command::new(env!("CARGO_BIN_EXE_gpu-model"))
        .args(["--board", "dove", "--socket"])
        .arg(&socket)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let mut stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(5), "{error}"),
        }
    };
    // A DMA_MAP message without a descriptor: header (id, command 2, size, flags, error), then argsz, read and
    // write flags, offset, address, size.
    let mut message = Vec::new();
    for half in [1u16, 2] {
        message.extend(half.to_le_bytes());
    }
    for word in [48u32, 0, 0, 32, 3] {
        message.extend(word.to_le_bytes());
    }
    for long in [0u64, RAM, 1 << 20] {
        message.extend(long.to_le_bytes());
    }
    stream.write_all(&message).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let output = model.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("memory-backend-memfd"));
}
