/* Takes the synchronising of directories from a program: what it renames may be lost in a power cut. */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
	struct stat about;

	if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode))
		return 0;
	return syscall(SYS_fsync, fd);
}
