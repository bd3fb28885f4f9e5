package membudget

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                     uint32
	totalPhys, availPhys, totalPage, availPage       uint64
	totalVirtual, availVirtual, availExtendedVirtual uint64
}

// systemMemory is how much memory the machine has; 0 if unknown.
func systemMemory() int64 {
	status := memoryStatus{}
	status.length = uint32(unsafe.Sizeof(status))
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	if ok, _, _ := call.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return int64(status.totalPhys)
}
