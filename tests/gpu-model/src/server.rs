// SPDX-License-Identifier: GPL-2.0-only
//! The GPU as a PCI device over vfio-user: configuration space, the two BARs, INTx, DMA mappings.

use std::fs::File;
use std::io;
use std::io::Read;
use std::io::Write;
use std::mem::size_of;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use gpu_control::BAR_INDEX;
use gpu_control::BAR_SIZE;
use gpu_control::PCI_DEVICE_ID;
use gpu_control::PCI_VENDOR_ID;
use gpu_control::REGISTER_BAR_SIZE;
use vfio_bindings::bindings::vfio::*;
use vfio_user::DmaMapFlags;
use vfio_user::DmaUnmapFlags;
use vfio_user::IrqInfo;
use vfio_user::ServerBackend;
use vfio_user::ServerRegion;

use crate::control::ControlBar;
use crate::gpu::Gpu;
use crate::irq::Sink;

/// Exit status when the machine's memory cannot be used.
pub const EXIT_NO_SHARED_MEMORY: i32 = 4;

/// PCI configuration space: enough for a type 0 device with two memory BARs and INTA.
struct ConfigSpace([u8; 256]);

const COMMAND: usize = 0x04;
const BAR0: usize = 0x10;
const INTERRUPT_LINE: usize = 0x3c;

impl ConfigSpace {
    fn new() -> Self {
        let mut bytes = [0; 256];
        bytes[0..2].copy_from_slice(&PCI_VENDOR_ID.to_le_bytes());
        bytes[2..4].copy_from_slice(&PCI_DEVICE_ID.to_le_bytes());
        // Class 0xff matches no defined class, so no driver binds by class.
        bytes[0x0b] = 0xff;
        bytes[0x2c..0x2e].copy_from_slice(&PCI_VENDOR_ID.to_le_bytes());
        bytes[0x2e..0x30].copy_from_slice(&PCI_DEVICE_ID.to_le_bytes());
        // INTA.
        bytes[0x3d] = 1;
        Self(bytes)
    }

    fn read(&self, offset: u64, data: &mut [u8]) {
        for (index, byte) in data.iter_mut().enumerate() {
            *byte = self.0.get(offset as usize + index).copied().unwrap_or(0);
        }
    }

    /// Writable bits of a byte.
    fn writable(offset: usize) -> u8 {
        let bar_bits = |size: u64, byte: usize| !(size as u32 - 1).to_le_bytes()[byte];
        match offset {
            // Memory space, bus master; interrupt disable.
            COMMAND => 0x06,
            0x05 => 0x04,
            INTERRUPT_LINE => 0xff,
            BAR0..=0x13 => bar_bits(REGISTER_BAR_SIZE, offset - BAR0),
            0x18..=0x1b => bar_bits(BAR_SIZE, offset - 0x18),
            _ => 0,
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for (index, byte) in data.iter().enumerate() {
            let at = offset as usize + index;
            if let Some(cell) = self.0.get_mut(at) {
                let mask = Self::writable(at);
                *cell = *cell & !mask | byte & mask;
            }
        }
    }
}

/// The eventfd that the machine supplied for INTx.
struct EventFd(File);

impl Sink for EventFd {
    fn fire(&mut self) {
        if let Err(error) = self.0.write_all(&1u64.to_ne_bytes()) {
            log::error!("cannot raise the interrupt: {error}");
        }
    }

    fn withdraw(&mut self) -> bool {
        // A read of a blocking eventfd could hang. QEMU's eventfds do not block.
        let is_asked = rustix::fs::fcntl_getfl(&self.0)
            .is_ok_and(|flags| flags.contains(rustix::fs::OFlags::NONBLOCK));
        is_asked && self.0.read_exact(&mut [0; size_of::<u64>()]).is_ok()
    }
}

/// The device's side of the connection.
struct Device {
    gpu: Arc<Gpu>,
    config: ConfigSpace,
    control: ControlBar,
}

impl Device {
    fn new(gpu: Arc<Gpu>) -> Self {
        Self {
            gpu,
            config: ConfigSpace::new(),
            control: ControlBar::default(),
        }
    }

