package terminal

import (
	"os"
	"runtime"
	"strings"
)

// WantsColour reports whether a terminal may be sent colours. See no-color.org.
func WantsColour() bool { return os.Getenv("NO_COLOR") == "" && controllable() }

// controllable reports whether a terminal obeys control sequences.
func controllable() bool {
	if os.Getenv("TERM") == "dumb" {
		return false
	}
	// The old console shows the codes themselves.
	return runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != ""
}

// The colours of a terminal, by their use.
const (
	Faint   = "2"
	Strong  = "1"
	Good    = "32"
	Warning = "33"
	Bad     = "31"
)

// Paint gives a text a colour.
func Paint(text, colour string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }

// A Palette has the colours of one stream. On a stream without colours, texts are unchanged.
type Palette struct{ on bool }

// PaletteOf returns the palette of a stream. Only a terminal that may be sent colours has any.
func PaletteOf(stream any) Palette { return Palette{WantsColour() && Is(stream)} }

// Paint gives a text a colour, unless the text is blank or the stream has no colours.
func (p Palette) Paint(text, colour string) string {
	if !p.on || colour == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return Paint(text, colour)
}
