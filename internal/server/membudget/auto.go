package membudget

// Bounds of Auto, in bytes.
const (
	leastAuto   = 256 << 20
	unknownAuto = 1 << 30
)

// Auto returns the size for limits.memory: auto. It is half of the memory of the machine or its
// control group, at least 256 MiB, and 1 GiB if that is unknown.
func Auto() int64 { return auto(systemMemory()) }

func auto(system int64) int64 {
	if system <= 0 {
		return unknownAuto
	}
	return max(system/2, leastAuto)
}