    /// Ends the program, which cannot work without the guest's memory.
    fn refuse_memory(&self, address: u64, size: u64, why: &str) -> ! {
        eprintln!("gpu-model: guest memory of {size:#x} bytes at {address:#x} {why}");
        self.gpu.finish();
        std::process::exit(EXIT_NO_SHARED_MEMORY);
    }
}

impl ServerBackend for Device {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => self.config.read(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX if data.len() == 4 && offset % 4 == 0 => {
                data.copy_from_slice(&self.gpu.mmio_read(offset as u32).to_le_bytes());
            }
            VFIO_PCI_BAR0_REGION_INDEX => {
                self.gpu.bad_access(offset, data.len(), false);
                data.fill(0);
            }
            BAR_INDEX => {
                // A compiler may merge or split loads. Each byte comes from the word that contains it.
                let mut word = [0; 4];
                for (index, byte) in data.iter_mut().enumerate() {
                    let at = offset as usize + index;
                    if index == 0 || at % 4 == 0 {
                        word = self.control.read(&self.gpu, at & !3).to_le_bytes();
                    }
                    *byte = word[at % 4];
                }
            }
            _ => data.fill(0),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => self.config.write(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => match data.try_into() {
                Ok(word) if offset % 4 == 0 => {
                    self.gpu.mmio_write(offset as u32, u32::from_le_bytes(word))
                }
                _ => self.gpu.bad_access(offset, data.len(), true),
            },
            BAR_INDEX if offset % 4 == 0 => {
                for (index, word) in data.chunks_exact(4).enumerate() {
                    let word = [word[0], word[1], word[2], word[3]];
                    self.control.write(
                        &self.gpu,
                        offset as usize + 4 * index,
                        u32::from_le_bytes(word),
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        if !flags.contains(DmaMapFlags::READ_WRITE) {
            log::info!("ignoring a mapping that is not writable: {size:#x} bytes at {address:#x}");
            return Ok(());
        }
        // The crate reports errors as success, and the guest would hang much later. So end here.
        let Some(file) = fd else {
            let text = "has no file descriptor. Start QEMU with -object \
                        memory-backend-memfd,id=ram,size=...,share=on and -M ...,memory-backend=ram";
            self.refuse_memory(address, size, text);
        };
        log::info!("memory: {size:#x} bytes at {address:#x}");
        if let Err(error) = self.gpu.memory.map_file(address, size, file, offset) {
            self.refuse_memory(address, size, &format!("cannot be mapped: {error}"));
        }
        Ok(())
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            self.gpu.memory.unmap_all()?;
        } else if self.gpu.memory.unmap(address, size)? == 0 {
            log::warn!("nothing was mapped in {size:#x} bytes at {address:#x}");
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.gpu.power_on_reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        _start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        if index != VFIO_PCI_INTX_IRQ_INDEX {
            return Ok(());
        }
        let line = &self.gpu.interrupts;
        if flags & VFIO_IRQ_SET_ACTION_MASK != 0 {
            line.mask();
        } else if flags & VFIO_IRQ_SET_ACTION_UNMASK != 0 {
            // With an eventfd, this would set up resampling, which only KVM uses.
            if flags & VFIO_IRQ_SET_DATA_EVENTFD == 0 {
                line.unmask();
            }
        } else if flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0
            && (flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 || count == 0)
        {
            let sink = fds.into_iter().next().filter(|_| count != 0);
            line.connect(sink.map(|file| Box::new(EventFd(file)) as Box<dyn Sink>));
        }
        Ok(())
    }
}

fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_BAR0_REGION_INDEX => REGISTER_BAR_SIZE,
                BAR_INDEX => BAR_SIZE,
                VFIO_PCI_CONFIG_REGION_INDEX => 256,
                _ => 0,
            };
            let flags = if size == 0 {
                0
            } else {
                VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE
            };
            let region_info = vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                flags,
                index,
                size,
                ..Default::default()
            };
            ServerRegion {
                region_info,
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

fn irqs() -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| {
            let (flags, count) = match index {
                VFIO_PCI_INTX_IRQ_INDEX => (
                    VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
                    1,
                ),
                _ => (0, 0),
            };
            IrqInfo {
                index,
                flags,
                count,
            }
        })
        .collect()
}

/// A socket that listens for the machine.
pub struct Server {
    gpu: Arc<Gpu>,
    server: vfio_user::Server,
}

impl Server {
    /// Creates the socket.
    pub fn new(gpu: Arc<Gpu>, socket: &Path) -> anyhow::Result<Self> {
        let server = vfio_user::Server::new(socket, true, irqs(), regions())
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
        Ok(Self { gpu, server })
    }

