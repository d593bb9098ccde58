// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Two processes: one makes memory and hands it on as a dma-buf, the other draws into it. A real pair would
 * send the descriptor over a socket; a child has it anyway.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define COLOUR 0xffcc3300u

/* The drawing process: it knows the descriptor, and nothing else of the other's. */
static int painter(int fd)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	struct memory surface;

	start(HAS_2D | HAS_3D);
	iface.u.WrapUserMemory.desc.flag = gcvALLOC_FLAG_DMABUF;
	iface.u.WrapUserMemory.desc.handle = fd;
	run(&iface, gcvHAL_WRAP_USER_MEMORY);
	surface = lock(iface.u.WrapUserMemory.node);
	fill(&surface, COLOUR);
	release(&surface);
	return 0;
}

int main(void)
{
	struct gcsHAL_INTERFACE iface = { 0 };
	struct memory surface;
	int fd, status;
	pid_t child;

	start(HAS_2D | HAS_3D);
	surface = allocate(BYTES, gcvPOOL_DEFAULT);
	memset((void *)surface.words, 0, BYTES);
	iface.u.ExportVideoMemory.node = surface.node;
	iface.u.ExportVideoMemory.flags = O_RDWR | O_CLOEXEC;
	run(&iface, gcvHAL_EXPORT_VIDEO_MEMORY);
	fd = iface.u.ExportVideoMemory.fd;
	child = fork();
	if (child < 0)
		fail("no second process");
	if (!child) {
		/* What its parent has open is not for its commands: it opens the device itself. */
		close(device);
		exit(painter(fd));
	}
	close(fd);
	if (waitpid(child, &status, 0) != child || status)
		fail("the other process has failed");
	expect(&surface, 0, 0, COLOUR);
	expect(&surface, WIDTH - 1, HEIGHT - 1, COLOUR);
	picture(&surface, "share");
	release(&surface);
	printf("process %d has drawn into the memory of process %d\n", (int)child, (int)getpid());
	return 0;
}
