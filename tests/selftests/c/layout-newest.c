// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks include/uapi/linux/galcore.h against the facts in tests/abi/6.4.11.txt
 * while it compiles, as layout.c does for 4.0.0. Not in the header, so that it is
 * as short as its commands: layouts of what the driver does not do, of what only
 * debuggers and profilers use, flags that are hints, and what this generation has
 * from older ones and does not use.
 *
 * absent: APBAXIFEAccess ConfigPowerManagement DebugDump DebugLevelZone DestroyMmu
 * absent: DeviceMutex GetFrameInfo GetFscaleValue GetGraphicBufferFd
 * absent: QueryCPUFrequency QueryChipFrequency ReadRegisterData ReadRegisterDataEx
 * absent: GetProfileSetting RegisterProfileData2D RegisterProfileData_part1
 * absent: RegisterProfileData_part2 SetProfileSetting SetProfilerRegisterClear
 * absent: SetFscaleValue SetPowerManagement SetVidMemMetadata WaitFence
 * absent: WriteRegisterData WriteRegisterDataEx gcoCMDBUF gcsQUEUE.iface
 * absent: HARDWARE_NUM_TYPES SURF_*
 * absent: ALLOC_FLAG_NONE ALLOC_FLAG_NON_PAGED ALLOC_FLAG_CPU_ACCESS
 * absent: ALLOC_FLAG_CACHEABLE ALLOC_FLAG_4GB_ADDR ALLOC_FLAG_DMABUF_EXPORTABLE
 * absent: ALLOC_FLAG_FAST_POOLS ALLOC_FLAG_NON_CPU_ACCESS ALLOC_FLAG_NO_EVICT
 * absent: ALLOC_FLAG_EXTERNAL_MEMORY ALLOC_FLAG_LINUX_RESERVED_MEM
 * absent: ALLOC_FLAG_1M_PAGES ALLOC_FLAG_4K_PAGES ALLOC_FLAG_32BIT_VA
 * absent: ALLOC_FLAG_PRIOR_32BIT_VA ALLOC_FLAG_ALLOC_ON_FAULT ALLOC_FLAG_MEMLIMIT
 * absent: ALLOC_FLAG_WITH_MIRROR ALLOC_FLAG_CMA_LIMIT ALLOC_FLAG_CMA_PREEMPT
 */
#include <stddef.h>
#include <linux/galcore.h>

#include "layout.h"
#include "facts.inc"
#include "layout-newest.inc"
