package terminal

import "log/slog"

// SetLevel sets a log level by its name. A nil level, and a name that is none, change nothing.
func SetLevel(v *slog.LevelVar, word string) {
	if v == nil {
		return
	}
	var level slog.Level
	if level.UnmarshalText([]byte(word)) == nil {
		v.Set(level)
	}
}
