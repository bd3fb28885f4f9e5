package membudget

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// releaseProgram gives the pages of the program's own file back to the system. The start of the
// program uses code from nearly all of it, 29 MB, of which an idle daemon needs a third. Pages are
// mapped again when they are used, from the system's cache of the file.
func releaseProgram() {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range unchangedMappings(maps, program) {
		// The kernel checks the range. The slice is only an address and a length: nothing is read
		// or written through it.
		_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), m.start)), m.size), unix.MADV_DONTNEED)
	}
}

type mapping struct{ start, size uintptr }

// unchangedMappings are the read-only mappings of a file in the format of /proc/PID/smaps. Mappings
// with pages that differ from the file are left out, since those pages cannot be read again: a
// program that is built to run at any address has relocated data, and a debugger writes breakpoints
// into the code.
func unchangedMappings(smaps []byte, file string) []mapping {
	var list []mapping
	var last mapping // of the file; zero while the lines belong to another mapping
	for line := range bytes.Lines(smaps) {
		text := strings.TrimSuffix(string(line), "\n")
		fields := strings.Fields(text)
		switch {
		case len(fields) < 2:
		case !strings.HasSuffix(fields[0], ":"): // 00400000-016a8000 r-xp 00000000 fe:00 131 /usr/bin/perigee
			last = mapping{}
			from, to, _ := strings.Cut(fields[0], "-")
			start, err := strconv.ParseUint(from, 16, 64)
			end, err2 := strconv.ParseUint(to, 16, 64)
			if err == nil && err2 == nil && (fields[1] == "r-xp" || fields[1] == "r--p") && strings.HasSuffix(text, " "+file) {
				last = mapping{start: uintptr(start), size: uintptr(end - start)}
			}
		case fields[0] == "Anonymous:" && fields[1] == "0" && last.size > 0:
			list = append(list, last)
		}
	}
	return list
}