    /// Serves one connection until it closes.
    pub fn serve(self) {
        if let Err(error) = self.server.run(&mut Device::new(self.gpu)) {
            // A killed machine may leave a broken connection. The report has the relevant results.
            log::warn!("the connection broke: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use gpu_control::counter;
    use gpu_control::Board;

    use super::*;
    use crate::gpu::Options;
    use crate::registers::HI_CHIP_MODEL;

    fn device() -> Device {
        Device::new(Arc::new(Gpu::new(Options::new(Board::Dove)).unwrap()))
    }

    fn config_word(device: &mut Device, offset: u64) -> u32 {
        let mut data = [0; 4];
        device
            .region_read(VFIO_PCI_CONFIG_REGION_INDEX, offset, &mut data)
            .unwrap();
        u32::from_le_bytes(data)
    }

    #[test]
    fn bars_tell_their_size() {
        let mut device = device();
        for (offset, size) in [(0x10, REGISTER_BAR_SIZE), (0x18, BAR_SIZE), (0x14, 0)] {
            device
                .region_write(
                    VFIO_PCI_CONFIG_REGION_INDEX,
                    offset,
                    &u32::MAX.to_le_bytes(),
                )
                .unwrap();
            let expected = if size == 0 { 0 } else { !(size as u32 - 1) };
            assert_eq!(config_word(&mut device, offset), expected, "{offset:#x}");
        }
        assert_eq!(config_word(&mut device, 0), 0x4743_1234);
        assert_eq!(config_word(&mut device, 8), 0xff00_0000);
        assert_eq!(config_word(&mut device, 0x3c) >> 8, 1);
        device
            .region_write(VFIO_PCI_CONFIG_REGION_INDEX, 4, &[0xff, 0xff])
            .unwrap();
        assert_eq!(config_word(&mut device, 4), 0x0406);
    }

    #[test]
    fn registers_take_aligned_words_only() {
        let mut device = device();
        let mut word = [0; 4];
        device
            .region_read(0, HI_CHIP_MODEL.into(), &mut word)
            .unwrap();
        assert_eq!(u32::from_le_bytes(word), 0x600);
        assert_eq!(device.gpu.recorder.violation_count(), 0);
        let mut half = [0xaa; 2];
        device
            .region_read(0, HI_CHIP_MODEL.into(), &mut half)
            .unwrap();
        assert_eq!(half, [0, 0]);
        device.region_write(0, 2, &[0; 4]).unwrap();
        assert_eq!(device.gpu.recorder.violation_count(), 2);
        assert_eq!(device.gpu.counters.get(counter::MMIO_READS), 1);
    }

    #[test]
    fn control_words_can_be_read_in_pieces_and_are_not_counted() {
        let mut device = device();
        let mut bytes = [0; 8];
        device.region_read(BAR_INDEX, 0, &mut bytes).unwrap();
        assert_eq!(bytes[..4], gpu_control::MAGIC_VALUE.to_le_bytes());
        assert_eq!(bytes[4..], 1u32.to_le_bytes());
        let mut half = [0; 2];
        device.region_read(BAR_INDEX, 2, &mut half).unwrap();
        assert_eq!(half, gpu_control::MAGIC_VALUE.to_le_bytes()[2..]);
        assert_eq!(device.gpu.counters.get(counter::MMIO_READS), 0);
    }
}
