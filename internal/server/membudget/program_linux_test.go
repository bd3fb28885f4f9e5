package membudget

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

const smaps = `00400000-016a8000 r-xp 00001000 fe:00 131                              /usr/bin/perigee
Size:              19104 kB
Rss:               15008 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
016a8000-02ad8000 r--p 012a8000 fe:00 131                              /usr/bin/perigee
Anonymous:             0 kB
02ad8000-02bd1000 rw-p 026d8000 fe:00 131                              /usr/bin/perigee
Anonymous:             0 kB
02bd1000-02be0000 r--p 026d8000 fe:00 131                              /usr/bin/perigee
Anonymous:             4 kB
02c00000-02d00000 r--p 00000000 fe:00 132                              /opt/usr/bin/perigee
Anonymous:             0 kB
c000000000-c000800000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                        [stack]
Anonymous:            16 kB
`

// Only what can be read again is released: neither data that the program has changed, nor another
// file.
func TestUnchangedMappings(t *testing.T) {
	want := []mapping{{0x400000, 0x12a8000}, {0x16a8000, 0x1430000}}
	if got := unchangedMappings([]byte(smaps), "/usr/bin/perigee"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestReleaseProgramReducesResidentMemory(t *testing.T) {
	resident := func() int {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		kb, err := strconv.Atoi(string(regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kb
	}
	before := resident()
	releaseProgram()
	if after := resident(); after > before*3/4 {
		t.Errorf("%d kB of files are resident, %d before", after, before)
	}
}
